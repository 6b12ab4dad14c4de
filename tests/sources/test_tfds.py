"""What TFDS says of the records in a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from dsprep.schema import Field, Meaning, Schema
from dsprep.sources.shards.shardset import leaves, read_counts, read_features, require_records

RECORDS = ("ants-train.tfrecord-00000-of-00002", "ants-train.tfrecord-00001-of-00002")

IMAGE = {"image": {"dtype": "uint8", "encodingFormat": "png"}}
LABEL = {"classLabel": {"numClasses": "2"}}
TEXT: dict[str, Any] = {"text": {}}


class Table:
    """A format in which a file name is no field."""

    name = "records"

    def place_of(self, raw: str) -> str:
        return raw

    def meaning(self, place: str) -> Meaning:
        return Meaning("" if place == "file_name" else place)


def tensor(dtype: str, *shape: int, encoding: str = "none") -> dict[str, Any]:
    return {"tensor": {"dtype": dtype, "shape": _shape(shape), "encoding": encoding}}


def _shape(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"dimensions": list(map(str, shape))} if shape else {}


def features(**tree: Any) -> dict[str, Any]:
    return {"featuresDict": {"features": tree}}


def sequence(feature: Any) -> dict[str, Any]:
    return {"sequence": {"feature": feature, "length": "-1"}}


@pytest.mark.parametrize(
    ("feature", "kind"),
    [
        (IMAGE, "image"),
        (LABEL, "class"),
        (TEXT, "text"),
        (tensor("bool"), "bool"),
        (tensor("uint8"), "int"),
        (tensor("float64"), "float32"),
        (tensor("float32", 4), "list<float32>"),
        (tensor("bool", -1), "list<int>"),
        ({"boundingBox": {"dtype": "float32"}}, "list<float32>"),
        ({"video": {"shape": {}}}, "list<bytes>"),
        (sequence(IMAGE), "list<bytes>"),
        (sequence(LABEL), "list<int>"),
        (sequence(TEXT), "list<text>"),
        (sequence({"boundingBox": {}}), "list<float32>"),
        # A look tells these.
        (tensor("string"), None),
        (tensor("object"), None),
        (tensor("float32", 4, encoding="zlib"), None),
        (tensor("uint8", -1, -1), None),
        (sequence(sequence(LABEL)), None),
        (sequence({"video": {}}), None),
        ({"jsonFeature": {"json": "{}"}}, None),
    ],
)
def test_features_have_types(feature: dict[str, Any], kind: str | None) -> None:
    assert list(leaves(features(x=feature))) == ([("x", kind, False)] if kind else [])


def test_nested_features_have_names_with_slashes() -> None:
    objects = sequence(features(label=LABEL, bbox={"boundingBox": {}}, masks=sequence(LABEL)))
    tree = features(objects=objects, meta=features(id=tensor("int64"), note={"optional": TEXT}))
    tree["featuresDict"]["features"]["by"] = {"optional": {"feature": TEXT}}
    assert list(leaves(tree)) == [
        ("objects/label", "list<int>", False),
        ("objects/bbox", "list<float32>", False),
        ("meta/id", "int", False),
        ("by", "text", True),
    ]


def write(root: Path, tree: Any, **info: Any) -> list[str]:
    (root / "features.json").write_text(json.dumps(tree))
    (root / "dataset_info.json").write_text(json.dumps(info))
    return [str(root / name) for name in RECORDS]


def test_a_schema(tmp_path: Path) -> None:
    keys = {"tuple": {"items": [{"featureKey": "photo"}, {"featureKey": "species"}]}}
    lengths = [{"name": "train", "shardLengths": ["5", "4"]}, {"name": "test"}]
    tree = features(mask=IMAGE, photo=IMAGE, species=LABEL, file_name=TEXT)
    files = write(tmp_path, tree, supervisedKeys=keys, splits=lengths[:1])
    (tmp_path / "species.labels.txt").write_text("ant\nbee\n")
    assert read_features(str(tmp_path), files, Table()) == Schema(
        (
            Field("mask", "image", places=(("mask",),), told="features.json"),
            Field("photo", "image", places=(("photo",),), told="features.json"),
            Field("species", "class", False, ("ant", "bee"), (("species",),), "features.json"),
        ),
        "photo",
        "species",
        "records",
    )
    assert list(read_counts(str(tmp_path), files).values()) == [5, 4]
    assert read_counts(str(tmp_path), [f"{tmp_path}/ants-dev.tfrecord-00000-of-00001"]) == {}


@pytest.mark.parametrize("tree", [[], {}, {"type": "FeaturesDict", "content": {}}])
def test_a_file_that_tells_nothing(tmp_path: Path, tree: Any) -> None:
    assert read_features(str(tmp_path), write(tmp_path, tree), Table()) is None


@pytest.mark.parametrize("tree", [{"featuresDict": 1}, features(x=1), features(x={"tensor": 1})])
def test_a_file_that_is_wrong(tmp_path: Path, tree: Any) -> None:
    with pytest.raises(SourceError, match="is not what TFDS writes"):
        read_features(str(tmp_path), write(tmp_path, tree), Table())


def test_other_records_in_the_directory(tmp_path: Path) -> None:
    write(tmp_path, features(x=IMAGE))
    assert read_features(str(tmp_path), [f"{tmp_path}/train.tfrecord"], Table()) is None
    (tmp_path / "features.json").unlink()
    assert read_features(str(tmp_path), [f"{tmp_path}/{RECORDS[0]}"], Table()) is None


def test_array_records_are_refused() -> None:
    require_records(["a.tfrecord-00000-of-00001"])
    with pytest.raises(SourceError, match="--out_file_format=tfrecord"):
        require_records(["a-train.array_record-00000-of-00001"])
