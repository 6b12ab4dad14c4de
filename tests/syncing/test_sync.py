"""The command on real servers: up, down, across; what it compares by, publishes and deletes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from tests.conftest import Finished
from tests.images import image_folder
from tests.servers.bucket import Bucket

Sync = Callable[..., Any]


@pytest.fixture(params=["ceph", "localstack"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket; what differs over https is the transfers' own test."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """Shards with indexes and a manifest."""
    image_folder(tmp_path / "images", ("a", "b"), 3)
    dsprep.pack(
        str(tmp_path / "images"), str(tmp_path / "set"), format="recordio", shards=2, workers=1
    )
    return tmp_path / "set"


@pytest.fixture
def sync(bucket: Bucket, run_here: Callable[..., Finished]) -> Sync:
    """Call `dsprep sync`; returns its report."""

    def call(*args: object, code: int = 0) -> Any:
        done = run_here("sync", *args, *bucket.options, "--json")
        assert done.code == code, done.err
        return json.loads(done.out) if done.out else done.err

    return call


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def sent(report: Any) -> list[str]:
    return [each["path"] for each in report["sent"]]


@pytest.mark.parametrize("bucket", ["ceph", "ceph_https", "localstack"], indirect=True)
def test_up_across_and_down(data_set: Path, bucket: Bucket, sync: Sync, tmp_path: Path) -> None:
    files = tree(data_set)
    assert sorted(sent(sync(data_set, f"{bucket.url}/up"))) == sorted(files)
    assert bucket.contents("up/") == files
    assert sorted(sent(sync(f"{bucket.url}/up", f"{bucket.url}/copy"))) == sorted(files)
    assert bucket.contents("copy/") == files
    assert sorted(sent(sync(f"{bucket.url}/copy/", tmp_path / "down"))) == sorted(files)
    assert tree(tmp_path / "down") == files
    for places in (
        (data_set, f"{bucket.url}/up"),
        (f"{bucket.url}/up", f"{bucket.url}/copy"),
        (f"{bucket.url}/copy", tmp_path / "down"),
    ):
        again = sync(*places, "--verify")
        assert again["state"] == "already there"
        assert sum(again["verified"].values()) == len(files)
        assert sum(again["same"].values()) == len(files)
    assert not bucket.uploads()


def test_strange_names(bucket: Bucket, sync: Sync, tmp_path: Path) -> None:
    names = ("a b", "ü/ねこ", "1+1=2", "100%", "%41", "a&b?c#d", "it's", '"', "*", "~", "d/.hidden")
    root = tmp_path / "strange"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    (root / "empty").touch()
    sync(root, bucket.url)
    assert bucket.contents() == tree(root)
    sync(bucket.url, tmp_path / "down")
    assert tree(tmp_path / "down") == tree(root)


def test_content_decides(bucket: Bucket, sync: Sync, tmp_path: Path) -> None:
    file = tmp_path / "set" / "a.tar"
    file.parent.mkdir()
    file.write_bytes(b"1" * 1000)
    sync(file.parent, bucket.url)
    os.utime(file, (2e9, 2e9))
    assert sent(sync(file.parent, bucket.url)) == []
    file.write_bytes(b"2" * 1000)
    os.utime(file, (1e9, 1e9))
    report = sync(file.parent, bucket.url)
    by = "checksum" if bucket.checksums else "metadata"
    assert [each["by"] for each in report["sent"]] == [by]
    assert sent(sync(file.parent, bucket.url, "--size-only")) == []
    assert bucket.contents() == {"a.tar": b"2" * 1000}


def test_parts_are_compared_by_checksum(bucket: Bucket, sync: Sync, tmp_path: Path) -> None:
    file = tmp_path / "set" / "a.tar"
    file.parent.mkdir()
    file.write_bytes(os.urandom(6 << 20))
    options = ("--part-size", "5MiB")
    assert [each["parts"] for each in sync(file.parent, bucket.url, *options)["sent"]] == [2]
    by = "checksum" if bucket.checksums else "metadata"
    assert sync(file.parent, bucket.url, *options)["same"] == {by: 1}
    file.write_bytes(os.urandom(6 << 20))
    read = "download" if bucket.checksums else by  # no manifest told dsprep what to note
    assert [each["by"] for each in sync(file.parent, bucket.url, *options)["sent"]] == [read]
    assert bucket.contents() == tree(file.parent)


def test_a_dry_run_does_nothing(data_set: Path, bucket: Bucket, sync: Sync) -> None:
    report = sync(data_set, bucket.url, "--dry-run")
    assert sorted(sent(report)) == sorted(tree(data_set))
    assert report["requests"]["writes"] >= len(sent(report))
    assert not bucket.keys()


def test_delete(bucket: Bucket, sync: Sync, tmp_path: Path) -> None:
    for key in ("set/old1", "set/old2", "set/kept.log", "setting"):
        bucket.put(key, b"x")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "new").write_bytes(b"x")
    place = f"{bucket.url}/set"
    options = ("--delete", "--exclude", "*.log")
    refused = sync(tmp_path / "set", place, *options, "--max-delete", 1, code=5)
    assert "--max-delete allows 1" in refused
    assert "set/new" not in bucket.contents()
    assert sync(tmp_path / "set", place, *options)["deleted"] == ["old1", "old2"]
    assert bucket.keys() == ["set/kept.log", "set/new", "setting"]


def test_what_cannot_be_a_file_or_a_key_is_left_out(
    bucket: Bucket, sync: Sync, tmp_path: Path
) -> None:
    bucket.put("old", b"x")
    root = tmp_path / "set"
    root.mkdir()
    (root / "a").write_bytes(b"x")
    os.mkfifo(root / "pipe")  # no failure, but said
    (root / "dangling").symlink_to("nowhere")
    report = sync(root, bucket.url)
    assert {each["path"] for each in report["left"]} == {"pipe", "dangling"}
    bucket.put("b/../c", b"x")
    report = sync(bucket.url, tmp_path / "down")
    assert [each["path"] for each in report["left"]] == ["b/../c"]
    assert sorted(tree(tmp_path / "down")) == ["a", "old"]


@pytest.mark.parametrize("options", [("--delete",), ("--dry-run",)])
def test_what_could_not_be_listed_is_told_by_the_exit_code(
    ceph: Bucket,
    run_here: Callable[..., Finished],
    data_set: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    (data_set / "hidden").mkdir()
    (data_set / "hidden" / "a").touch()
    ceph.put("hidden/a", b"")
    files, scandir = tree(data_set), os.scandir

    def locked(place: Any) -> Any:
        if Path(place) == data_set / "hidden":
            raise PermissionError(13, "Permission denied", str(place))
        return scandir(place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", locked)
        done = run_here("sync", data_set, ceph.url, *options, *ceph.options)
    assert done.code == 3
    assert "hidden: cannot be listed (Permission denied)" in done.out
    assert "hidden/a" in ceph.contents()
    assert tree(data_set) == files


def test_the_state_of_other_runs_stays_where_it_is(
    ceph: Bucket, run_here: Callable[..., Finished], data_set: Path
) -> None:
    state = ["data/.val.dsprep/run.json", "data/train/.dsprep/lease.json"]
    for key in state:
        ceph.put(key, b"{}")
    assert run_here("sync", data_set, f"{ceph.url}/data", "--delete", *ceph.options).code == 0
    assert run_here("sync", f"{ceph.url}/data", f"{ceph.url}/copy", *ceph.options).code == 0
    assert [key for key in ceph.contents() if ".dsprep" in key] == state


def test_a_manifest_is_never_ahead(data_set: Path, bucket: Bucket, sync: Sync) -> None:
    (shard, *_) = sorted(data_set.glob("*.rec"))
    good = shard.read_bytes()
    shard.write_bytes(good[:-1] + b"\xff")
    report = sync(data_set, bucket.url, code=3)
    assert {each["path"] for each in report["failures"]} == {shard.name, "manifest.json"}
    assert "manifest.json" not in bucket.contents()
    assert shard.name not in bucket.contents()
    shard.write_bytes(good)
    sync(data_set, bucket.url)
    assert bucket.contents() == tree(data_set)


def test_a_manifest_goes_before_its_shards_are_replaced(
    data_set: Path, bucket: Bucket, sync: Sync, tmp_path: Path
) -> None:
    sync(data_set, bucket.url)
    before = bucket.contents()
    damaged = sorted(data_set.glob("*.rec"))[0]
    good = damaged.read_bytes()
    damaged.write_bytes(good[:-1] + b"\xff")
    assert "nothing has been sent" in sync(data_set, bucket.url, code=4)
    assert bucket.contents() == before
    damaged.write_bytes(good)
    dsprep.pack(
        str(tmp_path / "images"),
        str(data_set),
        format="recordio",
        shards=2,
        seed=5,
        overwrite=True,
        workers=1,
    )
    report = sync(data_set, bucket.url)
    said = f"{bucket.url}/manifest.json: removed while what it names is replaced"
    assert report["notes"] == [said]
    assert bucket.contents() == tree(data_set)


def test_what_is_damaged_there_is_found(data_set: Path, bucket: Bucket, sync: Sync) -> None:
    sync(data_set, bucket.url)
    shard = sorted(data_set.glob("*.rec"))[0]
    bucket.put(shard.name, b"x" * shard.stat().st_size)
    report = sync(data_set, bucket.url, "--size-only", "--verify", code=3)
    assert [each["path"] for each in report["failures"]] == [shard.name]
    report = sync(data_set, bucket.url, "--verify")
    assert {each["path"]: each["by"] for each in report["sent"]} == {
        shard.name: "etag",
        "manifest.json": "withdrawn",
    }
    assert bucket.contents() == tree(data_set)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nowhere", "BUCKET"), "nowhere: does not exist"),
        (("BUCKET/empty", "here"), "holds nothing"),
        (("BUCKET/a", "BUCKET/a/b"), "one lies in the other"),
        (("BUCKET", "BUCKET/a"), "one lies in the other"),
        ((".", "elsewhere"), "are both local"),
        (("s3://b", "BUCKET"), "is not a place on S3"),
        ((".", "BUCKET", "--max-delete", "3"), "give --delete"),
        ((__file__, "BUCKET", "--delete"), "--delete goes with a directory"),
        (("BUCKET", __file__), "is not a directory"),
    ],
)
def test_what_makes_no_sense(args: tuple[str, ...], said: str, bucket: Bucket, sync: Sync) -> None:
    given = [each.replace("BUCKET", bucket.url) for each in args]
    for code in (2, 4, 5):
        try:
            message = sync(*given, code=code)
            break
        except AssertionError:
            if code == 5:
                raise
    assert said in message


def test_one_object_is_no_prefix(ceph: Bucket, run_here: Callable[..., Finished]) -> None:
    ceph.put("a/b c", b"x")
    done = run_here("sync", f"{ceph.url}/a/b c", "here", *ceph.options)
    assert done.code == 4
    assert f"sync {ceph.url}/a/ with --exclude '*' --include 'b c'" in done.err


def test_no_bucket(bucket: Bucket, sync: Sync, data_set: Path) -> None:
    message = sync(data_set, "s3://not-there-at-all/x", code=5)
    assert "not-there-at-all" in message


def test_rights_that_are_missing(
    ceph: Bucket, data_set: Path, run_here: Callable[..., Finished]
) -> None:
    for rights, missing in (
        ((), "s3:ListBucket"),
        (("ListBucket",), "s3:PutObject"),
        (("ListBucket", "PutObject"), "s3:AbortMultipartUpload"),
    ):
        env = ceph.allow(*rights) if rights else {**ceph.env, "AWS_ACCESS_KEY_ID": "LIMITED"}
        done = run_here("sync", data_set, ceph.url, *ceph.options, env=env)
        assert done.code == 5
        assert f"the right {missing} is missing" in done.err
        assert f"{ceph.url}/" in done.err
        assert "AccessDenied, HTTP 403, request tx" in done.err
        assert not ceph.keys()


def test_what_may_not_be_deleted_or_read(
    ceph: Bucket, data_set: Path, run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    ceph.put("set/old", b"x")
    env = ceph.allow("ListBucket", "PutObject", "AbortMultipartUpload")
    done = run_here("sync", data_set, f"{ceph.url}/set", "--delete", *ceph.options, env=env)
    assert done.code == 3
    assert f"old: {ceph.url}/set/old: cannot be deleted (AccessDenied" in done.out
    assert "the right s3:DeleteObject is missing" in done.out
    assert set(ceph.keys("set/")) == {f"set/{path}" for path in ("old", *tree(data_set))}
    ceph.put("theirs/x", b"x")
    done = run_here("sync", f"{ceph.url}/theirs", tmp_path / "down", *ceph.options, env=env)
    assert done.code == 4
    assert f"{ceph.url}/theirs/x: cannot be" in done.err
    assert "the right s3:GetObject is missing" in done.err
    assert done.err.endswith("nothing was sent\n")
    assert not (tmp_path / "down" / "x").exists()


def test_a_manifest_names_nothing_that_is_not_there(
    data_set: Path, bucket: Bucket, sync: Sync
) -> None:
    sync(data_set, bucket.url)
    before = bucket.contents()
    (lost, *_) = sorted(data_set.glob("*.rec"))
    lost.unlink()
    assert sync(data_set, bucket.url, "--delete")["deleted"] == []
    assert bucket.contents() == before
    report = sync(data_set, f"{bucket.url}/new", code=3)
    (failure,) = report["failures"]
    assert failure["path"] == "manifest.json"
    assert f"it names {lost.name}: neither sent now, nor at the dest" in failure["message"]
    assert "manifest.json" not in bucket.contents("new/")


def test_links_and_filters(ceph: Bucket, run_here: Callable[..., Finished], tmp_path: Path) -> None:
    root = tmp_path / "set"
    root.mkdir()
    for name in ("a.tar", "a.idx", "b.tar"):
        (root / name).write_bytes(name.encode())
    (root / "link.tar").symlink_to("a.tar")
    (root / "broken.tar").symlink_to("nowhere")
    (root / "loop").symlink_to(root)

    def sync(*options: str) -> Any:
        done = run_here("sync", root, ceph.url, "--json", "--dry-run", *options, *ceph.options)
        assert done.code == 0
        report = json.loads(done.out)
        return sent(report), {each["path"]: each["why"] for each in report["left"]}

    files, left = sync()
    assert files == ["a.idx", "a.tar", "b.tar", "link.tar"]
    assert left == {
        "broken.tar": "is a link to what is not there",
        "loop": "is a link to a directory that it is in",
    }
    files, left = sync("--no-follow-symlinks")
    assert files == ["a.idx", "a.tar", "b.tar"]
    assert set(left) == {"broken.tar", "link.tar", "loop"}
    assert sync("--exclude", "*", "--include=*.tar", "--exclude", "b*")[0] == ["a.tar", "link.tar"]
    assert sync("--include", "*.tar", "--exclude", "*.idx")[0] == ["a.tar", "b.tar", "link.tar"]


def test_what_has_no_checksum_comes_down_once(
    ceph: Bucket, run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    upload = {"Bucket": ceph.name, "Key": "large"}
    upload["UploadId"] = ceph.s3.create_multipart_upload(**upload)["UploadId"]
    tag = ceph.s3.upload_part(**upload, PartNumber=1, Body=b"x" * 1000)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    ceph.s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    for came in (["large"], []):
        done = run_here("sync", ceph.url, tmp_path / "down", "--json", *ceph.options)
        assert sent(json.loads(done.out)) == came
