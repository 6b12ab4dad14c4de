"""``join``: the data sets that several machines have packed become one."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.dataset.manifest import read_manifest
from tests.conftest import Finished
from tests.images import image_folder, jpeg
from tests.run.conftest import Machine, files
from tests.servers.bucket import Bucket

RunHere = Callable[..., Finished]
FORMATS = ("webdataset", "tfrecord", "recordio", "recordio-protobuf", "mds", "parquet")
CLASSES = ("cat", "dog", "owl")


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """The images of three machines, which see other files each, and one of them not each class."""
    root = tmp_path_factory.mktemp("shares")
    (root / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    for node in range(3):
        for at, name in enumerate(CLASSES[: 2 + node % 2]):
            place = root / f"images-{node}" / name
            place.mkdir(parents=True)
            for number in range(3):
                (place / f"{node}-{number}.jpg").write_bytes(
                    jpeg(100 * (node + 1) + 10 * at + number)
                )
    (root / "images-1/dog/broken.jpg").write_bytes(b"no image")
    return [root / f"images-{node}" for node in range(3)]


def pack_all(
    run: RunHere, shares: Sequence[Path], out: Path, to: str, *options: object
) -> list[Path]:
    """Pack the images of each machine into a directory of its own."""
    classes = shares[0].with_name("classes.txt")
    nodes = [out / f"node-{node}" for node in range(len(shares))]
    for node, (source, dest) in enumerate(zip(shares, nodes, strict=True)):
        own = ("--name", f"train-{node}", "--to", to, "--classes", classes, "-j", 1)
        done = run("pack", source, dest, "--shards", 2, *own, *options)
        assert done.code in (0, 3), done.err
    return nodes


def contents(directory: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(path, directory): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class TestThreeMachines:
    @pytest.mark.parametrize("to", FORMATS)
    def test_become_one_data_set(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path, to: str
    ) -> None:
        nodes = pack_all(run_here, shares, tmp_path, to)
        before, train = [*map(contents, nodes)], tmp_path / "train"
        planned = run_here("join", *nodes, train, "--dry-run")
        assert (planned.code, train.exists()) == (3, False)
        assert "nothing was written" in planned.out
        done = run_here("join", *nodes, train, "--json")
        assert done.code == 3, done.err  # one image was rejected
        report = json.loads(done.out)
        assert (report["state"], report["samples"], len(report["shards"])) == ("joined", 21, 6)
        assert report["rejects"][0]["path"] == "dog/broken.jpg"
        assert report["classes"] == [*CLASSES]
        # No shard was written again, and nothing is left behind.
        assert not (train / ".dsprep").exists()
        assert [*map(contents, nodes)] == before
        for node in nodes:
            for shard in read_manifest(node / "manifest.json").shards:
                for file in (shard, *shard.sidecars):
                    assert (train / file.name).samefile(node / file.name)
        # The order of the arguments does not matter.
        assert run_here("join", *reversed(nodes), tmp_path / "again").code == 3
        assert contents(tmp_path / "again") == contents(train)
        # All commands take what it makes.
        assert run_here("join", *nodes, train).out.startswith(f"{train}: already joined")
        assert run_here("status", train).code == 0
        kind = {"webdataset": "wids", "recordio": "mxnet"}.get(to, "manifest")
        assert run_here("shard", "index", train, "--check", "--kind", kind).code == 0
        whole = run_here("verify", train)
        assert (whole.code, "21 of 21 samples (image)" in whole.out) == (0, True), whole.out
        for source, count in zip(shares, (15, 12, 15), strict=True):
            proven = run_here("verify", train, "--against", source)
            assert proven.code == 0, proven.out
            assert f"{count} samples in 4 shards not compared" in proven.out

    @pytest.mark.parametrize("to", FORMATS)
    def test_and_go_on_from_there(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path, to: str
    ) -> None:
        nodes = pack_all(run_here, shares[::2], tmp_path, to)
        train, more = tmp_path / "train", tmp_path / "more"
        assert run_here("join", *nodes, train).code == 0
        image_folder(more, ("cat", "owl"), 2)
        if to != "parquet":
            assert run_here("shard", "append", more, train).code == 0
        for node in nodes:  # hard links stay when the other name goes
            shutil.rmtree(node)
        assert run_here("verify", train).code == 0
        assert run_here("verify", train, "--against", shares[2]).code == 0
        if to != "parquet":
            assert run_here("verify", train, "--against", more).code == 0
        done = run_here("convert", train, tmp_path / "wds", "--to", "webdataset", "--key", "index")
        assert done.code == 0, done.err
        # Those that are joined already can be joined with others.
        (third,) = pack_all(run_here, shares[1:2], tmp_path / "third", to, "--name", "val")
        done = run_here("join", train, third, tmp_path / "all")
        assert done.code == 3, done.err
        for source in (*shares, *([more] if to != "parquet" else [])):
            proven = run_here("verify", tmp_path / "all", "--against", source)
            assert proven.code == 0, proven.out

    def test_need_be_named_once(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path
    ) -> None:
        (node,) = pack_all(run_here, shares[:1], tmp_path, "webdataset")
        done = run_here("join", node, node, tmp_path / "train")
        assert (done.code, "given 2 times; name it once" in done.err) == (2, True)

    def test_of_single_files(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path
    ) -> None:
        classes = ("--classes", shares[0].with_name("classes.txt"))
        for node, source in enumerate(shares):
            dest = tmp_path / f"out/train-{node}.tar"
            dest.parent.mkdir(exist_ok=True)
            assert run_here("pack", source, dest, *classes).code in (0, 3)
        done = run_here("join", tmp_path / "out", tmp_path / "train")
        assert done.code == 3, done.err
        assert run_here("verify", tmp_path / "train").code == 0
        names = {"classes.txt", "manifest.json", "rejects.jsonl", "train.json"}
        names |= {f"train-{node}.tar" for node in range(3)}
        assert contents(tmp_path / "train").keys() == names

    def test_with_sides(self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path) -> None:
        options = ("--split", "train=0.6,val=0.4", "--shards", 1)
        nodes = pack_all(run_here, shares[::2], tmp_path, "recordio", *options)
        train = tmp_path / "train"
        assert run_here("join", *nodes, train).code == 0
        manifest = read_manifest(train / "manifest.json")
        names = [shard.name for shard in manifest.shards]
        assert [name.split("-")[2] for name in names] == ["train", "train", "val", "val"]
        assert [*manifest.sides.values()] == ["train", "train", "val", "val"]
        assert run_here("verify", train).code == 0
        for source in shares[::2]:
            assert run_here("verify", train, "--against", source).code == 0
        (other,) = pack_all(run_here, shares[1:2], tmp_path / "other", "recordio")
        refused = run_here("join", *nodes, other, tmp_path / "no")
        assert (refused.code, "has no sides" in refused.err) == (4, True)

    @pytest.mark.parametrize("to", ["webdataset", "tfrecord"])
    def test_with_boxes_and_fields_that_some_lack(
        self, run_here: RunHere, tmp_path: Path, to: str
    ) -> None:
        nodes = [tmp_path / "node-0", tmp_path / "node-1"]
        for node, dest in enumerate(nodes):
            source, names = tmp_path / f"coco-{node}", [f"{node}-{n}.jpg" for n in range(4)]
            box = {"category_id": 1, "bbox": [1, 2, 3, 4], "area": 12}
            coco = {
                "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
                "annotations": [{"id": n, "image_id": n, **box} for n in range(2 + node)],
                "categories": [{"id": 1, "name": "a"}, {"id": 7, "name": "b"}],
            }
            (source / "images").mkdir(parents=True)
            for n, name in enumerate(names):
                (source / "images" / name).write_bytes(jpeg(10 * node + n))
            (source / "instances.json").write_text(json.dumps(coco))
            done = run_here("pack", source, dest, "--to", to, "--name", f"n{node}")
            assert done.code == 0, done.err
        done = run_here("join", *nodes, tmp_path / "train", "--json")
        assert done.code == 0, done.err
        counts = {"objects": 5, "classes": 2, "samples": 5, "without": 3, "per_class": {}}
        assert json.loads(done.out)["objects"] == counts
        assert run_here("verify", tmp_path / "train").code == 0
        if to == "tfrecord":
            label_map = (tmp_path / "train/label_map.pbtxt").read_bytes()
            assert label_map == (nodes[0] / "label_map.pbtxt").read_bytes()

    def test_with_fields_that_samples_of_one_lack(self, run_here: RunHere, tmp_path: Path) -> None:
        nodes = [tmp_path / "node-0", tmp_path / "node-1"]
        for node, dest in enumerate(nodes):
            source = tmp_path / f"parts-{node}"
            source.mkdir()
            for number in range(4):
                (source / f"{node}-{number}.jpg").write_bytes(jpeg(10 * node + number))
                if number or not node:
                    (source / f"{node}-{number}.txt").write_text(f"image {number}")
            options = ("--parts", "--to", "webdataset", "--name", f"n{node}", "--shards", 1)
            assert run_here("pack", source, dest, *options).code == 0
        assert run_here("join", *nodes, tmp_path / "train").code == 0
        manifest = read_manifest(tmp_path / "train/manifest.json")
        assert manifest.schema is not None
        missing = {each.name: each.missing for each in manifest.schema.fields}
        assert missing == {"image": False, "text": True}
        assert run_here("verify", tmp_path / "train").code == 0

    def test_of_other_programs(self, run_here: RunHere, tmp_path: Path) -> None:
        for node in range(2):
            image_folder(tmp_path / "images", (f"class{node}",), 3)
            own = tmp_path / f"node-{node}"
            run_here("pack", tmp_path / "images", own, "--to", "tfrecord", "--name", f"n{node}")
            for name in ("manifest.json", "classes.txt"):
                (own / name).unlink()
            assert run_here("shard", "index", own, "--kind", "manifest").code == 0
            shutil.rmtree(tmp_path / "images")
        done = run_here("join", tmp_path / "node-0", tmp_path / "node-1", tmp_path / "train")
        assert done.code == 0, done.err
        assert run_here("verify", tmp_path / "train").code == 0


class TestRefused:
    """What does not belong together is refused before anything is written."""

    @pytest.fixture
    def refused(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path
    ) -> Callable[..., str]:
        def join(second: Sequence[object], to: str = "webdataset", code: int = 4) -> str:
            """Return what is said when the second data set is made with these options."""
            first, other = tmp_path / "first", tmp_path / "second"
            classes = ("--classes", shares[0].with_name("classes.txt"))
            own = ("--to", to, "--shards", 1, "--name", "one")
            assert run_here("pack", shares[0], first, *own, *classes).code == 0
            made = run_here("pack", *second[:1], other, *own, "--name", "two", *second[1:])
            assert made.code in (0, 3), made.err
            done = run_here("join", first, other, tmp_path / "train")
            assert (done.code, (tmp_path / "train").exists()) == (code, False), done.err
            return done.err.replace(str(tmp_path), "")

        return join

    def test_other_classes(self, refused: Callable[..., str], shares: Sequence[Path]) -> None:
        text = refused([shares[2]])
        assert "/second: its class 2 is missing, and that of /first is 'owl'; give" in text
        assert "--classes FILE" in text

    def test_other_types(self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path) -> None:
        nodes = [tmp_path / "node-0", tmp_path / "node-2"]
        commands = []
        for node, scores in ((0, (1, 2, 3)), (2, (1, 2.5, 3))):
            table = tmp_path / f"labels-{node}.csv"
            rows = [
                f"{name}/{node}-{number}.jpg,{name},{score}"
                for name in CLASSES[:2]
                for number, score in enumerate(scores)
            ]
            table.write_text("\n".join(["path,label,score", *rows]))
            labels = ("--labels", table, "--fields", "score", "--to", "webdataset")
            commands.append((shares[node], nodes[node // 2], *labels, "--name", f"n{node}"))
        for command in commands:
            assert run_here("pack", *command).code == 0
        refused = run_here("join", *nodes, tmp_path / "train")
        assert refused.code == 4
        what = f"{nodes[1]}: its field 'score' is float64, and that of {nodes[0]} is int; "
        what += "give each machine --cast score=TYPE"
        assert what in refused.err
        # The advice helps.
        for command in commands:
            done = run_here("pack", *command, "--cast", "score=float64", "--overwrite")
            assert done.code == 0, done.err
        assert run_here("join", *nodes, tmp_path / "train").code == 0
        assert run_here("verify", tmp_path / "train").code == 0

    def test_other_fields(
        self, refused: Callable[..., str], shares: Sequence[Path], tmp_path: Path
    ) -> None:
        table = tmp_path / "labels.csv"
        rows = [f"{name}/2-{n}.jpg,{name},{n}" for name in CLASSES[:2] for n in range(3)]
        table.write_text("\n".join(["path,label,caption", *rows]))
        classes = ("--classes", shares[0].with_name("classes.txt"))
        text = refused([shares[2], "--labels", table, "--fields", "caption", *classes])
        assert "/first: has no field 'caption', and /second has; give each machine" in text

    @pytest.mark.parametrize("options", [("--resize", 20), ("--key", "index")])
    def test_other_options(
        self, refused: Callable[..., str], shares: Sequence[Path], options: Sequence[object]
    ) -> None:
        classes = ("--classes", shares[0].with_name("classes.txt"))
        text = refused([shares[2], *classes, *options])
        what = {"--resize": "transform", "--key": "key"}[str(options[0])]
        assert f"/second: was written with other options than /first ({what}); give" in text

    def test_another_format(
        self, refused: Callable[..., str], shares: Sequence[Path], tmp_path: Path
    ) -> None:
        text = refused([shares[2], "--to", "tfrecord"])
        assert "/second: is tfrecord, and /first is webdataset" in text

    def test_the_same_names(self, refused: Callable[..., str], shares: Sequence[Path]) -> None:
        classes = ("--classes", shares[0].with_name("classes.txt"))
        text = refused([shares[2], *classes, "--name", "one"])
        assert "/second: has a file one-000000.tar, as /first has; give each machine" in text

    @pytest.mark.parametrize("to", ["webdataset", "recordio"])
    def test_the_same_samples(
        self, refused: Callable[..., str], shares: Sequence[Path], to: str
    ) -> None:
        classes = ("--classes", shares[0].with_name("classes.txt"))
        text = refused([shares[0], *classes], to)
        assert "/second: holds samples of the same source as /first; leave one out" in text

    def test_the_same_keys(
        self, refused: Callable[..., str], shares: Sequence[Path], tmp_path: Path
    ) -> None:
        copy = tmp_path / "images/cat"
        copy.mkdir(parents=True)
        (copy / "0-1.jpg").write_bytes(jpeg(77))
        (copy / "9-1.jpg").write_bytes(jpeg(78))
        text = refused([copy.parent, "--classes", shares[0].with_name("classes.txt")])
        assert "1 key would be that of several samples: cat/0-1 (one-000000.tar/cat/0-1, " in text

    def test_what_holds_no_data_set(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path
    ) -> None:
        done = run_here("join", shares[0], shares[1], tmp_path / "train")
        assert (done.code, "holds no manifest.json; name what" in done.err) == (4, True)
        done = run_here("join", tmp_path / "nowhere", tmp_path / "train")
        assert (done.code, "cannot be read (No such file" in done.err) == (4, True)

    def test_damaged_data_sets(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path
    ) -> None:
        nodes = pack_all(run_here, shares[:2], tmp_path, "recordio")
        reports, index = nodes[1] / "rejects.jsonl", nodes[0] / "train-0-00001.idx"
        was = reports.read_bytes()
        for path, data, said in (
            (reports, was.replace(b"dog", b"cat"), "is not as it was written"),
            (index, b"", "has 0 bytes, not the"),
            (index, None, "cannot be read (No such file"),
        ):
            path.write_bytes(data) if data is not None else path.unlink()
            done = run_here("join", *nodes, tmp_path / "train")
            assert (done.code, f"{path}: {said}" in done.err) == (4, True), done.err
            reports.write_bytes(was)
        assert not (tmp_path / "train").exists()

    def test_what_is_there_already(
        self, run_here: RunHere, shares: Sequence[Path], tmp_path: Path
    ) -> None:
        nodes, train = pack_all(run_here, shares[::2], tmp_path, "recordio"), tmp_path / "train"
        assert run_here("join", nodes[0], train).code == 0
        refused = run_here("join", *nodes, train)
        assert (refused.code, "another command wrote" in refused.err) == (5, True)
        assert run_here("join", *nodes, train, "--overwrite").code == 0
        whole = contents(train)
        assert run_here("join", nodes[1], train, "--overwrite").code == 0
        assert run_here("verify", train).code == 0
        assert not (train / "train-0-00000.rec").exists()
        assert run_here("join", *nodes, train, "--overwrite").code == 0
        assert contents(train) == whole
        (train / "manifest.json").unlink()
        refused = run_here("join", *nodes, train)
        assert (refused.code, "is there already, and not by this" in refused.err) == (5, True)
        refused = run_here("join", *nodes, nodes[0])
        assert (refused.code, "is the source as well" in refused.err) == (2, True)
        refused = run_here("join", *nodes, tmp_path / "train.rec")
        assert (refused.code, "writes to a directory" in refused.err) == (2, True)


def test_another_disk_gets_copies(
    run_here: RunHere, shares: Sequence[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, train = pack_all(run_here, shares[::2], tmp_path, "tfrecord"), tmp_path / "train"

    def link(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    assert run_here("join", *nodes, tmp_path / "linked").code == 0
    monkeypatch.setattr(os, "link", link)
    shard = nodes[1] / "train-1-00000-of-00002.tfrecord"
    was = shard.read_bytes()
    shard.write_bytes(was[:-1] + b"?")
    refused = run_here("join", *nodes, train)
    assert (refused.code, "is not the file that its manifest names" in refused.err) == (4, True)
    assert run_here("status", train).code == 6
    shard.write_bytes(was)
    done = run_here("join", *nodes, train)
    assert (done.code, "continued as tfrecord" in done.out) == (0, True), done.err
    assert contents(train) == contents(tmp_path / "linked")
    assert not (train / shard.name).samefile(shard)


def test_a_join_that_is_killed_goes_on(
    run_here: RunHere, shares: Sequence[Path], tmp_path: Path
) -> None:
    """Killed for real at any system call, twice: it ends with the same files, and none is lost."""
    nodes = pack_all(run_here, shares[::2], tmp_path, "recordio")
    before = [*map(contents, nodes)]
    dsprep.join(nodes, tmp_path / "whole")
    train, rng = tmp_path / "train", random.Random(5)

    def killed(at: int) -> bool:
        child = os.fork()
        if not child:
            calls = 0

            def counted(call: Callable[..., Any]) -> Callable[..., Any]:
                def count(*args: Any, **options: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls == at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return call(*args, **options)

                return count

            for name in ("mkdir", "rename", "replace", "fsync", "link", "unlink", "rmdir"):
                setattr(os, name, counted(getattr(os, name)))
            dsprep.join(nodes, train)
            os._exit(0)
        return bool(os.waitpid(child, 0)[1])

    at = 1
    while killed(at):
        assert (
            not (train / "manifest.json").exists()
            or contents(train).items() >= contents(tmp_path / "whole").items()
        )
        killed(rng.randrange(1, 40))
        dsprep.join(nodes, train)
        assert contents(train) == contents(tmp_path / "whole")
        assert [*map(contents, nodes)] == before
        shutil.rmtree(train)
        at += 3
    assert at > 30


KILLED = """
import os, signal
import dsprep
from dsprep.run.target import Staged as Target
calls, call = [], Target.{name}
def counted(*args):
    call(*args)
    calls.append(args)
    if len(calls) == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
