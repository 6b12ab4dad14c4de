"""Filters: which samples are taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.plan.select import FUNCTIONS, judge, select
from dsprep.sources.readers import FileReader


def catalog(
    *paths: str,
    sizes: Sequence[int] = (),
    cls: Sequence[int] | None = None,
    label: Sequence[Sequence[float]] | None = None,
    classes: tuple[str, ...] | None = None,
) -> Catalog:
    table = pl.DataFrame(
        {
            "index": range(len(paths)),
            "path": paths,
            "size": sizes or [10] * len(paths),
            "mtime": [0] * len(paths),
        },
        {"index": pl.Int64, "path": pl.String, "size": pl.Int64, "mtime": pl.Int64},
    )
    if cls is not None:
        table = table.with_columns(cls=pl.Series(cls, dtype=pl.Int64))
    if label is not None:
        table = table.with_columns(label=pl.Series(label, dtype=pl.List(pl.Float64)))
    return Catalog(table, "here", classes, FileReader("here"))


PETS = catalog(
    "n01/a.jpg",
    "b/x.JPG",
    "it's/é.b.png",
    "猫/1.jpg",
    sizes=[5, 2000, 30, 4],
    cls=[3, 3, 1, 0],
    classes=("wild cat", "it's", "dog", "cat"),
)


def kept(expression: str, extra: pl.DataFrame | None = None, of: Catalog = PETS) -> list[int]:
    return of.table.filter(judge(of, expression, extra))["index"].to_list()


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        ("label = 3 AND size > 1000", [1]),
        ("class IN ('cat','dog')", [0, 1]),
        ("key LIKE 'n01%'", [0]),
        ("class LIKE '%cat%' OR NOT (size < 10)", [0, 1, 2, 3]),
        ("class = 'it''s'", [2]),
        ("class <> 'cat' and label != 0", [2]),
        ("key = 'it''s/é_b'", [2]),
        ("path LIKE '猫/%'", [3]),
        ("path LIKE '%.JPG'", [1]),
        ("path ILIKE '%.JPG'", [0, 1, 3]),
        ("index % 2 = 0", [0, 2]),
        ("size BETWEEN 5 AND 30", [0, 2]),
        ("size - -5 > 1e2", [1]),
        ("size/10 >= 3", [1, 2]),
        ('"class" = \'cat\' AND "size" < 10', [0]),
        ("class ~ '^c' AND class !~ 'x'", [0, 1]),
        ("CASE WHEN label = 3 THEN size > 10 ELSE size < 10 END", [1, 3]),
        ("LENGTH(key) = 5", [0]),
        ("lower(RIGHT(path, 3)) = 'jpg'", [0, 1, 3]),
        ("size = ANY(ARRAY[4, 5])", [0, 3]),
        ("CAST(size AS VARCHAR) = '5'", [0]),
        ("\n size\t> 1000 \n", [1]),
        ("class = ''' OR 1=1 --' OR size = 4", [3]),
        ("class = 'a\\' OR size = 4", [3]),
        ("size > GREATEST(label, 10)", [1, 2]),
    ],
)
def test_filter(expression: str, rows: list[int]) -> None:
    assert kept(expression) == rows


def test_what_is_left_is_as_it_was() -> None:
    filtered, chosen = select(PETS, "size < 10", None)
    assert chosen == (2, 0, 0)
    assert filtered.table.equals(PETS.table[[0, 3]])
    assert (filtered.root, filtered.classes, filtered.reader) == (
        PETS.root,
        PETS.classes,
        PETS.reader,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1))
def test_any_text_can_be_compared_to(names: list[str]) -> None:
    paths = [f"{number}.jpg" for number in range(len(names))]
    extra = pl.DataFrame({"path": paths, "name": names})
    for name in names:
        quoted = name.replace("'", "''")
        rows = kept(f"name = '{quoted}'", extra, catalog(*paths))
        assert rows == [number for number, each in enumerate(names) if each == name]


def test_lists_of_labels() -> None:
    detection = catalog("a.jpg", "b.jpg", label=[[4.0, 5.5], [1.0]])
    assert kept("label[1] = 4", of=detection) == [0]
    assert kept("ARRAY_LENGTH(label) = 1", of=detection) == [1]
    assert kept("5.5 = ANY(label)", of=detection) == [0]


def test_one_number_each_is_a_number() -> None:
    floats = catalog("a", "b", "c", label=[[0.5], [2], [3]])
    assert kept("label < 3", of=floats) == [0, 1]


def test_columns_of_a_table() -> None:
    extra = pl.DataFrame(
        {
            "path": ["猫/1.jpg", "elsewhere.jpg", "b/x.JPG", None, None],
            "split": ["train", "train", "val", "train", "train"],
            "my col": [1.5, 2.5, 3.5, 4.5, 5.5],
            "size": ["large"] * 5,
        }
    )
    assert kept("split = 'train'", extra) == [3]
    assert kept('"my col" > 2 OR size = 5', extra) == [0, 1]  # the samples' own size
    assert judge(PETS, "split <> 'train'", extra).to_list() == [None, True, None, False]
    assert kept("split IS NULL", extra) == [0, 2]
    assert kept("COALESCE(split, 'none') <> 'train'", extra) == [0, 1, 2]


def test_a_table_that_names_a_path_twice_is_refused() -> None:
    extra = pl.DataFrame({"path": ["b/x.JPG"] * 2, "split": ["train", "val"]})
    with pytest.raises(OptionError, match=r"names 'b/x\.JPG' twice"):
        kept("split = 'train'", extra)
    same = pl.DataFrame({"path": ["b/x.JPG"] * 2, "split": ["train"] * 2})
    assert kept("split = 'train'", same) == [1]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("colour = 'red'", "at character 1: no column colour; columns are index, path, "),
        ("size > 1 AND SIZE > 1", "at character 14: no column SIZE"),
        ('class = "dog"', "at character 9: no column dog.*between single quotes"),
        ("size >", "unable to parse 'size >'"),
        ("size > (3", r"unable to parse 'size > \(3'"),
        ("class = 'cat", r"at character 9: \"'cat\" is not understood"),
        ("size", "its value is Int64, not true or false: compare it to something"),
        ("class", "its value is String, not true or false"),
        ("class > 3", "cannot compare string with numeric"),
        ("CAST(class AS INT) > 3", "conversion from `str` to `i32` failed"),
        ("REGEXP_LIKE(class, '(')", "regex parse error"),
        ("", "names no column"),
        ("TRUE", "names no column"),
        ("1 = 1", "names no column"),
        ("*", "names no column"),
        ("class[1] = 'c'", "expected List"),
    ],
)
def test_what_makes_no_sense_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(OptionError, match=f"(?s)--filter .*{problem}"):
        kept(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "size = MAX(size)",
        "COUNT(*) > 2",
        "size > FIRST(size)",
        '"max"(size) = size',
        "SUM(size) OVER (PARTITION BY label) > 3",
        "size > ROW_NUMBER() OVER (ORDER BY size)",
        "unnest(ARRAY[1, size]) = 1",
        "COLUMNS('size') > 3",
        "size IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "random() > 0.5 AND size > 1",
        "size > 3; DROP TABLE x",
        "size > 3 -- 'and'",
        "size /* 'x' */ > 3",
        "class = $$it's$$",
        "`size` > 3",
        "class = E'\\''",
        "t.size > 3",
        "size > 3 AND CURRENT_DATE > 3",
    ],
)
def test_only_questions_about_one_sample_are_let_through(expression: str) -> None:
    with pytest.raises(OptionError, match="at character"):
        kept(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "size IN (SELECT size FROM read_csv('{}'))",
        "size IN (SELECT size FROM '{}')",
        "EXISTS (SELECT * FROM read_csv('{}'))",
        "size IN (WITH t AS (SELECT * FROM read_csv('{}')) SELECT size FROM t)",
        "read_csv('{}') = size",
    ],
)
def test_no_file_is_read(expression: str, tmp_path: Path) -> None:
    """Polars would, in the first and the third."""
    path = tmp_path / "sizes.csv"
    path.write_text("size\n5\n", "utf-8")
    with pytest.raises(OptionError, match="at character .*(no column|no function)"):
        kept(expression.format(path))


@pytest.mark.parametrize("name", ["^.*$", "*", "select", "from"])
def test_odd_names_of_columns_are_names(name: str) -> None:
    extra = pl.DataFrame({"path": ["b/x.JPG"], name: [True]})
    try:
        assert kept(f'"{name}"', extra) == [1]
    except OptionError as error:
        assert "not true or false" in str(error)


@pytest.mark.parametrize("function", sorted(FUNCTIONS - {"IF", "CAST", "TRY_CAST"}))
def test_functions_look_at_one_row(function: str) -> None:
    """What a function says of a sample does not depend on the others."""
    table = pl.DataFrame(
        {
            "path": ["a.jpg", "b.jpg", "c.jpg"],
            "text": ["b b", "ab", " c "],
            "number": [0.5, 2.0, 7.0],
            "list": [[1.0, 2.0], [3.0], [0.5, 0.5]],
        }
    )
    whole = catalog("a.jpg", "b.jpg", "c.jpg")
    for arguments in ("text", "number", "list", "number, 2", "text, 2", "text, 'b'", "list, 1"):
        for argument in (arguments, f"{arguments}, 'x'"):
            expression = f"{function}({argument}) IS NOT NULL AND {function}({argument})"
            for comparison in ("", " = 2", " > 1", " = 'b'"):
                try:
                    together = judge(whole, expression + comparison, table).to_list()
                except OptionError:
                    continue
                alone = [
                    judge(whole.slice(number, 1), expression + comparison, table).item()
                    for number in range(3)
                ]
                assert alone == together


def test_nothing_left_is_refused() -> None:
    with pytest.raises(SourceError, match="'size > 1000000' is true for none of 4 samples"):
        select(PETS, "size > 1000000", None)


def test_a_table_alone_leaves_out_what_it_does_not_keep(tmp_path: Path) -> None:
    table = tmp_path / "copies.tsv"
    table.write_text("path\tkeep\nb/x.JPG\tfalse\nn01/a.jpg\ttrue\n猫/1.png\tfalse\n")
    kept, chosen = select(PETS, None, str(table))
    # 猫/1.png is not there, and 猫/1.jpg is another file. What the table does not name stays.
    assert kept.table["path"].to_list() == ["n01/a.jpg", "it's/é.b.png", "猫/1.jpg"]
    assert (chosen.filtered, chosen.unknown) == (1, 0)
    table.write_text("path\tkeep\n")
    assert len(select(PETS, None, str(table))[0]) == 4
    table.write_text("key\tkeep\n猫/1\tfalse\n")
    assert len(select(PETS, None, str(table))[0]) == 3
