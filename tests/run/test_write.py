"""``pack``, ``convert`` and ``shard`` to S3: the same bytes as to a disk, and nothing besides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.run.conftest import Machine, files
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

RunCli = Callable[..., Finished]
Machines = Callable[[str], Machine]


def test_the_bytes_are_those_of_a_local_run(
    machine: Machine, run_here: RunCli, bucket: Bucket, twelve: Path, tmp_path: Path
) -> None:
    command = ("--format", "recordio", "--shards", 3)
    assert run_here("pack", twelve, tmp_path / "local", *command).code == 0
    report = json.loads(machine("pack", twelve, f"{bucket.url}/a b/ü", *command, "--json").out)
    assert (report["destination"], report["state"]) == (f"{bucket.url}/a b/ü/", "packed")
    assert bucket.contents("a b/ü/") == files(tmp_path / "local")
    again = machine("pack", twelve, f"{bucket.url}/a b/ü/", *command, "--json")
    assert json.loads(again.out)["state"] == "already packed"
    assert (bucket.uploads(), machine.left()) == ([], [])


@pytest.mark.parametrize(
    "command",
    [
        ("pack", "out/train.rec"),
        ("pack", "train.tar", "--resize", "20", "-j2"),
        ("pack", "x", "--format", "parquet", "--shards", "2"),
        ("convert", "a/train.tfrecord.gz"),
        ("shard", "s", "--to", "tfrecord", "--samples-per-shard", "5", "--shuffle"),
    ],
)
def test_every_command_and_format(
    on_ceph: Machines,
    run_here: RunCli,
    ceph: Bucket,
    twelve: Path,
    tmp_path: Path,
    command: tuple[str, ...],
) -> None:
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    verb, dest, *options = (*command, "--classes", tmp_path / "classes.txt")
    assert run_here(verb, twelve, tmp_path / "local" / dest, *options).code == 0
    on_ceph("machine")(verb, twelve, f"{ceph.url}/{dest}", *options)
    local = {
        str(path.relative_to(tmp_path / "local")): path.read_bytes()
        for path in (tmp_path / "local").rglob("*")
        if path.is_file()
    }
    assert ceph.contents() == local


def test_rejects_are_there_and_told(
    on_ceph: Machines, run_here: RunCli, ceph: Bucket, twelve: Path, tmp_path: Path
) -> None:
    source = tmp_path / "images"
    source.mkdir()
    (source / "good.png").write_bytes(next((twelve / "a").iterdir()).read_bytes())
    (source / "bad.png").write_bytes(b"no image")
    command = ("pack", source, f"{ceph.url}/set", "--format", "webdataset", "--json")
    machine = on_ceph("machine")
    for state in ("packed", "already packed"):
        report = json.loads(machine(*command, code=3).out)
        assert report["state"] == state
        assert report["rejects_file"] == f"{ceph.url}/set/rejects.jsonl"
        assert [each["path"] for each in report["rejects"]] == ["bad.png"]
    (source / "good.png").unlink()
    refused = machine(*command, "--overwrite", code=4)
    assert "nothing is left to write, 1 sample rejected; the first one is" in refused.err
    assert not ceph.contents()


def test_overwriting_removes_what_is_not_of_the_new(
    on_ceph: Machines, ceph: Bucket, twelve: Path
) -> None:
    machine, dest = on_ceph("machine"), f"{ceph.url}/set"
    ceph.put("set/README", b"mine")
    ceph.put("set/old/train-00000.tar", b"mine, too")
    machine("pack", twelve, dest, "--format", "recordio", "--shards", 4)
    refused = machine("pack", twelve, dest, "--format", "webdataset", "--shards", 2, code=5)
    assert "another command wrote (other format, size, check" in refused.err
    machine("pack", twelve, dest, "--format", "webdataset", "--shards", 2, "--overwrite")
    assert ceph.keys() == [
        f"set/{name}"
        for name in (
            *("README", "classes.txt", "manifest.json", "old/train-00000.tar"),
            *("train-000000.tar", "train-000001.tar", "train.json"),
        )
    ]


def test_files_of_others_are_not_replaced(on_ceph: Machines, ceph: Bucket, twelve: Path) -> None:
    machine, command = on_ceph("machine"), ("--format", "webdataset", "--shards", 1)
    for name in ("train-000000.tar", "classes.txt"):
        ceph.put(f"{name}/{name}", b"mine")
        refused = machine("pack", twelve, f"{ceph.url}/{name}/", *command, code=5)
        assert f"{ceph.url}/{name}/{name}: is there already" in refused.err
        assert ceph.contents(f"{name}/") == {name: b"mine"}
    ceph.put("same/classes.txt", b"a\nb\n")
    machine("pack", twelve, f"{ceph.url}/same", *command)
    ceph.put("bad/manifest.json", b"mine")
    refused = machine("pack", twelve, f"{ceph.url}/bad", *command, code=5)
    assert f"{ceph.url}/bad/manifest.json: is not a manifest" in refused.err
    assert machine.left() == []


def test_a_data_set_that_another_run_has_just_finished_stays(
    on_ceph: Machines, ceph: Bucket, twelve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, command = on_ceph("machine"), ("pack", twelve, f"{ceph.url}/x.rec")
    machine(*command)
    there = ceph.contents()
    monkeypatch.setattr("dsprep.run.write.finished_manifest", lambda _: None)
    refused = machine(*command, code=5)
    assert "another run has just finished a data set there" in refused.err
    assert (ceph.contents(), machine.left()) == (there, [])


def test_a_dry_run_needs_nobody(on_ceph: Machines, ceph: Bucket, twelve: Path) -> None:
    machine = on_ceph("machine")
    command = ("pack", twelve, "s3://nowhere-at-all/x", "--format", "recordio", "--dry-run")
    done = machine(*command, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert "s3://nowhere-at-all/x/: planned as recordio" in done.out
    assert (ceph.keys(), machine.left()) == ([], [])


@pytest.mark.parametrize(
    ("allowed", "missing"),
    [
        ((), "s3:ListBucket"),
        (("ListBucket",), "s3:PutObject"),
        (("ListBucket", "PutObject"), "s3:DeleteObject"),
    ],
)
def test_what_will_be_denied_is_known_before_anything_is_written(
    on_ceph: Machines, ceph: Bucket, twelve: Path, allowed: tuple[str, ...], missing: str
) -> None:
    machine, env = on_ceph("machine"), ceph.allow(*allowed, "AbortMultipartUpload")
    command = ("pack", twelve, f"{ceph.url}/x", "--format", "recordio")
    refused = machine(*command, code=5, AWS_ACCESS_KEY_ID=env["AWS_ACCESS_KEY_ID"])
    assert f"the right {missing} is missing" in refused.err
    assert (ceph.keys(), ceph.uploads(), machine.left()) == ([], [], [])


def test_so_is_that_nothing_can_be_read(on_ceph: Machines, ceph: Bucket, twelve: Path) -> None:
    machine = on_ceph("machine")
    with Proxy(ceph.endpoint).running() as proxy:
        proxy.add(
            "answer", method="GET", match="lease.json", status=403, code="AccessDenied", times=9
        )
        command = ("pack", twelve, f"{ceph.url}/x", "--format", "recordio")
        refused = machine(*command, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    assert "the right s3:GetObject is missing" in refused.err
    assert (ceph.keys(), machine.left()) == ([], [])


def test_no_such_bucket(on_ceph: Machines, ceph: Bucket, twelve: Path) -> None:
    machine = on_ceph("machine")
    refused = machine("pack", twelve, "s3://no-such-bucket/x.rec", code=5)
    assert "there is no bucket of this name" in refused.err
    assert machine.left() == []


def test_what_is_not_written_to_s3(on_ceph: Machines, ceph: Bucket, twelve: Path) -> None:
    machine = on_ceph("machine")
    for command in (
        ("shard", "append", twelve, f"{ceph.url}/x"),
        ("lst", "create", twelve, "-o", f"{ceph.url}/x.lst"),
        ("split", twelve, "-o", f"{ceph.url}/x", "--ratio", "a=0.8,b=0.2"),
    ):
        assert "dsprep sync" in machine(*command, code=2).err
