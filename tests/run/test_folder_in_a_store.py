"""Folders of files on S3: the files of a disk, under their final keys, and the manifest last."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import image_folder
from tests.run.conftest import Machine
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

RunCli = Callable[..., Finished]
Machines = Callable[[str], Machine]


@pytest.fixture
def expected(run_here: RunCli, twelve: Path, tmp_path: Path) -> dict[str, bytes]:
    """The folder `set` on a disk, and what lies beside it."""
    assert run_here("convert", twelve, tmp_path / "local" / "set", "--to", "folder").code == 0
    return contents(tmp_path / "local")


def test_the_files_are_those_of_a_disk(
    machine: Machine, bucket: Bucket, twelve: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    command = ("convert", twelve, f"{bucket.url}/a b/set", "--to", "folder", "--json")
    report = json.loads(machine(*command).out)
    assert (report["destination"], report["state"]) == (f"{bucket.url}/a b/set", "converted")
    assert bucket.contents("a b/") == expected
    assert json.loads(machine(*command).out)["state"] == "already converted"
    assert (bucket.uploads(), machine.left()) == ([], [])


def test_a_killed_run_sends_only_the_units_that_are_not_whole(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path, expected: dict[str, bytes]
) -> None:
    command = ("convert", twelve, f"{ceph.url}/set", "--to", "folder", "-j1")
    first, second = on_ceph("first"), on_ceph("second")
    proxy.add("answer", match="/set.manifest.json", times=10**6, status=403, code="AccessDenied")
    first(*command, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    there = ceph.contents()
    assert "set.manifest.json" not in there
    files = sorted(name for name in there if name.startswith("set/"))
    gone, changed, last = files[0], files[5], files[11]
    ceph.s3.delete_object(Bucket=ceph.name, Key=gone)
    ceph.put(changed, bytes(len(there[changed])))
    listings = sorted(name for name in there if ".dsprep/units-" in name)
    assert len(listings) >= 6
    ceph.put(listings[-1], there[listings[-1]][:-1])
    assert first("status", f"{ceph.url}/set", code=6).out.count("unfinished")
    proxy.faults.clear()
    proxy.requests.clear()
    assert "continues; " in second(*command, AWS_ENDPOINT_URL=proxy.endpoint).err
    sent = {name for name in files if proxy.counted("PUT", name)}
    assert {gone, changed, last} <= sent
    assert len(sent) <= 6
    assert ceph.contents() == expected
    assert (ceph.uploads(), second.left()) == ([], [])


def test_another_command_replaces_it_and_nothing_else(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path, tmp_path: Path
) -> None:
    """Whatever was killed before, no key of an earlier data set stays."""
    machine, dest = on_ceph("machine"), f"{ceph.url}/set"
    for name in ("x", "y"):
        image_folder(tmp_path / name, (name, "both"), 3)
    converts = {
        name: ("convert", tmp_path / name, dest, "--to", "folder", "-j1") for name in ("x", "y")
    }
    machine(*converts["x"])
    refused = machine(*converts["y"], code=5)
    assert "holds a data set that another command wrote" in refused.err

    proxy.add("answer", match="set/both/002.jpg", times=10**6, status=403, code="AccessDenied")
    machine(*converts["y"], "--overwrite", code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    there = ceph.contents()
    assert "set.manifest.json" not in there
    assert {"set/x/000.jpg", "set/both/000.jpg"} <= set(there)
    proxy.faults.clear()
    third = ("convert", twelve, dest, "--to", "folder", "--overwrite", "-j1")
    proxy.add("answer", match="/set.manifest.json", times=10**6, status=403, code="AccessDenied")
    machine(*third, code=5, AWS_ENDPOINT_URL=proxy.endpoint)
    proxy.faults.clear()
    machine(*converts["y"], "--overwrite")
    machine("convert", tmp_path / "y", f"{ceph.url}/other/set", "--to", "folder")
    there = ceph.contents()
    other = {name.removeprefix("other/"): it for name, it in there.items() if name[:2] == "ot"}
    assert other == {name: it for name, it in there.items() if name[:2] != "ot"}
    assert "whole" in machine("verify", dest).out


def test_files_of_others_stay(
    on_ceph: Machines, ceph: Bucket, proxy: Proxy, twelve: Path, expected: dict[str, bytes]
) -> None:
    machine, command = on_ceph("machine"), ("convert", twelve, f"{ceph.url}/set", "--to", "folder")
    ceph.put("set/mine", b"mine")
    ceph.put("set.txt", b"mine")
    assert "is there already" in machine(*command, code=5).err
    assert ceph.contents() == {"set/mine": b"mine", "set.txt": b"mine"}
    ceph.s3.delete_object(Bucket=ceph.name, Key="set/mine")
    machine(*command)
    ceph.put("set/mine", b"mine")
    refused = machine(*command, "--overwrite", code=5)
    assert "set/mine: dsprep did not write this file" in refused.err
    assert ceph.contents() == expected | {"set/mine": b"mine", "set.txt": b"mine"}
    ceph.s3.delete_object(Bucket=ceph.name, Key="set/mine")
    machine("convert", twelve / "a", f"{ceph.url}/set", "--to", "folder", "--overwrite")
    assert not any(name.startswith("set/b") for name in ceph.contents())
    assert ceph.contents()["set.txt"] == b"mine"


def test_commands_read_it(
    on_ceph: Machines, ceph: Bucket, twelve: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    machine, dest = on_ceph("machine"), f"{ceph.url}/set"
    command = ("convert", twelve, dest, "--to", "folder")
    planned = json.loads(machine(*command, "--dry-run", "--json").out)
    assert (planned["samples"], ceph.contents()) == (12, {})
    machine(*command)
    assert json.loads(machine("verify", dest, "--json").out)["samples"] == 12
    found = json.loads(machine("status", dest, "--json").out)
    assert (found["state"], found["samples"]) == ("complete", 12)
    machine("convert", dest, tmp_path / "back" / "set", "--to", "folder")
    again = contents(tmp_path / "back")
    assert {name: it for name, it in again.items() if "/" in name} == {
        name: it for name, it in expected.items() if "/" in name
    }
    machine("sync", f"{ceph.url}/", tmp_path / "fetched")
    assert contents(tmp_path / "fetched") == expected
    ceph.s3.delete_object(Bucket=ceph.name, Key="set/a/000.jpg")
    broken = json.loads(machine("status", dest, "--json", code=3).out)
    assert [each["file"] for each in broken["problems"]] == ["set/a/000.jpg"]
    assert "was written, and is not there" in machine(*command, code=5).err
    for name in expected:
        if name.startswith("set/"):
            ceph.s3.delete_object(Bucket=ceph.name, Key=name)
    machine(*command)
    assert ceph.contents() == expected


def test_two_samples_of_one_path_stop_the_run(
    on_ceph: Machines, ceph: Bucket, tmp_path: Path
) -> None:
    machine = on_ceph("machine")
    for name in ("one", "two"):
        image_folder(tmp_path / name, ("cat",), 1)
        machine("pack", tmp_path / name, tmp_path / f"{name}.tar")
    tars = tmp_path / "one.tar", tmp_path / "two.tar"
    for dest in (tmp_path / "out", f"{ceph.url}/out"):
        stopped = machine("convert", *tars, dest, "--to", "folder", "-j1", code=4)
        assert "has the file cat/000.jpg already" in stopped.err
    assert "out.manifest.json" not in ceph.contents()
