"""``--engine ray``: the same bytes as on one machine, whatever happens to the machines."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dsprep.progress import Progress
from dsprep.workers.cluster import Cluster
from tests.conftest import Finished
from tests.images import jpeg
from tests.limits import small_disk
from tests.run.test_part import contents
from tests.servers.bucket import Bucket
from tests.workers.machines import Directories, Task

RunHere = Callable[..., Finished]
FORMATS = ("webdataset", "tfrecord", "recordio", "recordio-protobuf", "parquet")
SHARDS = ("--shards", 3, "--resize", 12, "--encode", "png")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directories:
    """Machines that ``--engine ray`` runs on."""
    found = Directories(tmp_path / "machines")
    opened = lambda address, workers: Cluster(found, workers)  # noqa: E731
    monkeypatch.setattr("dsprep.workers.ray.RayMachines.executor", opened)
    return found


def pack(run: RunHere, source: object, dest: object, *options: object) -> Finished:
    return run("pack", source, dest, "--to", "webdataset", *SHARDS, *options)


class TestTheSameBytes:
    @pytest.mark.parametrize("layout", FORMATS)
    def test_in_every_format(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path, layout: str
    ) -> None:
        alone, shared = tmp_path / "alone", tmp_path / "shared"
        for dest, engine in ((alone, "local"), (shared, "ray")):
            done = run_here("pack", twelve, dest, "--to", layout, *SHARDS, "--engine", engine)
            assert done.code == 0, done.err
        assert contents(shared) == contents(alone)
        assert {task.machine for task in machines.tasks} == {"one", "two"}

    def test_of_copies_by_relative_paths(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path
    ) -> None:
        assert pack(run_here, twelve, tmp_path / "first").code == 0
        for dest, engine in (("alone", "local"), ("shared", "ray")):
            options = ("--shards", 2, "--engine", engine)
            assert run_here("shard", "first", dest, *options, cwd=tmp_path).code == 0
        assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
        assert run_here("verify", "shared", "--engine", "ray", cwd=tmp_path).code == 0

    def test_appended(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path
    ) -> None:
        more = tmp_path / "more"
        (more / "a").mkdir(parents=True)
        (more / "a" / "new.jpg").write_bytes(jpeg(7, (20, 20)))
        for engine in ("local", "ray"):
            assert pack(run_here, twelve, tmp_path / engine).code == 0
            done = run_here("shard", "append", more, tmp_path / engine, "--engine", engine)
            assert done.code == 0, done.err
        assert contents(tmp_path / "ray") == contents(tmp_path / "local")

    def test_of_augmented_copies_on_s3(
        self,
        run_here: RunHere,
        machines: Directories,
        twelve: Path,
        tmp_path: Path,
        ceph: Bucket,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
        asked = ("--to", "webdataset", "--op", "rotate=40,noise=5", "--per-image", 2, "--shards", 3)
        for dest, engine in ((f"{ceph.url}/augmented/", "ray"), (tmp_path / "local", "local")):
            done = run_here("augment", twelve, dest, *asked, "--engine", engine)
            assert done.code == 0, done.err
        assert "augment.parquet" in ceph.contents("augmented/")
        assert ceph.contents("augmented/") == contents(tmp_path / "local")

    def test_on_s3(
        self,
        run_here: RunHere,
        machines: Directories,
        twelve: Path,
        tmp_path: Path,
        ceph: Bucket,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        killed: list[Task] = []

        def begun(task: Task) -> None:
            if not killed and task.name == "write_shard":
                killed.append(task)
                task.process.kill()

        machines.begun = begun
        assert pack(run_here, twelve, f"{ceph.url}/ray/", "--engine", "ray").code == 0
        assert pack(run_here, twelve, tmp_path / "local").code == 0
        assert ceph.contents("ray/") == contents(tmp_path / "local")
        assert list((tmp_path / "machines").rglob("*-tries")) == []


class TestMachinesThatDie:
    def test_do_no_harm(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path
    ) -> None:
        def begun(task: Task) -> None:
            tried = [each for each in machines.tasks if each.name == "write_shard"]
            if task.name == "write_shard" and len(tried) in (1, 2, 5):
                task.process.kill()

        machines.begun = begun
        done = pack(run_here, twelve, tmp_path / "shared", "--engine", "ray")
        assert done.code == 0, done.err
        assert pack(run_here, twelve, tmp_path / "alone").code == 0
        assert contents(tmp_path / "shared") == contents(tmp_path / "alone")

    def test_each_time_stop_the_run_which_goes_on_anywhere(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path
    ) -> None:
        alone, shared = tmp_path / "alone", tmp_path / "shared"
        written: list[Task] = []

        def begun(task: Task) -> None:
            if written and task.name == "write_shard":
                task.process.kill()
            written.extend([task] * (task.name == "write_shard"))

        machines.begun = begun
        done = pack(run_here, twelve, shared, "--engine", "ray", "-j", 1)
        assert done.code == 6
        assert "train-000001.tar, which takes 4 samples from a/" in done.err
        assert "4 times; give the same command again to continue" in done.err
        assert (shared / "train-000000.tar").exists()
        done = pack(run_here, twelve, shared)
        assert done.code == 0
        assert "continues; 1 of 3 shards complete" in done.err
        assert pack(run_here, twelve, alone).code == 0
        assert contents(shared) == contents(alone)

    def test_report_rejects_once(
        self,
        run_here: RunHere,
        machines: Directories,
        twelve: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        source, done = tmp_path / "flawed", list[int]()
        for at, path in enumerate(sorted(twelve.rglob("*.jpg"))):
            copy = source / path.relative_to(twelve)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(b"no image" if at == 1 else path.read_bytes())
        # The first try dies when it has told all.
        machines.broken["one"] = (
            "import dsprep.run.shard as s, os, time\n"
            "s.Target.leave = lambda *_: (time.sleep(0.3), os._exit(9))\n"
        )
        for name, seconds in (("BEAT", 0.05), ("_LOOK_EVERY", 0.1)):
            monkeypatch.setattr(f"dsprep.workers.cluster.{name}", seconds)
        monkeypatch.setattr(Progress, "advance", lambda self, samples, _: done.append(samples))
        from dsprep import pack as pack_

        report = pack_(
            *(source, tmp_path / "out"),
            to="webdataset",
            shards=3,
            engine="ray",
            max_errors=1,
            progress=Progress(),
        )
        assert len(report.rejects) == 1
        assert sum(done) == 12

    def test_silently_and_come_back_do_no_harm(
        self,
        run_here: RunHere,
        machines: Directories,
        twelve: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for name, seconds in (("BEAT", 0.05), ("SILENT_AFTER", 1.0), ("_LOOK_EVERY", 0.1)):
            monkeypatch.setattr(f"dsprep.workers.cluster.{name}", seconds)
        marker = tmp_path / "renames"
        machines.broken["one"] = (  # it stops when its first shard is whole and has no name
            "import os, signal, dsprep.run.shard as s\n"
            "before = s.Target.leave\n"
            f"def leave(*given):\n    open({str(marker)!r}, 'a').close()\n"
            "    os.kill(os.getpid(), signal.SIGSTOP)\n    before(*given)\n"
            "s.Target.leave = leave\n"
        )
        shared = tmp_path / "shared"
        done = pack(run_here, twelve, shared, "--engine", "ray")
        assert done.code == 0, done.err
        assert marker.exists()
        assert pack(run_here, twelve, tmp_path / "alone").code == 0
        stopped = [task for task in machines.tasks if task.process.poll() is None]
        assert stopped
        for task in stopped:
            task.go_on()
        for task in stopped:
            task.process.wait(30)
        assert contents(shared) == contents(tmp_path / "alone")
        assert [path.name for path in shared.glob(".*")] == []

    @pytest.mark.parametrize("when", ["before its upload", "before its receipt"])
    def test_silently_and_come_back_do_no_harm_on_s3(
        self,
        run_here: RunHere,
        machines: Directories,
        twelve: Path,
        tmp_path: Path,
        ceph: Bucket,
        monkeypatch: pytest.MonkeyPatch,
        when: str,
    ) -> None:
        for name, seconds in (("BEAT", 0.05), ("SILENT_AFTER", 1.0), ("_LOOK_EVERY", 0.1)):
            monkeypatch.setattr(f"dsprep.workers.cluster.{name}", seconds)
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        name = "_require_lease" if when == "before its upload" else "publish"
        machines.broken["one"] = (  # it stops when it knows that it holds the lease
            "import os, signal, dsprep.run.target as t\n"
            f"before = t.Staged.{name}\n"
            "def after(*given):\n    done = before(*given)\n"
            "    os.kill(os.getpid(), signal.SIGSTOP)\n    return done\n"
            f"t.Staged.{name} = after\n"
        )
        url = f"{ceph.url}/wds/"
        done = pack(run_here, twelve, url, "--engine", "ray")
        assert done.code == 0, done.err
        other = (twelve, url, "--to", "webdataset", *SHARDS, "--overwrite", "--seed", 7)
        assert run_here("pack", *other, env={"AWS_ENDPOINT_URL": ceph.endpoint}).code == 0
        before = ceph.contents("wds/")
        stopped = [task for task in machines.tasks if task.process.poll() is None]
        assert stopped
        for task in stopped:
            task.go_on()
        for task in stopped:
            task.process.wait(30)
        assert ceph.contents("wds/") == before
        assert list((tmp_path / "machines").rglob("*-tries")) == []


class TestMachinesThatDiffer:
    """Each is found before anything is written."""

    BREAKS = {
        "image": (
            "import dsprep.images.probe as p, sys\np.versions = lambda _: 'Pillow 1'\n"
            "import dsprep.run.nodes as n\nn.probe = lambda _: 'other'\n",
            5,
            "images would not be the same on all machines",
        ),
        "source": (
            "import dsprep.run.nodes as n\n"
            "def facts(path):\n    raise FileNotFoundError(2, 'No such file', path)\n"
            "n.facts = facts\n",
            4,
            "does not see it (No such file)",
        ),
        "destination": (
            "import pathlib\npathlib.Path.is_dir = lambda self: False\n",
            5,
            "does not see this directory",
        ),
    }

    @pytest.mark.parametrize("what", BREAKS)
    def test_are_named(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path, what: str
    ) -> None:
        machines.broken["two"], code, text = self.BREAKS[what]
        done = pack(run_here, twelve, tmp_path / "out", "--engine", "ray")
        assert done.code == code, done.err
        assert text in done.err
        assert done.err.count("two") == 1  # the name of the machine, once
        assert not (tmp_path / "out").exists()

    def test_leave_what_was_there(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path, ceph: Bucket
    ) -> None:
        local, remote = tmp_path / "out", f"{ceph.url}/wds/"
        env = {"AWS_ENDPOINT_URL": ceph.endpoint, "TMPDIR": str(tmp_path / "stage")}
        for dest in (local, remote):
            assert run_here("pack", twelve, dest, "--to", "webdataset", env=env).code == 0
        before = contents(local), ceph.contents("wds/")
        differs = "import dsprep.run.nodes as n\nn.probe = lambda _: 'other'\n"
        broken = "import dsprep.images.probe as p\np._IMAGE = ''\n"
        for dest, machines.broken["two"], code, text in (
            (local, differs, 5, "has the same versions as the driver"),
            (remote, broken, 1, "do not make a built-in image"),
        ):
            options = ("--to", "webdataset", *SHARDS, "--engine", "ray", "--overwrite")
            done = run_here("pack", twelve, dest, *options, env=env)
            assert (done.code, text in done.err) == (code, True)
        assert (contents(local), ceph.contents("wds/")) == before
        assert not [*(tmp_path / "stage").iterdir()]


class TestWhatIsHostile:
    def test_a_full_disk_of_one_machine_is_told(
        self,
        run_here: RunHere,
        machines: Directories,
        twelve: Path,
        tmp_path: Path,
        ceph: Bucket,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Shards on the way to S3 lie there; with room, the run goes on."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
        with small_disk(tmp_path / "machines" / "two", "64k") as disk:
            (disk / "filler").write_bytes(bytes(64 * 1024))
            full = pack(run_here, twelve, f"{ceph.url}/ray/", "--engine", "ray")
            assert full.code == 5, full.err
            assert "the disk is full; make room and give the same command again" in full.err
            assert "/machines/two/" in full.err
            assert "ray/manifest.json" not in ceph.contents()
            (disk / "filler").unlink()
            assert pack(run_here, twelve, f"{ceph.url}/ray/", "--engine", "ray").code == 0
        assert pack(run_here, twelve, tmp_path / "local").code == 0
        assert ceph.contents("ray/") == contents(tmp_path / "local")

    @pytest.mark.parametrize("what", ["a size", "garbage"])
    def test_a_manifest_that_lies_is_told_as_on_one_machine(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path, what: str
    ) -> None:
        source = tmp_path / "source"
        assert pack(run_here, twelve, source).code == 0
        values = json.loads((source / "manifest.json").read_text())
        first = values["shards"][0]
        if what == "garbage":
            (source / first["name"]).write_bytes(b"\xfe" * first["bytes"])
        else:
            assert "bytes" in first
            first["bytes"] = 1 << 50
            (source / "manifest.json").write_text(json.dumps(values))
        codes: dict[str, list[int]] = {"local": [], "ray": []}
        for engine, found in codes.items():
            options = ("--to", "tfrecord", "--engine", engine)
            found.append(run_here("convert", source, tmp_path / engine, *options).code)
            found.append(run_here("verify", source, "--engine", engine).code)
        assert codes["ray"] == codes["local"]
        assert codes["ray"][1] in (3, 4)


class TestRefusals:
    @pytest.mark.parametrize(
        ("address", "text"),
        [("127.0.0.1:1", "no Ray cluster answers there"), ("somewhere", "give HOST:PORT")],
    )
    def test_of_an_address(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, address: str, text: str
    ) -> None:
        began = time.monotonic()
        options = ("--engine", "ray", "--ray-address", address)
        done = pack(run_here, twelve, tmp_path / "out", *options)
        assert done.code == 2
        assert text in done.err
        assert time.monotonic() - began < 15
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("kind", ["HTTP", "gRPC"])
    def test_of_another_server(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, kind: str
    ) -> None:
        if kind == "HTTP":
            server: Any = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            port, end = server.server_port, server.shutdown
        else:
            import grpc  # which TensorFlow brings

            server = grpc.server(ThreadPoolExecutor(1))
            port, end = server.add_insecure_port("127.0.0.1:0"), lambda: server.stop(0)
            server.start()
        options = ("--engine", "ray", "--ray-address", f"127.0.0.1:{port}")
        done = pack(run_here, twelve, tmp_path / "out", *options)
        end()
        assert done.code == 2
        assert "no Ray cluster answers there (something else does)" in done.err

    def test_without_ray(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        done = pack(run_here, twelve, tmp_path / "out", "--engine", "ray")
        assert (done.code, done.err.strip()) == (
            2,
            "dsprep: --engine ray needs Ray: pip install ray",
        )

    @pytest.mark.parametrize(
        "options", [("--ray-address", "auto"), ("--engine", "ray", "--part", "0/2")]
    )
    def test_of_options(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, options: Any
    ) -> None:
        done = pack(run_here, twelve, tmp_path / "out", *options)
        assert done.code == 2
        assert ("is refused" if "--part" in options else "has no effect") in done.err
        done = run_here("verify", "s3://bucket/set", "--engine", "ray")
        assert (done.code, "compared by this machine" in done.err) == (2, True)

    def test_of_what_each_node_would_unpack(
        self, run_here: RunHere, machines: Directories, twelve: Path, tmp_path: Path, ceph: Bucket
    ) -> None:
        first, env = tmp_path / "first", {"AWS_ENDPOINT_URL": ceph.endpoint}
        assert (
            run_here("pack", twelve, first, "--to", "tfrecord", "--compression", "gzip").code == 0
        )
        options = ("--engine", "ray", "--shuffle")
        done = run_here("shard", first, f"{ceph.url}/out/", *options, env=env)
        assert (done.code, "is compressed" in done.err) == (2, True)
        assert ceph.keys() == []
