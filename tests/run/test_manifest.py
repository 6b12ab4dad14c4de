"""The manifest: written, read again, and read when it comes from somebody hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsprep.dataset.manifest import FileEntry, Manifest, ShardEntry, read_manifest
from dsprep.errors import OtherVersion, SourceError

MANIFEST = Manifest(
    format="recordio",
    name="train",
    classes=("Katze", "犬"),
    samples=3,
    rejected=1,
    bytes=1200,
    source="ab" * 32,
    options={"seed": 0, "transform": None},
    shards=[
        ShardEntry("train-00000.rec", 1200, 0xDEADBEEF, 3, (FileEntry("train-00000.idx", 30, 7),))
    ],
    files=[FileEntry("classes.txt", 10, 0)],
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(MANIFEST.to_json())
    assert read_manifest(path) == MANIFEST


def test_it_is_plain_to_read() -> None:
    values = json.loads(MANIFEST.to_json())
    assert values["dsprep_manifest"] == 2
    assert values["shards"][0]["crc32c"] == "deadbeef"
    assert values["files"][0]["crc32c"] == "00000000"


def test_every_file_is_listed() -> None:
    names = [file.name for file in MANIFEST.every_file()]
    assert names == ["train-00000.rec", "train-00000.idx", "classes.txt"]


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/b", "..", "", "."])
@pytest.mark.parametrize("where", ["shard", "sidecar", "file"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str, where: str) -> None:
    values = json.loads(MANIFEST.to_json())
    places = {
        "shard": values["shards"][0],
        "sidecar": values["shards"][0]["sidecars"][0],
        "file": values["files"][0],
    }
    places[where]["name"] = name
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(values))
    with pytest.raises(SourceError, match=str(tmp_path)):
        read_manifest(path)


def test_another_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(MANIFEST.to_json().replace('"dsprep_manifest": 2', '"dsprep_manifest": 1'))
    with pytest.raises(OtherVersion, match="version 1; this dsprep reads version 2"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("[1, 2]", "it lacks dsprep_manifest"),
        ("{}", "it lacks dsprep_manifest"),
        ("7", "it lacks dsprep_manifest"),
        ("rubbish", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ({"options": []}, "options is not a JSON object"),
        ({"samples": "3"}, "samples is not a whole number"),
        ({"classes": "ab"}, "classes is not a list"),
        ({"classes": [1]}, "a class is not a text"),
        ({"shards": {}}, "shards is not a list"),
        ({"shards": [[]]}, r"shards\[0\]: an entry is not a JSON object"),
        ({"shards": [{}]}, r"shards\[0\]: it lacks crc32c"),
        ({"shards": [{"bytes": 1, "crc32c": "0" * 8}]}, r"shards\[0\]: it lacks name"),
        ({"files": [{"name": "a", "bytes": 1, "crc32c": "xyz"}]}, "'xyz' is not 8 hexadecimal"),
        ({"files": [{"name": "\ud800", "bytes": 1, "crc32c": "0" * 8}]}, "names no file"),
        ({"samples": 10**30}, "samples is not a number from 0 to 9,223,372,036,854,775,807"),
        ({"bytes": -1}, "bytes is not a number from 0 to"),
        ({"files": [{"name": "a", "bytes": 10**30, "crc32c": "0" * 8}]}, "bytes is not a number"),
        (
            {"files": [{"name": "a", "bytes": 1, "crc32c": "0" * 8}] * 2},
            "names the file 'a' 2 times",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(
    tmp_path: Path, change: str | dict[str, Any], said: str
) -> None:
    path = tmp_path / "manifest.json"
    values = json.loads(MANIFEST.to_json())
    path.write_text(change if isinstance(change, str) else json.dumps({**values, **change}))
    with pytest.raises(SourceError, match=f"is not a manifest that dsprep wrote: .*{said}"):
        read_manifest(path)


def test_a_missing_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_manifest(tmp_path / "manifest.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(json.loads(MANIFEST.to_json()))), JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_anywhere_is_read_or_refused(tmp_path: Path, field: str, value: Any) -> None:
    values = json.loads(MANIFEST.to_json())
    values[field] = value
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(values))
    try:
        read_manifest(path)
    except SourceError as error:
        assert str(path) in str(error)


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(data)
    with pytest.raises(SourceError):
        read_manifest(path)
