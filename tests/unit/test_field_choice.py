"""Which fields are kept, and what a misspelled name of one leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.planning.fields import choose_fields
from tests.images import image_folder


@pytest.mark.parametrize(
    ("only", "drop", "rename", "unmatched"),
    [
        ((), (), {}, []),
        (("image", "cls"), (), {}, []),
        (("jpg",), ("txt",), {}, ["txt"]),
        ((), ("image",), {"class": "b"}, ["class"]),
    ],
)
def test_names_that_no_field_has(
    only: tuple[str, ...], drop: tuple[str, ...], rename: dict[str, str], unmatched: list[str]
) -> None:
    assert choose_fields(only, drop, rename).unmatched(["jpg", "cls"]) == unmatched


def test_without_an_image_there_is_none_to_name() -> None:
    assert choose_fields(("image",), (), {}).unmatched(["cls"]) == ["image"]


def test_a_misspelled_field_is_said(tmp_path: Path) -> None:
    image_folder(tmp_path / "images", ("a",), 2)
    shard = str(tmp_path / "train.tar")
    dsprep.pack(str(tmp_path / "images"), shard, workers=1)
    report = dsprep.convert(
        shard, str(tmp_path / "out"), to="tfrecord", drop=["clss"], dry_run=True, workers=1
    )
    assert report.notes == ["no sample has the field clss"]
