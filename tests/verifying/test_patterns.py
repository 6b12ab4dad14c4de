"""`verify` takes patterns, repositories and their sides, as `convert` does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Finished

Run = Callable[..., Finished]


def verified(run_here: Run, *args: object, code: int = 0) -> dict[str, Any]:
    done = run_here("verify", *args, "--json", "-j", 1)
    assert done.code == code, done.out + done.err
    return dict(json.loads(done.out))


@pytest.fixture
def shards(run_here: Run, photos: Path, tmp_path: Path) -> Path:
    """Four shards with their manifest."""
    for format in ("webdataset", "tfrecord"):
        made = run_here(
            "pack", photos, tmp_path / format, "--format", format, "--shards", 4, "-j", 1
        )
        assert made.code == 0, made.err
    return tmp_path


@pytest.fixture
def repository(run_here: Run, photos: Path, tmp_path: Path) -> Path:
    """A repository of Hugging Face with two sides of two shards each."""
    made = run_here("pack", photos, tmp_path / "out", "--format", "parquet", "--shards", 4, "-j", 1)
    assert made.code == 0, made.err
    data = tmp_path / "repository" / "data"
    data.mkdir(parents=True)
    (data.parent / "README.md").write_text("# photos")
    for number, path in enumerate(sorted((tmp_path / "out").glob("*.parquet"))):
        side = ("train", "test")[number % 2]
        shutil.copy(path, data / f"{side}-{number // 2:05d}-of-00002.parquet")
    return data.parent


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("webdataset/train-*.tar", 4),
        ("webdataset/train-00000[0-2].tar", 3),
        ("webdataset/train-{000000..000001}.tar", 2),
        ("webdataset/train-{000003,000001}.tar", 2),
        ("tfrecord/train-0000{1..2}*", 2),
        ("tfrecord/train-*", 4),
        ("webdataset*/*3.tar", 1),
    ],
)
def test_shards_of_a_pattern_are_compared_with_the_manifest(
    run_here: Run, shards: Path, pattern: str, count: int
) -> None:
    report = verified(run_here, shards / pattern)
    assert (report["shards"], report["manifest"]) == (count, True)
    assert report["samples"] == 6 * count
    assert "checksums" in report["checked"]


def test_a_shard_of_a_pattern_that_has_changed_is_found(run_here: Run, shards: Path) -> None:
    for number in (1, 3):
        path = shards / "webdataset" / f"train-00000{number}.tar"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    report = verified(run_here, shards / "webdataset" / "train-00000[0-2].tar", code=3)
    assert {each["file"] for each in report["problems"]} == {"train-000001.tar"}


def test_one_shard_of_several_is_compared_with_their_manifest(run_here: Run, shards: Path) -> None:
    made = run_here("convert", shards / "webdataset", shards / "alone", "--apart", "-j", 1,
                    "--to", "webdataset")  # fmt: skip
    assert made.code == 0, made.err
    for root in (shards / "webdataset", shards / "alone"):  # the latter's manifest lies beside it
        first, second, *_ = sorted(root.glob("*.tar"))
        report = verified(run_here, second)
        assert (report["shards"], report["samples"], report["manifest"]) == (1, 6, True)
        shutil.copyfile(first, second)
        report = verified(run_here, second, code=3)
        assert {each["file"] for each in report["problems"]} == {second.name}


def test_without_a_manifest_they_are_looked_at(run_here: Run, shards: Path) -> None:
    (shards / "webdataset" / "manifest.json").unlink()
    shutil.copytree(shards / "webdataset", shards / "more")
    report = verified(run_here, shards / "webdataset" / "*-00000[01].tar", "--decode")
    assert (report["shards"], report["samples"], report["manifest"]) == (2, 12, False)
    assert [each["role"] for each in report["fields"]][:2] == ["image", "label"]
    report = verified(run_here, shards / "{webdataset,more}" / "*.tar")
    assert (report["shards"], report["samples"]) == (8, 48)


def test_a_pattern_can_be_compared_with_its_source(
    run_here: Run, shards: Path, photos: Path
) -> None:
    pattern = shards / "webdataset" / "train-*.tar"
    assert verified(run_here, pattern, "--against", photos)["problems"] == []
    report = verified(run_here, shards / "webdataset" / "*-000000.tar", "--against", photos, code=3)
    assert len(report["problems"]) == 18


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("webdataset/val-*.tar", "there are no such files"),
        ("webdataset/train-{000002..000005}.tar", "train-000004.tar: there is no such shard"),
        ("*/train-0*", "--against goes with one data set"),
        ("nothing.tar", "does not exist; give a directory of shards, or a shard"),
    ],
)
def test_what_is_not_there_is_said(
    run_here: Run, shards: Path, photos: Path, pattern: str, message: str
) -> None:
    done = run_here("verify", shards / pattern, "--against", photos, "-j", 1)
    assert done.code in (2, 4)
    assert message in done.err


def test_shards_of_two_formats_in_one_pattern_are_refused(run_here: Run, shards: Path) -> None:
    (mixed := shards / "mixed").mkdir()
    shutil.copy(next((shards / "webdataset").glob("*.tar")), mixed / "a.tar")
    shutil.copy(next((shards / "tfrecord").glob("train-*")), mixed / "b.tfrecord")
    done = run_here("verify", mixed / "[ab]*", "-j", 1)
    assert (done.code, "shards of tfrecord and webdataset" in done.err) == (4, True), done.err


def test_a_repository_and_its_sides(run_here: Run, repository: Path) -> None:
    report = verified(run_here, repository, "--decode")
    assert (report["format"], report["shards"], report["samples"]) == ("parquet", 4, 24)
    assert {each["role"] for each in report["fields"]} >= {"image", "label"}
    side = verified(run_here, repository / "train")
    assert (side["shards"], side["samples"]) == (2, 12)
    one = verified(run_here, repository / "data" / "test-00001-of-00002.parquet")
    assert (one["shards"], one["samples"]) == (1, 6)
    path = repository / "data" / "train-00000-of-00002.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    report = verified(run_here, repository, code=3)
    assert {each["file"] for each in report["problems"]} == {path.name}
