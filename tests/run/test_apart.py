"""Directories that hold shards alone, with the manifest and the others beside them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pandas
import pyarrow.dataset
import pytest

from tests.conftest import Finished
from tests.images import image_folder
from tests.kills import run_and_kill
from tests.run.conftest import Machine
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

RunCli = Callable[..., Finished]

SHARDS = ("--shards", 3, "-j", 1)
BESIDE = ("classes.txt", "manifest.json", "rejects.jsonl", "skipped.jsonl")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve images, one file that is none, and one that is no image by its name."""
    root = tmp_path_factory.mktemp("apart") / "photos"
    image_folder(root, ("ant", "bee"), 6)
    (root / "ant/bad.jpg").write_bytes(b"no image")
    (root / "notes.txt").write_text("a note")
    return root


def below(directory: Path) -> dict[str, bytes]:
    """What is in a directory and below it, by path."""
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def pack(run: RunCli, source: Path, dest: object, to: str, *options: object) -> Finished:
    return run("pack", source, dest, "--to", to, *SHARDS, *options)


@pytest.mark.parametrize(
    ("to", "others"),
    [
        ("webdataset", ["train.json"]),
        ("tfrecord", []),
        ("recordio", [f"train-{n:05}.{end}" for n in range(3) for end in ("idx", "lst")]),
        ("recordio-protobuf", []),
        ("parquet", []),
    ],
)
def test_shards_are_as_they_are_elsewhere_and_alone(
    run_here: RunCli, photos: Path, tmp_path: Path, to: str, others: list[str]
) -> None:
    alone, plain = tmp_path / "alone/set", tmp_path / "plain"
    done = pack(run_here, photos, alone, to, "--apart")
    assert done.code == 3, done.err
    assert "see " + str(tmp_path / "alone/set.rejects.jsonl") in done.out
    assert pack(run_here, photos, plain, to).code == 3
    there, expected = below(alone), below(plain)
    assert there == {name: data for name, data in expected.items() if name not in BESIDE}
    shards = sorted(name for name in there if name.rpartition(".")[2] not in ("json", "idx", "lst"))
    assert sorted(there) == sorted([*shards, *others])
    assert sorted(os.listdir(alone.parent)) == ["set", *(f"set.{name}" for name in BESIDE)]
    assert (alone.parent / "set.classes.txt").read_bytes() == expected["classes.txt"]
    manifest = json.loads((alone.parent / "set.manifest.json").read_text())
    assert [shard["name"] for shard in manifest["shards"]] == [f"set/{name}" for name in shards]
    assert f"already packed as {to}" in pack(run_here, photos, alone, to, "--apart").out

    assert "whole" in run_here("verify", alone, "--against", photos).out
    status = json.loads(run_here("status", alone, "--json").out)
    assert (status["state"], status["samples"]) == ("complete", 12)
    back = run_here("convert", alone, tmp_path / "back", "--to", "webdataset", "-j", 1)
    assert back.code == 0, back.err
    assert (tmp_path / "back/classes.txt").read_bytes() == expected["classes.txt"]
    wanted = run_here("convert", plain, tmp_path / "same", "--to", "webdataset", "-j", 1)
    assert wanted.code == 0
    assert below(tmp_path / "back") == below(tmp_path / "same")
    facts = json.loads(run_here("sagemaker", alone, "--prefix", "s3://bkt/data").out)
    (channel,) = facts["InputDataConfig"]
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == "s3://bkt/data/set/"
    (alone / "stray.txt").write_text("x")
    assert "  stray.txt: is there, but not in the manifest" in run_here("verify", alone).out

    shutil.rmtree(alone)
    for place in (alone.parent, f"{alone}.manifest.json"):
        gone = run_here("verify", place)
        assert (gone.code, "is in the manifest, but not there" in gone.out) == (3, True), gone.err


def test_readers_of_whole_directories_read_it(
    run_here: RunCli, photos: Path, tmp_path: Path, tensorflow: ModuleType
) -> None:
    parquet, records = tmp_path / "parquet", tmp_path / "records"
    assert pack(run_here, photos, parquet, "parquet", "--apart").code == 3
    assert pack(run_here, photos, records, "tfrecord", "--apart").code == 3
    assert len(pandas.read_parquet(parquet)) == 12
    assert pyarrow.dataset.dataset(parquet).count_rows() == 12
    files = tensorflow.io.gfile.glob(f"{records}/*")
    assert sum(1 for _ in tensorflow.data.TFRecordDataset(files)) == 12


