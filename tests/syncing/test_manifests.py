"""A manifest that is visible tells of what is there, whatever is changed, left out or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from dsprep.errors import StoreError
from dsprep.storage.s3.config import S3Config
from dsprep.syncing.options import Rule
from dsprep.syncing.report import SyncReport
from dsprep.syncing.sync import sync
from tests.servers.bucket import Bucket
from tests.syncing.folders import data_set, tree

MANIFEST = "manifest.json"


def run(source: object, destination: object, bucket: Bucket, **options: Any) -> SyncReport:
    return sync(str(source), str(destination), config=S3Config(endpoint=bucket.endpoint), **options)


def require_true(there: dict[str, bytes]) -> None:
    for shard in json.loads(there[MANIFEST])["shards"]:
        assert f"{google_crc32c.value(there[shard['name']]):08x}" == shard["crc32c"]


def failed(report: SyncReport) -> dict[str, str]:
    return {each.path: each.message for each in report.failures}


class Meanwhile:
    """Does something once, when the files are counted, or when one of them has arrived."""

    def __init__(self, do: Callable[[], object], after: str = "") -> None:
        self._do: Callable[[], object] | None = do
        self._after = after

    def __call__(self, event: str, **facts: Any) -> None:
        if self._after:
            is_time = event == "end" and facts["name"].endswith(self._after)
        else:
            is_time = event == "plan"
        if is_time and self._do is not None:
            do, self._do = self._do, None
            do()


def left_out(root: Path) -> dict[str, Any]:
    return {"rules": (Rule(False, "set-01.tar"),)}


def not_looked_at(root: Path) -> dict[str, Any]:
    with (root / MANIFEST).open("a") as file:
        file.write("\n")
    return {"size_only": True}


def dangling(root: Path) -> dict[str, Any]:
    (root / "set-01.tar").unlink()
    (root / "set-01.tar").symlink_to("nowhere")
    return {}


@pytest.mark.parametrize("how", [left_out, not_looked_at, dangling])
def test_it_is_not_published_over_what_it_does_not_tell_of(
    ceph: Bucket, tmp_path: Path, how: Callable[[Path], dict[str, Any]]
) -> None:
    root = tmp_path / "set"
    data_set(root, large=0)
    run(root, ceph.url, ceph)
    data_set(root, large=0, seed=100)
    report = run(root, ceph.url, ceph, **how(root))
    assert "set-01.tar" in failed(report)[MANIFEST]
    assert "other files are at the destination" in failed(report)[MANIFEST]
    there = ceph.contents()
    if MANIFEST in there:  # the old one
        require_true(there)


def test_what_others_have_stored_is_read(ceph: Bucket, tmp_path: Path) -> None:
    root = tmp_path / "set"
    files = data_set(root, large=0)
    for name in ("set-00.tar", "set-01.tar"):
        ceph.put(name, files[name])
    report = run(root, ceph.url, ceph, size_only=True)
    assert (report.state, report.failures) == ("synced", [])
    assert ceph.contents() == files
    ceph.put("set-01.tar", bytes(len(files["set-01.tar"])))
    with (root / MANIFEST).open("a") as file:
        file.write("\n")
    report = run(root, ceph.url, ceph, size_only=True)
    assert "set-01.tar" in failed(report)[MANIFEST]


def test_what_was_left_out_may_be_there_already(ceph: Bucket, tmp_path: Path) -> None:
    root = tmp_path / "set"
    files = data_set(root, large=0)
    run(root, ceph.url, ceph, rules=(Rule(False, MANIFEST),))
    report = run(root, ceph.url, ceph, rules=(Rule(False, "*.tar"),))
    assert (report.state, report.failures) == ("synced", [])
    assert ceph.contents() == files


def test_no_less_on_the_way_down(ceph: Bucket, tmp_path: Path) -> None:
    old, new = data_set(tmp_path / "down", large=0), data_set(tmp_path / "set", large=0, seed=100)
    run(tmp_path / "set", ceph.url, ceph)
    report = run(ceph.url, tmp_path / "down", ceph, rules=(Rule(False, "set-01.tar"),))
    assert "other files are at the destination" in failed(report)[MANIFEST]
    there = {"set-00.tar": new["set-00.tar"], "set-01.tar": old["set-01.tar"]}
    assert tree(tmp_path / "down") == there


def test_it_is_published_as_it_was_when_its_files_were_compared(
    ceph: Bucket, tmp_path: Path
) -> None:
    root = tmp_path / "set"
    files = data_set(root, large=0)

    def pack_again() -> None:
        data_set(root, large=0, small=3, seed=100)

    events = Meanwhile(pack_again, after="set-00.tar")  # the last: larger ones go first
    run(root, ceph.url, ceph, events=events, concurrency=1)
    assert ceph.contents() == files


@pytest.mark.parametrize("noted", [True, False])
def test_it_is_not_copied_beside_what_is_damaged(ceph: Bucket, tmp_path: Path, noted: bool) -> None:
    files = data_set(tmp_path / "set", large=0)
    run(tmp_path / "set", f"{ceph.url}/a", ceph)
    damaged = bytes(len(files["set-01.tar"]))
    note = {"dsprep-crc32c": f"{google_crc32c.value(damaged):08x}"} if noted else {}
    place = {"Bucket": ceph.name, "Key": "a/set-01.tar"}
    ceph.s3.put_object(**place, Body=damaged, Metadata=note)
    for _ in range(2):
        report = run(f"{ceph.url}/a", f"{ceph.url}/b", ceph)
        assert any(
            "is not what" in each or "other files" in each for each in failed(report).values()
        )
        assert MANIFEST not in ceph.contents("b/")


def test_an_object_that_changes_is_not_copied(ceph: Bucket) -> None:
    ceph.put("a/x", b"1")
    report = run(
        f"{ceph.url}/a", f"{ceph.url}/b", ceph, events=Meanwhile(lambda: ceph.put("a/x", b"2"))
    )
    assert "has changed since it was listed" in failed(report)["x"]
    assert ceph.contents("b/") == {}


def test_one_that_may_not_be_read_is_not_taken_for_none(
    ceph: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data_set(tmp_path / "set", large=0)
    run(tmp_path / "set", ceph.url, ceph)
    env = ceph.allow("ListBucket", "PutObject", "DeleteObject", "AbortMultipartUpload")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for path in (tmp_path / "set").iterdir():
        path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(StoreError, match=r"manifest.json.*s3:GetObject is missing"):
        run(tmp_path / "set", ceph.url, ceph)
    monkeypatch.undo()
    assert ceph.contents() == before


def test_what_only_has_its_name_is_any_other_file(ceph: Bucket, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / MANIFEST).write_text("{}")
    report = run(tmp_path / "set", ceph.url, ceph)
    assert report.state == "synced"
    (note,) = report.notes
    assert note.startswith(f"{tmp_path / 'set' / MANIFEST}: is not a manifest that")
    assert ceph.contents() == {MANIFEST: b"{}"}


def test_of_two_runs_at_once_none_leaves_a_false_one(ceph: Bucket, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    data_set(one, large=0)
    files = data_set(other, large=0, seed=100)
    events = Meanwhile(lambda: run(one, ceph.url, ceph))
    report = run(other, ceph.url, ceph, events=events)
    assert "another run has published" in failed(report)[MANIFEST]
    (note,) = report.notes
    assert note.startswith(f"{ceph.url}/{MANIFEST}: was removed, because this run has replaced")
    assert MANIFEST not in ceph.contents()
    run(other, ceph.url, ceph)
    assert ceph.contents() == files


def test_of_two_runs_with_the_same_files_the_first_stays(ceph: Bucket, tmp_path: Path) -> None:
    files = data_set(tmp_path / "set", large=0)
    events = Meanwhile(lambda: run(tmp_path / "set", ceph.url, ceph))
    run(tmp_path / "set", ceph.url, ceph, events=events)
    assert ceph.contents() == files


def test_what_came_down_is_proven_by_its_own_bytes(ceph: Bucket, tmp_path: Path) -> None:
    files = data_set(tmp_path / "set", large=0)
    run(tmp_path / "set", ceph.url, ceph)
    run(ceph.url, tmp_path / "down", ceph)
    (tmp_path / "down" / "set-01.tar").write_bytes(bytes(len(files["set-01.tar"])))
    report = run(ceph.url, tmp_path / "down", ceph, size_only=True, verify=True)
    assert (report.state, list(failed(report))) == ("incomplete", ["set-01.tar"])
    assert sum(report.verified.values()) == len(files) - 1
