"""What a destination's name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsprep.errors import OptionError
from dsprep.planning.destination import Destination, parse_destination, require_apart


@pytest.mark.parametrize(
    ("name", "format_name", "stem"),
    [
        ("train.rec", "recordio", "train"),
        ("train.tar", "webdataset", "train"),
        ("train.tfrecord", "tfrecord", "train"),
        ("train.tfrecord.gz", "tfrecord", "train"),
        ("my.data.rec", "recordio", "my.data"),
    ],
)
def test_a_file_tells_its_format(tmp_path: Path, name: str, format_name: str, stem: str) -> None:
    destination, told = parse_destination(str(tmp_path / name), None)
    assert told == format_name
    assert destination == Destination(tmp_path, name, stem)
    assert destination.manifest == tmp_path / f"{stem}.manifest.json"
    assert destination.scratch == tmp_path / f".{stem}.dsprep"


def test_a_folder_is_called_as_the_user_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given, shown in (("out", "out"), ("a/out/", "a/out"), (".", str(tmp_path))):
        destination, _ = parse_destination(given, "folder")
        assert str(destination) == shown
        assert destination.manifest == Path(f"{shown}.manifest.json")


def test_a_directory_needs_a_format(tmp_path: Path) -> None:
    destination, told = parse_destination(str(tmp_path / "out"), "tfrecord")
    assert (destination, told) == (Destination(tmp_path / "out"), "tfrecord")
    assert destination.manifest == tmp_path / "out" / "manifest.json"
    with pytest.raises(OptionError, match="--format"):
        parse_destination(str(tmp_path / "out"), None)


def test_a_directory_may_be_called_like_a_shard(tmp_path: Path) -> None:
    (tmp_path / "x.rec").mkdir()
    destination, _ = parse_destination(str(tmp_path / "x.rec"), "webdataset")
    assert destination.single is None
    destination, _ = parse_destination(str(tmp_path / "y.rec") + "/", "webdataset")
    assert destination.single is None


def test_name_and_option_must_agree(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="recordio, but tfrecord is to be written"):
        parse_destination(str(tmp_path / "x.rec"), "tfrecord")
    with pytest.raises(OptionError, match="empty"):
        parse_destination("", "tfrecord")


@pytest.mark.parametrize("path", ["gs://bucket/data", "https://example.org/a.tar"])
def test_an_address_is_no_path(path: str) -> None:
    with pytest.raises(OptionError, match="is an address"):
        parse_destination(path, "recordio")
    with pytest.raises(OptionError, match="is an address"):
        require_apart("out", path)


def test_a_source_may_be_on_s3() -> None:
    require_apart("out", "s3://bucket/data")
    with pytest.raises(OptionError, match="is not a place on S3"):
        require_apart("out", "S3://b/c.rec")