@pytest.mark.parametrize("kill_at", ["train-000001.tar", "set.manifest.json"])
def test_a_killed_run_goes_on(run_here: RunCli, photos: Path, tmp_path: Path, kill_at: str) -> None:
    out, expected = tmp_path / "out/set", tmp_path / "expected/set"
    words = map(str, ("pack", photos, out, "--to", "webdataset", "--apart", *SHARDS))
    receipt = out.parent / ".set.dsprep/receipts/train-000000.tar.json"
    awaited = [receipt] if "tar" in kill_at else []
    assert run_and_kill(f"name {kill_at}", [*words], awaited=awaited).returncode == -9
    assert pack(run_here, photos, expected, "webdataset", "--apart").code == 3
    there = below(out) if out.exists() else {}
    assert len(there) == (4 if "manifest" in kill_at else len(there))
    assert there.items() <= below(expected).items()
    assert ".set.dsprep" in os.listdir(out.parent)
    assert "set.manifest.json" not in os.listdir(out.parent)

    assert ".set.dsprep: a run is writing there, or was stopped" in run_here("verify", out).out
    assert json.loads(run_here("status", out, "--json").out)["state"] == "unfinished"
    refused = run_here("convert", out, tmp_path / "x", "--to", "tfrecord")
    assert (refused.code, "left .set.dsprep beside it" in refused.err) == (4, True)
    joined = run_here("join", out, tmp_path / "x")
    assert (joined.code, "a run is writing there" in joined.err) == (4, True)
    other = pack(run_here, photos, out, "webdataset", "--apart", "--no-shuffle")
    assert (other.code, "unfinished run of another command" in other.err) == (5, True)
    again = pack(run_here, photos, out, "webdataset", "--apart")
    assert again.code == 3, again.err
    assert "continued" in again.out
    assert below(out.parent) == below(expected.parent)


