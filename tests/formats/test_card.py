"""Dataset cards: what `datasets` and the Hub read of them, and that they are never replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import DestinationError, OptionError
from dsprep.formats.card import Split, card, size_category
from dsprep.storage.files import read_bytes
from tests.images import image_folder
from tests.missing import framework
from tests.servers.bucket import Bucket
from tests.sources.boxes import box, coco, write

LICENSE = "cc-by-4.0"


def photos(root: Path) -> Path:
    for side, number in (("train", 3), ("val", 2)):
        image_folder(root / side, ("cat", 'a "dog": ü'), number, (16, 12))
    return root


def packed(root: Path, out: Path | str, **options: Any) -> Any:
    options = {"to": "parquet", "workers": 1, "card": True, "license": LICENSE} | options
    return dsprep.pack(root, out, **options)


def test_the_library_shows_splits_classes_and_sizes(tmp_path: Path) -> None:
    datasets, hub = framework("datasets"), framework("huggingface_hub")
    out = tmp_path / "out"
    packed(photos(tmp_path / "set"), out, samples_per_shard=4)
    told = hub.DatasetCard.load(out / "README.md").data.to_dict()
    assert (told["license"], told["size_categories"]) == (LICENSE, ["n<1K"])
    files = told["configs"][0]["data_files"]
    assert [each["split"] for each in files] == ["train", "val"]
    found = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    counts = {name: len(rows) for name, rows in found.items()}
    assert counts == {"train": 6, "val": 4}
    assert {each["name"]: each["num_examples"] for each in told["dataset_info"]["splits"]} == counts
    assert found["train"].features["label"].names == ['a "dog": ü', "cat"]
    assert datasets.Features._from_yaml_list(told["dataset_info"]["features"]) == (
        found["train"].features
    )
    assert not dsprep.verify(out, against=tmp_path / "set", workers=1).problems


def test_objects_and_captions_have_features(tmp_path: Path) -> None:
    datasets = framework("datasets")
    names = ["a.jpg", "b.jpg"]
    captions = coco(names, [{"id": 1, "image_id": 1, "caption": "x"}])
    files = {"instances_a.json": coco(names, [box(1, 1)]), "captions_a.json": captions}
    root = write(tmp_path / "set", {**dict.fromkeys(names), **files})
    packed(root, tmp_path / "out", shuffle=False)
    found = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    (rows,) = found.values()
    assert rows.features["objects"]["category"].feature.names == ["cat", "dog"]
    assert [each["caption"] for each in rows] == [["x"], None]


def test_the_same_bytes_and_one_that_is_there_stays(tmp_path: Path) -> None:
    root = photos(tmp_path / "set")
    for name, workers in (("one", 1), ("two", 2)):
        packed(root, tmp_path / name, workers=workers)
    first, second = ((tmp_path / name / "README.md").read_bytes() for name in ("one", "two"))
    assert first == second and LICENSE.encode() in first
    own = tmp_path / "own"
    own.mkdir()
    (own / "README.md").write_text("mine")
    for overwrite in (False, True):
        report = packed(root, own, overwrite=overwrite, seed=int(overwrite))
        assert (own / "README.md").read_text() == "mine"
        assert "README.md is there, and stays as it is: no card is written" in report.notes
        assert not dsprep.verify(own, workers=1).problems
    assert "README.md" not in (own / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("MIT", ['license: "mit"']),
        ("CC-BY-NC-SA-4.0", ['license: "cc-by-nc-sa-4.0"']),
        ("My-License", ['license: "other"', 'license_name: "My-License"']),
        ("", []),
    ],
)
def test_a_license_is_named_as_the_hub_names_it(given: str, lines: list[str]) -> None:
    written = card({}, [], given).decode().splitlines()
    assert [line for line in written if line.startswith("license")] == lines


def test_another_license_or_none_is_named(tmp_path: Path) -> None:
    root, out = photos(tmp_path / "set"), tmp_path / "out"
    packed(root, out)
    with pytest.raises(DestinationError, match=r"wrote \(other license\)"):
        packed(root, out, license="mit")
    with pytest.raises(DestinationError, match=r"wrote \(other card, license\)"):
        packed(root, out, card=False, license=None)


def test_on_s3(tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    root = photos(tmp_path / "set")
    packed(root, tmp_path / "out")
    packed(root, f"{localstack.url}/out")
    there = read_bytes(f"{localstack.url}/out/README.md")
    assert there == (tmp_path / "out/README.md").read_bytes()
    assert not dsprep.verify(f"{localstack.url}/out").problems


@pytest.mark.parametrize(
    ("options", "said"),
    [({"to": "tfrecord"}, "--card has no effect"), ({"card": False}, "--license")],
)
def test_without_effect(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        packed(photos(tmp_path / "set"), tmp_path / "out", **options)


def test_one_file_has_none(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="describes a directory of shards"):
        packed(photos(tmp_path / "set"), tmp_path / "out.parquet")


def test_files_of_a_split_are_no_others() -> None:
    yaml = framework("yaml")

    def paths(*splits: tuple[str, list[str]]) -> list[Any]:
        data = card({}, [Split(name, files, 1, 1) for name, files in splits])
        _, text, _ = data.decode().split("---\n")
        (config,) = yaml.safe_load(text)["configs"]
        return [(each["split"], each["path"]) for each in config["data_files"]]

    of = "0000{}-of-00002.parquet"  # train-0*.parquet means no file of train-x
    train, extra = ([f"{name}-{of.format(at)}" for at in (0, 1)] for name in ("train", "train-x"))
    assert paths(("", train)) == [("train", "train-*.parquet")]
    assert paths(("train", train), ("train-x", extra)) == [
        ("train", train),
        ("train_x", "train-x-*.parquet"),
    ]
    assert paths(("a", ["[1]-0.parquet", "[1]-1.parquet"]))[0][1] == [
        "[1]-0.parquet",
        "[1]-1.parquet",
    ]
    odd = yaml.safe_load(
        card({"x\x7f": {"_type": "ClassLabel", "names": ["\u2028", "no", "🐈"]}}, [])
        .decode()
        .split("---\n")[1]
    )["dataset_info"]["features"]
    assert odd == [
        {
            "name": "x\x7f",
            "dtype": {"class_label": {"names": {"0": "\u2028", "1": "no", "2": "🐈"}}},
        }
    ]


def test_sizes() -> None:
    found = [size_category(samples) for samples in (0, 999, 1000, 9999, 10_000, 10**6, 10**12)]
    assert found == ["n<1K", "n<1K", "1K<n<10K", "1K<n<10K", "10K<n<100K", "1M<n<10M", "n>1T"]
