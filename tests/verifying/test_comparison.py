"""`verify --against`: shards of any options, samples of one name or of none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.images.transform import Transform
from tests.images import image_folder, jpeg, png


def problems(dest: Path, source: Path, **options: Any) -> list[str]:
    against = dsprep.make_source(str(source), **options)
    return [
        each.message
        for each in dsprep.verify(str(dest), decode=True, against=against, workers=1).problems
    ]


@pytest.mark.parametrize(
    "transform",
    [
        Transform(resize=(16, 16)),
        Transform(resize=16, crop=(12, 8)),
        Transform(resize=20, encode="png", color="gray"),
    ],
    ids=str,
)
def test_images_that_were_transformed_are_not_compared(
    photos: Path, tmp_path: Path, transform: Transform
) -> None:
    dsprep.pack(
        str(photos), str(tmp_path / "a"), format="webdataset", transform=transform, workers=1
    )
    report = dsprep.verify(str(tmp_path / "a"), against=str(photos), workers=1)
    assert report.problems == []
    assert report.notes == ["images not compared, because they were transformed"]


@pytest.mark.parametrize(
    "options",
    [
        {"format": "webdataset", "rename": {"image": "img"}},
        {"format": "webdataset", "rename": {"label": "mine"}},
        {"format": "tfrecord", "rename": {"image": "img/raw"}},
        {"format": "tfrecord", "rename": {"label": "mine"}},
        {"format": "tfrecord", "features": "inception"},
    ],
    ids=str,
)
def test_names_that_were_chosen_are_read(
    photos: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    dsprep.pack(str(photos), str(tmp_path / "a"), workers=1, **options)
    assert problems(tmp_path / "a", photos) == []
    shutil.copytree(photos, tmp_path / "source")
    (tmp_path / "source" / "a-class-more").mkdir()
    shutil.copy(photos / "cat" / "000.jpg", tmp_path / "source" / "a-class-more" / "0.jpg")
    found = problems(tmp_path / "a", tmp_path / "source")
    assert len([each for each in found if "its label" in each]) == 24


def test_files_that_differ_by_extension_are_two_samples(tmp_path: Path) -> None:
    (tmp_path / "source" / "a").mkdir(parents=True)
    (tmp_path / "source" / "b").mkdir()
    for name, data in (("a/x.jpg", jpeg(1)), ("a/x.png", png(2)), ("b/y.jpg", jpeg(3))):
        (tmp_path / "source" / name).write_bytes(data)
    dsprep.pack(str(tmp_path / "source"), str(tmp_path / "out"), format="tfrecord", workers=1)
    assert problems(tmp_path / "out", tmp_path / "source") == []


@pytest.mark.parametrize(
    "options",
    [
        {"format": "webdataset", "key": "index"},
        {"format": "tfrecord"},
        {"format": "tfrecord", "features": "slim"},
        {"format": "recordio"},
    ],
    ids=str,
)
def test_a_file_may_be_listed_twice(tmp_path: Path, options: dict[str, Any]) -> None:
    image_folder(tmp_path / "source", (".",), per_class=4)
    table = tmp_path / "labels.csv"
    table.write_text("path,label\n" + "".join(f"{n % 3:03d}.jpg,{n}\n" for n in range(6)))
    told = {"labels": str(table), "duplicates": "keep"}
    dsprep.pack(str(tmp_path / "source"), str(tmp_path / "a"), workers=1, **told, **options)
    assert problems(tmp_path / "a", tmp_path / "source", **told) == []
    table.write_text(table.read_text().replace("002.jpg,5", "002.jpg,7"))
    (label,) = problems(tmp_path / "a", tmp_path / "source", **told)
    assert "its label is not that of 002.jpg" in label


def test_places_are_no_names(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / f"{number}.jpg").write_bytes(jpeg(number))
    dsprep.pack(
        str(source), str(tmp_path / "a"), format="tfrecord", features="slim", shards=3, workers=1
    )
    assert problems(tmp_path / "a", source) == []
    (source / "7.jpg").unlink()
    assert problems(tmp_path / "a", source) == ["the source holds no such sample"]
