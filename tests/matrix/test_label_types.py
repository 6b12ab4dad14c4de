"""Labels of each type, from a table to each format that holds them, and back."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl
import pytest

import dsprep
from dsprep.errors import OptionError
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.images import jpeg
from tests.missing import framework

TO = (
    *("webdataset", "tfrecord", "recordio", "recordio-protobuf", "parquet", "mds", "folder"),
    "augmented-manifest",
)
COUNT = 6


class Labels(NamedTuple):
    """A table's labels, and what comes back."""

    columns: dict[str, list[Any]]
    options: dict[str, Any]
    expected: list[Any]
    refused: tuple[str, ...] = ()  # the formats that cannot hold them


TAGS = ["a", "a b", "b c", "c", "a b c", "b"]
LABELS = {
    "class": Labels({"label": list("cababc")}, {}, [2, 0, 1, 0, 1, 2]),
    "number": Labels({"label": [3, 1, 4, 1, 5, 9]}, {}, [3, 1, 4, 1, 5, 9]),
    "multi": Labels(
        {"label": TAGS},
        {"label_type": "multi", "label_separator": " "},
        [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]],
    ),
    "float": Labels(
        {"label": [0.5, -1.25, 3, 4, 5, 6]}, {"label_type": "float"}, [0.5, -1.25, 3, 4, 5, 6]
    ),
    "floats": Labels(
        {"x": [0.5, 1, 2, 3, 4, 5], "y": [9, 8, 7, 6, 5, 4.5]},
        {"label_columns": ("x", "y")},
        [[0.5, 9], [1, 8], [2, 7], [3, 6], [4, 5], [5, 4.5]],
    ),
    "text": Labels(
        {"label": ["ab", "007", "é\u3042", "a b", "1.50", "x"]},
        {"label_type": "text"},
        ["ab", "007", "é\u3042", "a b", "1.50", "x"],
        ("recordio",),
    ),
}


def write_images(root: Path) -> list[str]:
    root.mkdir()
    names = [f"{number}.jpg" for number in range(COUNT)]
    for number, name in enumerate(names):
        (root / name).write_bytes(jpeg(seed=number, size=(32, 24)))
    return names


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("to", TO)
def test_labels_come_back(tmp_path: Path, to: str, kind: str) -> None:
    columns, options, expected, refused = LABELS[kind]
    names = write_images(tmp_path / "images")
    pl.DataFrame({"path": names} | columns, strict=False).write_csv(tmp_path / "t.csv")
    given = {"labels": tmp_path / "t.csv", "workers": 1, **options}

    def write() -> None:
        dsprep.convert(tmp_path / "images", tmp_path / "out", to=to, **given)

    if to in refused:
        with pytest.raises(OptionError, match="label"):
            write()
        return
    write()
    again = {"label_type": "text"} if kind == "text" else {}
    dsprep.convert(tmp_path / "out", tmp_path / "back", to="webdataset", workers=1, **again)
    # The order of samples is that of the table.
    assert labels_in(tmp_path / "back") == expected
    if kind == "text":  # which has no classes
        assert not any(path.name.endswith("classes.txt") for path in tmp_path.rglob("*"))
    if kind == "multi":
        assert (tmp_path / "back/classes.txt").read_text().split() == ["a", "b", "c"]


def labels_in(shards: Path) -> list[Any]:
    """Return the labels of shards of WebDataset."""
    found = []
    (path,) = shards.glob("*.tar")
    with tarfile.open(path) as tar:
        for member in tar:
            _, _, extension = member.name.partition(".")
            if extension == "jpg":
                continue
            file = tar.extractfile(member)
            assert file is not None
            data = file.read()
            found.append(data.decode() if extension.endswith("txt") else json.loads(data))
    return found


@pytest.mark.parametrize("separator", [" ", "|", ",", ", "])
def test_tags_are_those_of_scikit_learn(tmp_path: Path, separator: str) -> None:
    preprocessing = framework("sklearn.preprocessing")
    random = Random(separator)
    tags = ("haze", "Clear", "primary", "agriculture", "é", "partly_cloudy", "9a")
    drawn = [random.sample(tags, random.randint(1, 5)) for _ in range(COUNT)]
    names = write_images(tmp_path / "images")
    cells = pl.DataFrame({"path": names, "tags": [separator.join(each) for each in drawn]})
    cells.write_csv(tmp_path / "t.csv")
    source = make_source(
        tmp_path / "images", labels=tmp_path / "t.csv", label_separator=separator.strip() or " "
    )
    binarizer = preprocessing.MultiLabelBinarizer()
    catalog, _ = read_source(source)
    assert catalog.table["label"].to_list() == binarizer.fit_transform(drawn).tolist()
    assert catalog.classes == tuple(binarizer.classes_)