Target.{name} = counted
dsprep.join({sources!r}, {dest!r})
"""
"""A join to S3 that is killed after it has written some notes, or the manifest."""


class TestOnS3:
    def test_a_join_that_is_killed_goes_on_elsewhere(
        self,
        soon: None,
        run_here: RunHere,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        shares: Sequence[Path],
        tmp_path: Path,
    ) -> None:
        nodes, machine = pack_all(run_here, shares[::2], tmp_path, "recordio"), on_ceph("one")
        for node in nodes:
            for name, data in files(node).items():
                ceph.put(f"out/{node.name}/{name}", data)
        prefixes = [f"{ceph.url}/out/{node.name}" for node in nodes]
        env = {**os.environ, **ceph.env, **machine.env}
        whole = tmp_path / "whole"
        assert run_here("join", *nodes, whole).code == 0
        for name, at in (("write", 2), ("write", 4), ("publish_manifest", 1)):
            dest = f"{name}-{at}/"
            code = KILLED.format(name=name, at=at, sources=prefixes, dest=f"{ceph.url}/{dest}")
            killed = subprocess.run([sys.executable, "-c", code], env=env, check=False)
            assert killed.returncode == -signal.SIGKILL
            done = on_ceph(f"after-{name}-{at}")("join", *prefixes, f"{ceph.url}/{dest}")
            assert name == "write" or "already joined" in done.out
            assert ceph.contents(dest) == files(whole)
        assert ceph.uploads() == []

    def test_from_a_disk_and_from_s3(
        self,
        run_here: RunHere,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        shares: Sequence[Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        nodes, machine = pack_all(run_here, shares, tmp_path, "webdataset"), on_ceph("station")
        assert run_here("join", *nodes, tmp_path / "train").code == 3
        whole = files(tmp_path / "train")
        done = machine("join", *nodes, f"{ceph.url}/train/", code=3)
        assert done.out.startswith(f"{ceph.url}/train/: joined as webdataset")
        assert ceph.contents("train/") == whole
        for node in nodes:
            for name, data in files(node).items():
                ceph.put(f"out/{node.name}/{name}", data)
        there = ceph.contents("out/")
        prefixes = [f"{ceph.url}/out/{node.name}" for node in nodes]
        # A large object is copied in parts.
        monkeypatch.setattr("dsprep.storage.transfer.LARGEST_COPY", 5000)
        monkeypatch.setattr("dsprep.storage.transfer.COPY_PART", 4096)
        machine("join", *prefixes, f"{ceph.url}/joined/", code=3)
        assert ceph.contents("joined/") == whole
        assert ceph.contents("out/") == there
        assert ceph.uploads() == []
        machine("join", *prefixes[:2], nodes[2], tmp_path / "back", code=3)
        assert files(tmp_path / "back") == whole
        assert machine("verify", f"{ceph.url}/joined/", "--download")
        assert "already joined" in machine("join", *nodes, f"{ceph.url}/joined/", code=3).out
        assert machine.left() == []

    def test_a_join_that_failed_goes_on(
        self,
        run_here: RunHere,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        shares: Sequence[Path],
        tmp_path: Path,
    ) -> None:
        nodes, machine = pack_all(run_here, shares[::2], tmp_path, "recordio"), on_ceph("one")
        for node in nodes:
            for name, data in files(node).items():
                ceph.put(f"out/{node.name}/{name}", data)
        prefixes = [f"{ceph.url}/out/{node.name}" for node in nodes]
        dest = f"{ceph.url}/train/"
        shard = nodes[1] / "train-1-00001.rec"
        ceph.s3.put_object(
            Bucket=ceph.name,
            Key=f"out/node-1/{shard.name}",
            Body=shard.read_bytes(),
            Metadata={"dsprep-crc32c": "00000000"},
        )
        failed = machine("join", *prefixes, dest, code=4)
        assert f"{shard.name}: is not the file that its manifest names" in failed.err
        machine("status", dest, code=6)
        assert not ceph.contents("train/manifest.json")
        ceph.put(f"out/node-1/{shard.name}", shard.read_bytes())
        done = on_ceph("other")("join", *prefixes, dest)
        assert "continued as recordio" in done.out
        assert run_here("join", *nodes, tmp_path / "train").code == 0
        assert ceph.contents("train/") == files(tmp_path / "train")
