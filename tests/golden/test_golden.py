"""Data sets and interrupted runs of an earlier version are read, and gone on with.

`cases.py` says how each was made. A run that went on ends with the bytes of one without a kill.
"""

from __future__ import annotations

import base64
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsprep.dataset.manifest import parse_manifest
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.golden.cases import DATA, LOCAL, REMOTE, SETS, Run, copy_sets, write_sources
from tests.servers.bucket import Bucket

RunHere = Callable[..., Finished]

PIECE_BYTES = 2000  # what `make.py` had
MANIFESTS = sorted(path.relative_to(DATA / "sets") for path in DATA.glob("sets/**/*manifest.json"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which the commands were given, with the sources as they were then."""
    root = tmp_path_factory.mktemp("golden")
    write_sources(root)
    copy_sets(root)
    return root


def words(command: str, root: Path, out: object) -> list[str]:
    """Return the arguments of a command, whose sources are below a directory."""
    found = shlex.split(command.replace("OUT", str(out)))
    there = {path.name for path in root.iterdir()}
    return [str(root / each) if each.split("/")[0] in there else each for each in found]


def place_of(name: str) -> str:
    return "one-file/train.rec" if name == "one-file" else name


class TestFinished:
    @pytest.mark.parametrize("path", MANIFESTS, ids=str)
    def test_manifest_says_the_same(self, path: Path) -> None:
        data = (DATA / "sets" / path).read_bytes()
        assert parse_manifest(data, str(path)).to_json().encode() == data

    @pytest.mark.parametrize("name", SETS)
    def test_data_set_is_right(self, run_here: RunHere, root: Path, name: str) -> None:
        place = root / "sets" / place_of(name)
        done = run_here("verify", place)
        assert (done.code, done.err) == (0, ""), done.out
        done = run_here("status", place, "--json")
        assert (done.code, json.loads(done.out)["state"]) == (0, "complete")

    @pytest.mark.parametrize(
        "name", ["webdataset", "tfrecord", "recordio", "parquet", "folder", "mds"]
    )
    def test_data_set_has_the_images(self, run_here: RunHere, root: Path, name: str) -> None:
        done = run_here("verify", root / "sets" / name, "--against", root / "photos")
        assert done.code == 0, done.out
        assert "1 sample of the source not in the shards: " in done.out

    @pytest.mark.parametrize("name", SETS)
    def test_command_is_done_already(
        self, run_here: RunHere, root: Path, tmp_path: Path, name: str
    ) -> None:
        shutil.copytree(root / "sets", tmp_path / "sets")
        for command in SETS[name].split("; ")[-1:]:
            done = run_here(*words(command, root, tmp_path / "sets" / name))
            assert done.code in (0, 3), done.err
            assert ": already " in done.out
        assert contents(tmp_path / "sets") == contents(root / "sets")


def lay(name: str, tmp_path: Path) -> Path:
    """Put what a killed run left where it was, and return the place of its data set."""
    shutil.copytree(DATA / "runs" / name, tmp_path / "place")
    return tmp_path / "place" / "out"


def uninterrupted(run_here: RunHere, run: Run, root: Path, out: Path) -> dict[str, bytes]:
    """Return the files of a run without a kill."""
    out.parent.mkdir()
    if "OUT/" in run.command:
        out.mkdir()
    for command in filter(None, (run.before, run.command)):
        done = run_here(*words(command, root, out))
        assert done.code in (0, 3), done.err
    return contents(out.parent)


@pytest.mark.parametrize("name", sorted(LOCAL.keys() - {"part"}))
def test_a_killed_run_goes_on(
    run_here: RunHere, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "pieces":
        monkeypatch.setattr("dsprep.run.run.PIECE_BYTES", PIECE_BYTES)
    run, out = LOCAL[name], lay(name, tmp_path)
    command = words(run.command, root, out)
    done = run_here(*command)
    if name == "folder":  # its units held more samples
        assert (done.code, run.there in done.err) == (5, True), done.err
        done = run_here(*command, "--overwrite")
        assert contents(out.parent) == uninterrupted(run_here, run, root, tmp_path / "alone/out")
        return
    assert done.code in (0, 3), done.err
    assert run.there in (done.out if name in ("join", "published") else done.err)
    assert contents(out.parent) == uninterrupted(run_here, run, root, tmp_path / "alone" / "out")


@pytest.fixture
def s3(localstack: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    """LocalStack, as another machine sees it when the killed run is known to be dead."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("dsprep.storage.lease.LONG_AGO", -3600.0)
    return localstack


def upload(bucket: Bucket, name: str) -> str:
    """Store the objects that a killed run left, and return the place of its data set."""
    kept = DATA / "objects" / name
    metadata: dict[str, dict[str, str]] = json.loads(kept.with_suffix(".json").read_bytes())
    for key, said in metadata.items():
        own: dict[str, Any] = {"Body": (kept / key).read_bytes(), "Metadata": said}
        if "dsprep-crc32c" in said:  # the server has computed it, too
            value = bytes.fromhex(said["dsprep-crc32c"])
            own["ChecksumCRC32C"] = base64.b64encode(value).decode()
        bucket.s3.put_object(Bucket=bucket.name, Key=key, **own)
    return f"{bucket.url}/out"


@pytest.mark.parametrize("name", sorted(REMOTE.keys() - {"part"}))
def test_a_killed_run_goes_on_to_s3(
    run_here: RunHere, root: Path, tmp_path: Path, s3: Bucket, name: str
) -> None:
    run, out = REMOTE[name], upload(s3, name)
    done = run_here(*words(run.command, root, out))
    assert done.code == 3, done.err
    assert run.there in done.err
    alone = uninterrupted(run_here, run, root, tmp_path / "alone" / "out")
    assert {f"out/{key}": data for key, data in s3.contents("out/").items()} == alone
    assert s3.uploads() == []


class TestPlan:
    """A plan file of another version is refused, and nothing at the target changes.

    Without that file, the run goes on: receipts tell which shards are there.
    """

    REFUSED = (
        "plan.zip: is no plan of this version of dsprep (it has no version); use one version for "
        "all parts, or delete it"
    )

    def test_of_a_directory(self, run_here: RunHere, root: Path, tmp_path: Path) -> None:
        run, out = LOCAL["part"], lay("part", tmp_path)
        write_sources(tmp_path)  # the plan names its source by a relative path
        own = shlex.split(run.command.replace("OUT", str(out)))
        before = contents(out)
        for words in (own, ["status", str(out)]):
            done = run_here(*words, cwd=tmp_path)
            assert (done.code, self.REFUSED in done.err) == (5, True), done.err
        assert contents(out) == before
        (out / ".dsprep" / "plan.zip").unlink()
        done = run_here(*own, cwd=tmp_path)
        assert (done.code, "packed as recordio" in done.out) == (3, True), done.err
        alone = uninterrupted(run_here, run, root, tmp_path / "alone" / "out")
        assert contents(out.parent) == alone

    def test_on_s3(self, run_here: RunHere, root: Path, tmp_path: Path, s3: Bucket) -> None:
        run, out = REMOTE["part"], upload(s3, "part")
        write_sources(tmp_path)
        own = shlex.split(run.command.replace("OUT", out))
        before = s3.contents("out/")
        done = run_here(*own, cwd=tmp_path)
        assert (done.code, self.REFUSED in done.err) == (5, True), done.err
        assert s3.contents("out/") == before
        s3.s3.delete_object(Bucket=s3.name, Key="out/.dsprep/plan.zip")
        done = run_here(*own, cwd=tmp_path)
        assert (done.code, "packed as recordio" in done.out) == (3, True), done.err
        alone = uninterrupted(run_here, run, root, tmp_path / "alone" / "out")
        assert {f"out/{key}": data for key, data in s3.contents("out/").items()} == alone