def test_a_directory_is_replaced_and_never_mixed(
    run_here: RunCli, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "set"
    assert pack(run_here, photos, out, "webdataset", "--apart").code == 3
    before = below(tmp_path)
    for options in ((), ("--overwrite",)):
        refused = pack(run_here, photos, out, "webdataset", *options)
        assert refused.code == 5
        assert f"{out}.manifest.json: is the manifest of {out}, which holds" in refused.err
    (out / "mine.txt").write_text("mine")
    refused = pack(run_here, photos, out, "parquet", "--apart", "--overwrite")
    assert (refused.code, f"{out}/mine.txt: is not of this data set" in refused.err) == (5, True)
    (out / "mine.txt").unlink()
    assert below(tmp_path) == before
    copy = tmp_path / "copy.manifest.json"
    copy.write_bytes((tmp_path / "set.manifest.json").read_bytes())
    (tmp_path / "copy").mkdir()
    command = (photos, tmp_path / "copy", "webdataset", "--apart")
    refused = pack(run_here, *command)
    assert (refused.code, "its shards lie in 'set', not beside it" in refused.err) == (5, True)
    assert pack(run_here, *command, "--overwrite").code == 3  # and removes none of these
    assert below(out) == {name[4:]: data for name, data in before.items() if "/" in name}
    for path in (*(tmp_path / "copy").iterdir(), *tmp_path.glob("copy.*")):
        path.unlink()
    (tmp_path / "copy").rmdir()
    done = pack(run_here, photos, out, "parquet", "--apart", "--overwrite")
    assert done.code == 3, done.err
    assert sorted(os.listdir(out)) == [f"train-{n:05}-of-00003.parquet" for n in range(3)]
    named = [f"set.{name}" for name in BESIDE]
    assert sorted(os.listdir(tmp_path)) == ["set", *named]

    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real/deep")
    assert pack(run_here, photos, tmp_path / "link", "tfrecord", "--apart").code == 3
    assert "deep.manifest.json" in os.listdir(tmp_path / "real")
    assert "whole" in run_here("verify", tmp_path / "link").out

    (tmp_path / "bad/ant").mkdir(parents=True)
    (tmp_path / "bad/ant/a.jpg").write_bytes(b"no image")
    none = run_here("pack", tmp_path / "bad", tmp_path / "none", "--to", "tfrecord", "--apart")
    assert none.code == 4
    assert not [name for name in os.listdir(tmp_path) if "none" in name]


def test_parts_and_appended_and_joined_shards(
    run_here: RunCli, photos: Path, tmp_path: Path
) -> None:
    alone, out = tmp_path / "alone/set", tmp_path / "parts/set"
    assert pack(run_here, photos, alone, "recordio", "--apart").code == 3
    for part in ("1/2", "0/2"):
        done = pack(run_here, photos, out, "recordio", "--apart", "--part", part)
        assert done.code in (0, 3), done.err
    assert below(out.parent) == below(alone.parent)

    image_folder(tmp_path / "more", ("ant", "bee"), 2)
    for path in list((tmp_path / "more").rglob("*.*")):
        path.rename(path.with_name(f"more-{path.name}"))
    added = run_here("shard", "append", tmp_path / "more", out, "-j", 1)
    assert added.code in (0, 3), added.err
    assert sorted(os.listdir(out.parent)) == ["set", *(f"set.{name}" for name in BESIDE)]
    assert len([name for name in os.listdir(out) if name.endswith(".rec")]) == 4
    os.unlink(out / "train-00000.idx")
    assert run_here("shard", "index", out).code == 0
    assert "whole" in run_here("verify", out).out

    options = ("--to", "webdataset", "--apart", "--name")
    for name, source in (("first", photos), ("second", tmp_path / "more")):
        done = run_here("pack", source, tmp_path / name, *options, name, "-j", 1)
        assert done.code in (0, 3), done.err
    sources = (tmp_path / "first", tmp_path / "second")
    for place, own in (("joined", ("--apart",)), ("inside", ())):
        joined = run_here("join", *sources, tmp_path / place, *own)
        assert joined.code == 3, joined.err
        assert "whole" in run_here("verify", tmp_path / place).out
        assert "already joined" in run_here("join", *sources, tmp_path / place, *own).out
    index = json.loads((tmp_path / "joined/shards.json").read_text())
    names = ["first-000000.tar", "second-000000.tar"]
    assert [shard["url"] for shard in index["shardlist"]] == names
    assert sorted(os.listdir(tmp_path / "joined")) == [*names[:1], *names[1:], "shards.json"]


def test_on_s3(
    on_ceph: Callable[[str], Machine], ceph: Bucket, proxy: Proxy, photos: Path, tmp_path: Path
) -> None:
    machine, other = on_ceph("one"), on_ceph("other")
    command = ("pack", photos, f"{ceph.url}/data/set", "--to", "parquet", "--apart", *SHARDS)
    machine("pack", photos, tmp_path / "data/set", "--to", "parquet", "--apart", *SHARDS, code=3)
    expected = below(tmp_path / "data")
    proxy.add("answer", match="set.manifest.json", times=10**6, status=403, code="AccessDenied")
    machine(*command, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    there = ceph.contents("data/")
    assert {name for name in there if name.startswith("set/")} == shards_of(expected)
    assert ".set.dsprep/run.json" in there
    assert "set.manifest.json" not in there
    found = machine("verify", f"{ceph.url}/data/set", code=3)
    assert f"{ceph.url}/data/.set.dsprep/: a run is writing there" in found.out
    status = machine("status", f"{ceph.url}/data/set", "--json", code=6)
    assert json.loads(status.out)["state"] == "unfinished"
    refused = machine("convert", f"{ceph.url}/data/set", tmp_path / "x", "--to", "tfrecord", code=4)
    assert "left .set.dsprep beside it" in refused.err

    assert "continued" in other(*command, code=3).out
    assert ceph.contents("data/") == expected
    assert "already packed" in machine(*command, code=3).out
    assert "whole" in machine("verify", f"{ceph.url}/data/set/").out
    assert json.loads(machine("status", f"{ceph.url}/data/set", "--json").out)["done"] == 3
    machine("convert", f"{ceph.url}/data/set", tmp_path / "back", "--to", "parquet", "--apart")
    assert below(tmp_path / "back") == {
        name.removeprefix("set/"): data for name, data in expected.items() if "/" in name
    }
    machine("join", f"{ceph.url}/data/set", f"{ceph.url}/again/all", "--apart", code=3)
    assert "whole" in machine("verify", f"{ceph.url}/again/all").out
    fetched = machine("sync", f"{ceph.url}/data/set", tmp_path / "copies/set")
    assert f"{ceph.url}/data/set.manifest.json: lies beside" in fetched.out + fetched.err
    patterns = ("--exclude", "*", "--include", "set/*", "--include", "set.*")
    machine("sync", f"{ceph.url}/data", tmp_path / "copies", *patterns)
    assert below(tmp_path / "copies") == expected
    ceph.put("data/set/stray.bin", b"x")
    found = machine("verify", f"{ceph.url}/data/set", code=3)
    assert f"{ceph.url}/data/set/stray.bin: is there, but not in the manifest" in found.out
    refused = machine(*command, "--overwrite", code=5)
    assert f"{ceph.url}/data/set/stray.bin: is not of this data set" in refused.err


def shards_of(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.startswith("set/")}


def test_status_takes_a_link_and_no_manifest_of_other_files(
    run_here: RunCli, photos: Path, tmp_path: Path
) -> None:
    assert pack(run_here, photos, tmp_path / "far/set", "webdataset", "--apart").code == 3
    (tmp_path / "link").symlink_to(tmp_path / "far/set")
    assert json.loads(run_here("status", tmp_path / "link", "--json").out)["state"] == "complete"

    assert pack(run_here, photos, tmp_path / "plain", "webdataset").code == 3
    (tmp_path / "plain/manifest.json").rename(tmp_path / "plain.manifest.json")
    nothing = run_here("status", tmp_path / "plain")
    assert (nothing.code, "holds no data set" in nothing.err) == (5, True)
