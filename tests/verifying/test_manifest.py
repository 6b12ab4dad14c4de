"""`verify` with a manifest, or a list of rejects, that is not the one that was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.dataset.manifest import parse_rejects
from dsprep.errors import SourceError
from dsprep.findings import Reject
from tests.attack.trees import manifest, names
from tests.conftest import Finished
from tests.images import image_folder, jpeg, truncated


@pytest.fixture
def packed(photos: Path, tmp_path: Path) -> Path:
    dsprep.pack(str(photos), str(tmp_path / "out"), format="webdataset", shards=2, workers=1)
    return tmp_path / "out"


def change(dest: Path, values: dict[str, Any]) -> None:
    (dest / "manifest.json").write_text(json.dumps(manifest(dest) | values))


@pytest.mark.parametrize(
    "values",
    [
        {"format": ["a"]},
        {"options": []},
        {"options": {"format": "x"}},
        {"options": {"transform": {"foo": 1}}},
        {"samples": "many"},
        {"samples": True},
        {"bytes": 1.5},
    ],
    ids=str,
)
def test_types_are_checked(run_here: Callable[..., Finished], packed: Path, values: Any) -> None:
    change(packed, values)
    refused = run_here("verify", packed)
    assert refused.code == 4
    assert "manifest.json" in refused.err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("max_pixels", "5"), ("max_pixels", 2.5), ("max_pixels", None)),
        *(("transform", {"foo": 1}), ("format", "x"), ("format", {"name": "tfrecord"})),
        ("format", {"name": "webdataset", "metadata": False, "renamed": ["image"]}),
        ("format", {"name": "webdataset", "metadata": False, "renamed": {"image": 5}}),
    ],
    ids=str,
)
def test_options_are_checked(packed: Path, option: str, value: Any) -> None:
    options = manifest(packed)["options"]
    change(packed, {"options": options | {option: value}})
    with pytest.raises(SourceError, match=r"manifest\.json"):
        dsprep.verify(str(packed), workers=1)


@pytest.mark.parametrize("name", ["samples", "bytes"])
def test_totals_are_the_sums_over_the_shards(packed: Path, name: str) -> None:
    change(packed, {name: manifest(packed)[name] + 1})
    (problem,) = dsprep.verify(str(packed), workers=1).problems
    assert problem.file == "manifest.json"
    assert name in problem.message


def test_all_samples_are_missing_where_all_shards_are(photos: Path, packed: Path) -> None:
    for path in packed.glob("*.tar"):
        path.unlink()
    source = dsprep.make_source(str(photos))
    problems = dsprep.verify(str(packed), against=source, workers=1).problems
    assert len([each for each in problems if "neither in a shard" in each.message]) == 24


def test_images_may_be_as_large_as_when_they_were_packed(
    run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    image_folder(tmp_path / "source", (".",), per_class=2)
    dest = tmp_path / "out"
    dsprep.pack(
        str(tmp_path / "source"), str(dest), format="webdataset", max_pixels=64 * 48, workers=1
    )
    values = manifest(dest)
    values["options"]["max_pixels"] = 100
    change(dest, values)
    assert run_here("verify", dest, "--decode").code == 3
    assert run_here("verify", dest, "--decode", "--max-pixels", "3072").code == 0


def test_rejects_may_have_any_name(tmp_path: Path) -> None:
    image_folder(tmp_path / "source", ("cat", "dog"))
    odd = tmp_path / "source" / "cat" / "a\u2028b\x85c.jpg"
    odd.write_bytes(truncated(jpeg()))
    dest, source = tmp_path / "out", dsprep.make_source(str(tmp_path / "source"))
    dsprep.pack(str(tmp_path / "source"), str(dest), format="webdataset", workers=1)
    assert "rejects.jsonl" in names(dest)
    rejects = parse_rejects((dest / "rejects.jsonl").read_bytes(), "")
    assert [each.path for each in rejects] == [f"cat/{odd.name}"]
    assert dsprep.verify(str(dest), against=source, workers=1).problems == []

    (dest / "rejects.jsonl").write_text('{"path": "cat/a')
    problems = dsprep.verify(str(dest), against=source, workers=1).problems
    assert "rejects.jsonl" in {each.file for each in problems}


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"x", b"[]", b"{}", b"\xff", b'{"path": "a"}', b'{"path": 1, "reason": "x"}'),
        *(b'{"path": "\\ud800", "reason": "x"}', b"[" * 100_000),
    ],
    ids=range(9),
)
def test_a_list_with_a_line_that_is_no_reject_is_refused(line: bytes) -> None:
    good = b'{"path": "a.jpg", "reason": "is gone"}\n'
    assert parse_rejects(good, "") == [Reject("a.jpg", "is gone")]
    with pytest.raises(SourceError, match="is not the list of rejects"):
        parse_rejects(good + line + b"\n" + good, "")
