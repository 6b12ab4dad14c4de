"""What a destination's name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsprep.errors import OptionError
from dsprep.plan.destination import Destination, parse_destination, require_apart


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
    assert (destination, destination.stem) == (Destination(tmp_path, name), stem)
    assert destination.manifest == tmp_path / f"{name}.manifest.json"
    assert destination.scratch == tmp_path / f".{name}.dsprep"


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
    with pytest.raises(OptionError, match="--to"):
        parse_destination(str(tmp_path / "out"), None)


def test_a_directory_may_be_called_like_a_shard(tmp_path: Path) -> None:
    (tmp_path / "x.rec").mkdir()
    destination, _ = parse_destination(str(tmp_path / "x.rec"), "webdataset")
    assert destination.single is None
    destination, _ = parse_destination(str(tmp_path / "y.rec") + "/", "webdataset")
    assert destination.single is None


def test_name_and_option_must_agree(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="recordio, but the format to write is tfrecord"):
        parse_destination(str(tmp_path / "x.rec"), "tfrecord")
    with pytest.raises(OptionError, match="empty"):
        parse_destination("", "tfrecord")


@pytest.mark.parametrize("path", ["gs://bucket/data", "https://example.org/a.tar", "GS://b/c.rec"])
def test_an_address_is_no_path(path: str) -> None:
    with pytest.raises(OptionError, match="is an address"):
        parse_destination(path, "recordio")
    with pytest.raises(OptionError, match="is an address"):
        require_apart("out", path)


def test_a_source_may_be_on_s3() -> None:
    require_apart("out", "s3://bucket/data")
    with pytest.raises(OptionError, match="is not a place on S3"):
        require_apart("out", "S3://b/c.rec")


@pytest.mark.parametrize(
    ("path", "manifest", "scratch"),
    [
        ("s3://bkt", "s3://bkt/manifest.json", ".dsprep"),
        ("s3://bkt/p", "s3://bkt/p/manifest.json", ".dsprep"),
        ("S3://bkt/p/x.rec/", "s3://bkt/p/x.rec/manifest.json", ".dsprep"),
        ("s3://bkt/x.rec", "s3://bkt/x.rec.manifest.json", ".x.rec.dsprep"),
        ("s3://bkt/p//x y.rec", "s3://bkt/p//x y.rec.manifest.json", ".x y.rec.dsprep"),
    ],
)
def test_a_place_on_s3(path: str, manifest: str, scratch: str) -> None:
    destination, _ = parse_destination(path, "recordio")
    assert destination.url(destination.manifest.name) == manifest
    assert destination.scratch == destination.directory / scratch
    assert str(destination).rstrip("/") == path.replace("S3", "s3").rstrip("/")


def test_a_place_on_s3_has_one_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    paths = ("s3://bkt/p", "s3://bkt/p/", "s3://bkt/p.rec", "s3://bkt/q")
    stages = [parse_destination(path, "recordio")[0].directory for path in paths]
    assert stages[0] == stages[1]
    assert len(set(stages)) == 3
    assert {stage.parent for stage in stages} == {tmp_path}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format_name", ["folder", "augmented-manifest"])
def test_a_folder_on_s3_has_its_companions_beside_it(format_name: str) -> None:
    for path in ("s3://bkt/a/p", "s3://bkt/a/p/"):
        destination, _ = parse_destination(path, format_name)
        assert str(destination) == "s3://bkt/a/p"
        assert destination.url(destination.manifest.name) == "s3://bkt/a/p.manifest.json"
    with pytest.raises(OptionError, match="nothing can lie beside it"):
        parse_destination("s3://bkt", format_name)
