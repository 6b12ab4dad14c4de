"""Tables of plan files: the same again, and refused when anything in them is wrong."""

from __future__ import annotations

import io
import json
import struct
import zlib

import polars as pl
import pytest

from dsprep.catalog import AT_ONCE
from dsprep.plan.tables import read_table, write_table

ROWS = AT_ONCE + 3  # more than a block has
REFUSED = (ValueError, LookupError, TypeError, struct.error, zlib.error)  # as `saved` refuses them


def bytes_of(whole: pl.DataFrame) -> bytes:
    write_table(whole, file := io.BytesIO())
    return file.getvalue()


def table(rows: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "index": pl.Series(range(rows), dtype=pl.Int32),
            "path": pl.Series([f"é{n % 7}/{n}.jpg" for n in range(rows)], dtype=pl.String),
            "size": pl.Series([2**40 + n for n in range(rows)], dtype=pl.Int64),
            "label": pl.Series([[n / 4] for n in range(rows)], dtype=pl.List(pl.Float64)),
            "masks": pl.Series([[n] * (n % 3) for n in range(rows)], dtype=pl.List(pl.Int64)),
        }
    )


@pytest.mark.parametrize("rows", [0, 3, ROWS])
def test_a_table_is_the_same_again(rows: int) -> None:
    whole = table(rows)
    again = read_table(io.BytesIO(bytes_of(whole)))
    assert again.schema == whole.schema
    assert again.equals(whole)


def test_what_has_nulls_is_not_written() -> None:
    with pytest.raises(ValueError, match="cannot hold nulls"):
        bytes_of(pl.DataFrame({"size": [1, None]}))


def test_no_byte_that_is_wrong_does_harm() -> None:
    data, refused = bytes_of(table(5)), 0
    for at in range(len(data)):
        for flipped in (1, 0x80, 0xFF):
            wrong = bytearray(data)
            wrong[at] ^= flipped
            try:
                read_table(io.BytesIO(wrong))
            except REFUSED:
                refused += 1
    assert refused > 2.5 * len(data)
    for end in range(len(data)):
        with pytest.raises(REFUSED):
            read_table(io.BytesIO(data[:end]))


@pytest.mark.parametrize(
    ("kind", "blocks"),
    [
        ("int32", [bytes(8), bytes(4)]),  # more than three numbers
        ("int32", [bytes(8)]),
        ("text", [b"a\0b\0c"]),
        ("text", [b"a\0b\0c\0d\0"]),
        ("text", [b"a\0\xff\0c\0"]),
        ("list of int32", [struct.pack("<3q", 2, -1, 1), bytes(8)]),
        ("list of int32", [struct.pack("<3q", 1, 1, 1 << 62), bytes(8)]),
        ("list of text", [struct.pack("<3q", 1, 1, 1), b"a\0b\0c\0"]),
        ("int32", [bytes(1 << 24)]),
    ],
)
def test_what_is_no_column_of_three_rows(kind: str, blocks: list[bytes]) -> None:
    data = json.dumps({"rows": 3, "columns": [["x", kind]]}).encode() + b"\n"
    for block in blocks:
        packed = zlib.compress(block)
        data += struct.pack("<QQ", len(packed), len(block)) + packed
    with pytest.raises(REFUSED):
        read_table(io.BytesIO(data))
