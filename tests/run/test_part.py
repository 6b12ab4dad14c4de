"""``--part I/N``: processes that know nothing of each other write one data set between them."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import dsprep
import dsprep.run.part as part_module
from dsprep.errors import OptionError, RunStopped
from dsprep.images.probe import versions
from dsprep.images.transform import Transform
from dsprep.progress import Progress
from dsprep.run.part import Part, parse_part
from dsprep.run.receipt import Receipt
from dsprep.run.run import Run
from dsprep.run.write_report import WriteReport
from dsprep.storage.lease import Lease
from dsprep.storage.local import ScratchLock
from tests.conftest import Finished
from tests.foreign.sets import SETS
from tests.images import image_folder, jpeg
from tests.run.conftest import Machine, files
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.sources.boxes import box, coco
from tests.sources.boxes import write as boxes_write
from tests.transfers import store_of

RunHere = Callable[..., Finished]
FORMATS = ("webdataset", "tfrecord", "recordio", "recordio-protobuf", "parquet")
SHARDS = ("--shards", 5, "--shuffle", "-j", 1)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def member(path: Path, name: str) -> bytes:
    with ZipFile(path) as file:
        return file.read(name)


def put(path: Path, name: str, data: bytes) -> None:
    """Replace a member of a zip file."""
    with ZipFile(path) as file:
        members = {each: file.read(each) for each in file.namelist()} | {name: data}
    with ZipFile(path, "w") as file:
        for each, own in members.items():
            file.writestr(each, own)


def write(
    run: RunHere, source: Path, dest: object, *options: object, to: str = "webdataset"
) -> Finished:
    return run("pack", source, dest, "--to", to, *SHARDS, *options)


class TestOneDataSet:
    @pytest.mark.parametrize("layout", FORMATS)
    def test_is_that_of_one_process(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, layout: str
    ) -> None:
        alone, shared = tmp_path / "alone", tmp_path / "shared"
        options = ("--resize", "12", "--encode", "png")
        assert write(run_here, twelve, alone, *options, to=layout).code == 0
        for number, state in ((2, "2/3: 1 of 5 shards"), (0, "0/3: 2 of 5"), (1, "packed as")):
            done = write(run_here, twelve, shared, *options, "--part", f"{number}/3", to=layout)
            assert done.code == 0, done.err
            assert state in done.out
        assert contents(shared) == contents(alone)

    @pytest.mark.parametrize("name", SETS)
    def test_of_any_source(self, run_here: RunHere, tmp_path: Path, name: str) -> None:
        alone, shared = tmp_path / "alone", tmp_path / "shared"
        options = ("--to", "webdataset", "--samples-per-shard", 2, "-j", 1)
        done = run_here("shard", *SETS[name].args, alone, *options)
        if done.code == 4:
            again = run_here("shard", *SETS[name].args, shared, *options, "--part", "0/2")
            assert (again.code, shared.exists()) == (4, False)
            return
        for number in range(2):
            again = run_here("shard", *SETS[name].args, shared, *options, "--part", f"{number}/2")
            assert again.code in (0, done.code), again.err
        assert contents(shared) == contents(alone)

    def test_with_more_parts_than_shards(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        for number in range(7):
            done = write(run_here, twelve, tmp_path / "wds", "--part", f"{number}/7")
            assert done.code == 0, done.err
        assert "already packed" in done.out
        assert not (tmp_path / "wds/.dsprep").exists()

    @pytest.mark.parametrize("archived", [False, True])
    def test_of_annotations(self, run_here: RunHere, tmp_path: Path, archived: bool) -> None:
        source = tmp_path / "coco"
        names = [f"{number}.jpg" for number in range(9)]
        listed = [{"id": number, "file_name": name} for number, name in enumerate(names)]
        boxes = [
            {
                "id": each,
                "image_id": each,
                "category_id": each % 2,
                "bbox": [1, 2, 3, 4],
                "area": 12,
            }
            for each in range(9)
        ]
        kinds = [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}]
        (source / "images").mkdir(parents=True)
        for number, name in enumerate(names):
            (source / "images" / name).write_bytes(jpeg(number))
        (source / "instances.json").write_text(
            json.dumps({"images": listed, "annotations": boxes, "categories": kinds})
        )
        if archived:
            shutil.make_archive(str(source), "zip", source)
            source = source.with_suffix(".zip")
        alone, shared = tmp_path / "alone", tmp_path / "shared"
        assert write(run_here, source, alone, "--resize", 24).code == 0
        for number in range(2):
            done = write(run_here, source, shared, "--resize", 24, "--part", f"{number}/2")
            assert done.code == 0, done.err
        assert contents(shared) == contents(alone)

    def test_counts_of_a_part_are_its_own(self, run_here: RunHere, tmp_path: Path) -> None:
        names = [f"{side}/{number}.jpg" for side in ("train", "val") for number in range(8)]
        listed = coco(names, [box(at, at) for at in range(1, 17)])
        source = boxes_write(tmp_path / "coco", dict.fromkeys(names) | {"instances.json": listed})
        done = write(run_here, source, tmp_path / "boxes", "--part", "0/3", "--json")
        report = json.loads(done.out)
        assert 0 < report["samples"] < 16
        assert sum(report["sides"].values()) == report["samples"]
        assert report["objects"]["objects"] == report["objects"]["samples"] == report["samples"]
        assert report["objects"]["without"] == 0
        names = [f"{name}/{number}.jpg" for name in ("cat", "dog") for number in range(8)]
        source = boxes_write(tmp_path / "classes", dict.fromkeys(names))
        report = json.loads(write(run_here, source, tmp_path / "c", "--part", "1/3", "--json").out)
        assert sum(report["per_class"].values()) == report["samples"] < 16

    def test_is_planned_once_and_each_receipt_read_once(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dsprep.run import notes
        from dsprep.run import write as writing

        counts, make, read = Counter[str](), writing.make_plan, notes.read_bytes

        def counted(*args: object) -> object:
            counts["plan"] += 1
            return make(*args)  # type: ignore[arg-type]

        def noted(path: str) -> bytes:
            counts[Path(path).parent.name] += 1
            return read(path)

        monkeypatch.setattr(writing, "make_plan", counted)
        monkeypatch.setattr(notes, "read_bytes", noted)
        for number in range(3):
            write(run_here, twelve, tmp_path / "wds", "--part", f"{number}/3")
            assert counts["receipts"] == (4 if number == 2 else 0)  # of five shards, one its own
        assert counts["plan"] == 1

    def test_one_process_can_finish(self, run_here: RunHere, twelve: Path, tmp_path: Path) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "1/4")
        verified = run_here("verify", tmp_path / "wds")
        assert verified.code == 3
        assert ".dsprep: a run is writing there, or was stopped" in verified.out
        done = write(run_here, twelve, tmp_path / "wds")
        assert "continued as webdataset" in done.out
        write(run_here, twelve, tmp_path / "alone")
        assert contents(tmp_path / "wds") == contents(tmp_path / "alone")

    def test_rejects_are_counted_once(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        source = tmp_path / "photos"
        shutil.copytree(twelve, source)
        for name in ("a/bad.jpg", "b/bad.png"):
            (source / name).write_bytes(b"\xff\xd8\xff")
        for number in range(2):
            done = write(run_here, source, tmp_path / "wds", "--part", f"{number}/2")
            assert f"not written; see {tmp_path}/wds/rejects.jsonl" in done.out
            assert ("the last part to end writes rejects.jsonl" in done.out) is (number == 0)
        assert done.code == 3
        assert "rejects.jsonl" in done.out
        assert (tmp_path / "wds/rejects.jsonl").read_text().count("\n") == 2
        refused = write(
            run_here,
            source,
            tmp_path / "no",
            "--to",
            "webdataset",
            "--part",
            "0/1",
            "--max-errors",
            1,
        )
        assert refused.code == 6
        assert not (tmp_path / "no/manifest.json").exists()


class Told(Progress):
    """Progress that notes how far each task of writing came, and never comes too far."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int]] = []

    def begin(self, task: str, samples: int, size: int) -> None:
        assert task == "writing"
        self.samples, self.done = samples, 0

    def advance(self, samples: int, size: int) -> None:
        self.done += samples
        assert self.done <= self.samples

    def end(self) -> None:
        self.ended.append((self.done, self.samples))


class TestParts:
    def test_that_are_given_again_count_samples_and_rejects_once(
        self, lasting: None, twelve: Path, tmp_path: Path
    ) -> None:
        source, wds = tmp_path / "photos", tmp_path / "wds"
        shutil.copytree(twelve, source)
        for name in ("a/bad.jpg", "b/bad.png"):
            (source / name).write_bytes(b"\xff\xd8\xff")

        def part(number: int) -> tuple[WriteReport, list[tuple[int, int]]]:
            told = Told()
            options: Any = {"samples_per_shard": 2, "on_error": "skip", "max_errors": 2}
            where = str(source), str(wds)
            done = dsprep.pack(
                *where, to="webdataset", part=f"{number}/2", workers=1, progress=told, **options
            )
            return done, told.ended

        assert part(0)[1] == [(8, 8)]
        for path in [*(wds / ".dsprep/receipts").iterdir()][:3]:  # as after a kill
            path.unlink()
        assert part(0)[1] == [(6, 6)]
        assert part(0)[1] == [(0, 0)]
        done, ended = part(1)
        assert ended == [(6, 6)]
        assert (done.samples, len(done.rejects)) == (12, 2)
        assert (wds / "rejects.jsonl").read_text().count("\n") == 2

    def test_that_are_killed_are_written_again(
        self, command: Path, twelve: Path, tmp_path: Path, run_here: RunHere
    ) -> None:
        def part(number: int) -> Sequence[str]:
            where = (str(twelve), str(tmp_path / "wds"), "--part", f"{number}/3")
            return [str(command), "pack", *where, "--to", "webdataset", *map(str, SHARDS)]

        live = [subprocess.Popen(part(number), start_new_session=True) for number in range(3)]
        time.sleep(0.4)
        for process in live[:2]:
            os.killpg(process.pid, signal.SIGKILL)
        assert [process.wait() for process in live][2] == 0
        for number in range(2):
            assert subprocess.run(part(number), check=False).returncode == 0
        write(run_here, twelve, tmp_path / "alone")
        assert contents(tmp_path / "wds") == contents(tmp_path / "alone")

    def test_need_the_same_command(self, run_here: RunHere, twelve: Path, tmp_path: Path) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "0/3")
        other = write(run_here, twelve, tmp_path / "wds", "--part", "1/3", "--seed", 4)
        assert other.code == 5
        assert "another command began a run in parts there (other --seed)" in other.err

    def test_need_the_same_version(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "0/3")
        monkeypatch.setattr("dsprep.__version__", "99")
        other = write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        assert other.code == 5
        assert "(other version of dsprep)" in other.err

    @pytest.mark.parametrize("same", [False, True])
    def test_need_the_same_libraries(
        self,
        run_here: RunHere,
        twelve: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        same: bool,
    ) -> None:
        options = ("--resize", 12, "--part")
        write(run_here, twelve, tmp_path / "wds", *options, "0/3")
        own = versions(Transform(resize=12)) if same else "Pillow 1"
        monkeypatch.setattr("dsprep.plan.saved.probe_of", lambda _: ("other", own))
        other = write(run_here, twelve, tmp_path / "wds", *options, "1/3")
        assert other.code == 5
        assert ("but other builds of them" in other.err) is same
        assert ("has Pillow 1; the other has" in other.err) is not same

    @pytest.mark.parametrize("kind", ["folder", "zip"])
    def test_name_a_machine_that_does_not_see_the_source(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, kind: str
    ) -> None:
        source = tmp_path / "photos"
        shutil.copytree(twelve, source)
        if kind == "zip":
            shutil.make_archive(str(source), "zip", source)
            source = source.with_suffix(".zip")
        write(run_here, source, tmp_path / "wds", "--part", "0/3")
        source.rename(tmp_path / "elsewhere")
        done = write(run_here, source, tmp_path / "wds", "--part", "1/3")
        assert done.code == 4
        assert f"is in the plan, but {platform.node()} does not see it" in done.err
        (tmp_path / "elsewhere").rename(source)
        assert write(run_here, source, tmp_path / "wds", "--part", "1/3").code == 0

    def test_refuse_a_source_that_has_changed(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        source = tmp_path / "photos"
        shutil.copytree(twelve, source)
        write(run_here, source, tmp_path / "wds", "--part", "0/2")
        for path in source.rglob("*.*"):
            os.utime(path)
        done = write(run_here, source, tmp_path / "wds", "--part", "1/2")
        assert done.code == 4
        assert "has changed since the plan was made" in done.err
        again = write(run_here, source, tmp_path / "wds", "--part", "0/2")  # has nothing to read
        assert (again.code, "2 of 5 shards are left" in again.out) == (0, True)

    @pytest.mark.parametrize("late", ["before", "after"])
    def test_that_come_late_harm_nothing(
        self,
        run_here: RunHere,
        command: Path,
        twelve: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        late: str,
    ) -> None:
        carry_out = Run.carry_out

        def stopped(*args: Any) -> Receipt:
            if late == "after":
                carry_out(*args)
            for number in range(3):
                words = [command, "pack", twelve, tmp_path / "wds", "--to", "webdataset", *SHARDS]
                subprocess.run([*map(str, words), "--part", f"{number}/3"], check=True)
            return carry_out(*args) if late == "before" else Receipt()

        # As on a file system whose locks do not reach other machines.
        monkeypatch.setattr("fcntl.flock", lambda *_: None)
        monkeypatch.setattr("dsprep.run.run.Run.carry_out", stopped)
        done = write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        monkeypatch.undo()
        assert done.code == 0, done.err
        assert "already packed" in done.out
        write(run_here, twelve, tmp_path / "alone")
        assert contents(tmp_path / "wds") == contents(tmp_path / "alone")
        assert not (tmp_path / "wds/.dsprep").exists()

    def test_that_end_together_need_not_wait(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        write(run_here, twelve, tmp_path / "wds")
        lock = ScratchLock(tmp_path / "wds/.dsprep", "a test", shared=True)
        done = write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        lock.remove()
        assert done.code == 0, done.err

    def test_need_the_same_number_of_parts(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "0/3")
        other = write(run_here, twelve, tmp_path / "wds", "--part", "1/2")
        assert other.code == 5
        assert "another command began a run in parts there (other --part)" in other.err

    def test_read_no_plan_that_does_harm(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        changes = [
            (b'"file-reader"', b'"subprocess:Popen"'),
            (b'"file-reader"', b'"dsprep.sources.readers:FileReader"'),
            (b'{"file-reader": ', b'{"function": '),
            (b'{"file-reader": ', b'{"dict": [], "no": '),
            (b'"file-reader"', b'"webdataset-format"'),
            (b'"train-000001.tar"', b'"../evil.tar"'),
            (b'"train-000001.tar"', b'"/tmp/evil.tar"'),
            (b'"train-000001.tar"', b'"units/000001"'),
            (b'"train-000001.tar"', b'"train-000000.tar"'),
            (b'"train-000001.tar"', b'"manifest.json"'),
            (b'"start": 0', b'"start": 1'),
            (b'"start": 0', b'"start": "0"'),
            (b'{"tuple": ["", 5]}', b'{"tuple": ["", 4]}'),
            (b'{"tuple": ["", 5]}', b"5"),
            (b"}", b""),
        ]
        write(run_here, twelve, tmp_path / "wds", "--part", "0/3")
        path = tmp_path / "wds/.dsprep/plan.zip"
        good = member(path, "plan.json")
        for old, new in changes:
            assert good.replace(old, new) != good
            put(path, "plan.json", good.replace(old, new))
            before = contents(tmp_path)
            done = write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
            assert done.code == 5, (new, done.out)
            assert "is no plan of this version of dsprep" in done.err
            assert contents(tmp_path) == before

    def test_of_another_meaning_are_an_error_and_no_traceback(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "0/3")
        path = tmp_path / "wds/.dsprep/plan.zip"
        good = member(path, "plan.json")
        settled, label = b'"settled": {"settled": ', b'"label": "label"'
        at = good.index(label, good.index(settled))
        put(path, "plan.json", good[:at] + b'"label": "image"' + good[at + len(label) :])
        done = write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        assert done.code == 5, done
        assert "plan.zip: a worker failed with this plan, which another part made: " in done.err
        assert done.err.count("\n") == 1

    def test_make_the_same_images(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = ("--resize", 12, "--part")
        write(run_here, twelve, tmp_path / "wds", *options, "0/3")
        monkeypatch.setattr("dsprep.plan.saved.probe", lambda transform: "other")
        done = write(run_here, twelve, tmp_path / "wds", *options, "1/3")
        assert done.code == 5
        assert "images would not be the same here" in done.err
        assert "Pillow" in done.err
        assert len(list((tmp_path / "wds").glob("*.tar"))) == 2

    def test_are_not_done_twice_at_once(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "0/3")
        lock = ScratchLock(tmp_path / "wds/.dsprep/part-1", "a test")
        done = write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        lock.remove()
        assert done.code == 5
        assert "part 1/3: another dsprep run is writing there" in done.err

    def test_leave_nothing_if_the_source_is_refused(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        (tmp_path / "empty").mkdir()
        done = write(
            run_here, tmp_path / "empty", tmp_path / "a/b", "--to", "tfrecord", "--part", "0/3"
        )
        assert done.code == 4
        assert not (tmp_path / "a").exists()

    def test_leave_nothing_beside_files_of_others(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        (foreign := tmp_path / "wds").mkdir()
        (foreign / "train-000001.tar").write_text("of others")
        done = write(run_here, twelve, foreign, "--part", "0/3")
        assert done.code == 5
        assert "not by this command; remove it, or choose another" in done.err
        assert "--overwrite" not in done.err
        assert [path.name for path in foreign.iterdir()] == ["train-000001.tar"]


class TestStatus:
    def test_names_what_is_missing_and_the_command_that_finishes(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        nothing = run_here("status", tmp_path / "wds")
        assert nothing.code == 5
        write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        done = run_here("status", tmp_path / "wds", "--json")
        assert done.code == 6
        report = json.loads(done.out)
        assert (report["state"], report["done"], report["shards"]) == ("unfinished", 2, 5)
        assert report["missing"] == ["0/3", "2/3"]
        assert "to finish it" in run_here("status", tmp_path / "wds").out
        (lock,) = tmp_path.rglob("lock")
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            assert "a run is writing there; if it stops" in run_here("status", tmp_path / "wds").out
        for each in report["commands"]:
            assert run_here(*each.split()[1:]).code == 0
        assert run_here("status", tmp_path / "wds").code == 0

    @pytest.mark.parametrize(
        "options",
        [
            "--resize 24x20 --crop 17x19 --encode webp --quality 50 --no-shuffle",
            "--resize 24 --filter lanczos --rename image=picture,label=kind --max-errors 4",
            "--split a=0.5,b=0.5 --extensions jpg --drop label --name it",
        ],
    )
    @pytest.mark.parametrize("command", ["pack", "convert", "shard"])
    def test_prints_commands_that_are_that_of_the_run(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, command: str, options: str
    ) -> None:
        source, given = twelve, [word.replace(",", " --rename ") for word in options.split()]
        words = " ".join(given).replace("a=0.5 --rename ", "a=0.5,").split()
        if command == "shard":
            source, words = tmp_path / "first", ["--shuffle", "--seed", "3", "--multiple-of", "2"]
            assert write(run_here, twelve, source).code == 0
        elif command == "convert":
            words = [word for word in words if word != "--no-shuffle"]
        begin = (command, source, tmp_path / "wds", "--to", "tfrecord", "--shards", 4, *words)
        assert run_here(*begin, "--part", "1/3").code == 0
        for line in json.loads(run_here("status", tmp_path / "wds", "--json").out)["commands"]:
            done = run_here(*shlex.split(line)[1:])
            assert done.code == 0, (line, done.err)
        run_here(command, source, tmp_path / "alone", *begin[3:])
        assert contents(tmp_path / "wds") == contents(tmp_path / "alone")

    def test_takes_help_all(self, run_here: RunHere) -> None:
        for command in ("status", "join"):
            assert run_here(command, "--help-all").out == run_here(command, "--help").out

    def test_prints_the_command_of_a_run_without_parts(
        self, run_here: RunHere, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stopped(*_: object) -> None:
            raise RunStopped("a test")

        wds, joined = tmp_path / "wds", tmp_path / "joined"
        options = ("--to", "webdataset", "--resize", 12, "--overwrite")
        for last, dest, begin in (
            ("write.commit", wds, ("pack", twelve, wds, *options)),
            ("join.publish_manifest", joined, ("join", wds, joined, "--overwrite")),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(f"dsprep.run.{last}", stopped)
                assert run_here(*begin).code == 6
            (line,) = json.loads(run_here("status", dest, "--json").out)["commands"]
            assert line.startswith(f"dsprep {begin[0]}"), line
            assert run_here(*shlex.split(line)[1:]).code == 0, line
        assert run_here("verify", joined).code == 0

    def test_shows_no_command_of_another_program(
        self, run_here: RunHere, twelve: Path, tmp_path: Path
    ) -> None:
        write(run_here, twelve, tmp_path / "wds", "--part", "1/3")
        path = tmp_path / "wds/.dsprep/plan.zip"
        facts = json.loads(member(path, "facts.json"))
        facts |= {"shards": ["a.tar"], "command": ["pack", "x; rm -r /"]}
        put(path, "facts.json", json.dumps(facts).encode())
        done = run_here("status", tmp_path / "wds")
        assert "dsprep pack 'x; rm -r /' --part 0/3" in done.out

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("receipts/a.json", b"[" * 99999),
            ("receipts/a.json", b'{"shard": "a", "written": {"samples": Infinity}, "etags": {}}'),
            ("run.json", b"[" * 99999),
            ("plan.zip", b"PK"),
        ],
    )
    def test_of_notes_that_are_damaged(
        self, run_here: RunHere, tmp_path: Path, name: str, data: bytes
    ) -> None:
        notes = tmp_path / "wds/.dsprep"
        (notes / "receipts").mkdir(parents=True)
        (notes / "run.json").write_text("{}")
        (notes / name).write_bytes(data)
        done = run_here("status", tmp_path / "wds")
        expected = "no data set" if name == "run.json" else "is no plan of this version"
        if name.startswith("receipts"):
            assert (done.code, "0" in done.out) == (6, True)
        else:
            assert (done.code, expected in done.err) == (5, True)

    def test_of_a_run_without_parts(self, run_here: RunHere, tmp_path: Path) -> None:
        notes = tmp_path / "wds/.dsprep"
        notes.mkdir(parents=True)
        (notes / "run.json").write_text("{}")
        done = run_here("status", tmp_path / "wds")
        assert (done.code, "the command that began it, again" in done.out) == (6, True)


class TestOnS3:
    def test_requests_of_a_part_do_not_grow_with_what_others_have_written(
        self, on_ceph: Callable[[str], Machine], ceph: Bucket, proxy: Proxy, twelve: Path
    ) -> None:
        machine, url = on_ceph("one"), f"{ceph.url}/wds/"
        way = {"AWS_ENDPOINT_URL": proxy.endpoint}
        options = ("--to", "webdataset", "--shards", 12, "-j", 1, "--part")

        def requests(*words: object, code: int = 0) -> tuple[int, int, int]:
            proxy.requests.clear()
            machine(*words, code=code, **way)
            receipts = proxy.counted("GET", "/receipts/train-")
            return receipts, proxy.counted("GET", "list-type=2"), len(proxy.requests)

        parts = [requests("pack", twelve, url, *options, f"{number}/4") for number in (0, 1, 2)]
        assert parts[0][:2] == (0, 2)  # is anything there; are all receipts there
        assert parts[1] == parts[2]
        assert parts[2][:2] == (0, 2)
        assert requests("pack", twelve, url, *options, "1/4")[:2] == (3, 3)  # its own
        assert requests("status", url, code=6)[:2] == (9, 2)
        assert requests("pack", twelve, url, *options, "3/4")[0] == 9  # those of all others
        assert requests("status", url) == (0, 1, 3)  # the manifest, and what is there

    def test_machines_write_one_data_set(
        self, on_ceph: Callable[[str], Machine], ceph: Bucket, twelve: Path, tmp_path: Path
    ) -> None:
        options = ("--to", "webdataset", *SHARDS)
        for number in (2, 1, 0):
            machine = on_ceph(f"node-{number}")
            done = machine("pack", twelve, f"{ceph.url}/wds/", *options, "--part", f"{number}/3")
            assert machine.left() == []
            assert machine("status", f"{ceph.url}/wds/", code=0 if number == 0 else 6)
            if number == 2:
                verified = machine("verify", f"{ceph.url}/wds/", code=3).out
                assert f"{ceph.url}/wds/.dsprep/: a run is writing there, or was st" in verified
                synced = machine("sync", f"{ceph.url}/wds/", tmp_path / "some").out
                assert f"{ceph.url}/wds/.dsprep: is left out: a run is writing" in synced
                assert [*files(tmp_path / "some")] == ["train-000002.tar"]
        assert "packed as" in done.out
        assert machine("verify", f"{ceph.url}/wds/").out.count("whole") == 1
        on_ceph("alone")("pack", twelve, tmp_path / "alone", *options)
        assert ceph.contents("wds/") == files(tmp_path / "alone")

    def test_parts_begin_at_once_and_a_killed_one_is_written_again(
        self,
        command: Path,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        twelve: Path,
        tmp_path: Path,
    ) -> None:
        nodes = [on_ceph(f"node-{number}") for number in range(3)]
        options = ("--to", "webdataset", *SHARDS)
        words = [command, "pack", twelve, f"{ceph.url}/wds/", *options, "--part"]
        live = [
            subprocess.Popen(
                [*map(str, words), f"{number}/3"],
                env={**os.environ, **ceph.env, **node.env},
                start_new_session=True,
            )
            for number, node in enumerate(nodes)
        ]
        # While one plans or takes its part, the others wait a minute for it to be dead.
        while not ceph.keys("wds/train-000001.tar"):
            time.sleep(0.01)
        os.killpg(live[1].pid, signal.SIGKILL)
        assert [process.wait() for process in live][0::2] == [0, 0]
        nodes[1](*words[1:], "1/3")
        nodes[0]("pack", twelve, tmp_path / "alone", *options)
        assert ceph.contents("wds/") == files(tmp_path / "alone")
        # The killed part leaves its stage, if it had no shard to write any more.
        assert [node.left() for node in nodes[::2]] == [[], []]

    def test_a_part_that_was_killed_is_written_by_another_machine(
        self,
        soon: None,
        command: Path,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        twelve: Path,
        tmp_path: Path,
    ) -> None:
        one, other = on_ceph("one"), on_ceph("other")
        env = {**os.environ, **ceph.env, **one.env}
        options = (twelve, f"{ceph.url}/wds/", "--to", "webdataset", *SHARDS, "--part")
        killed = subprocess.Popen(
            [command, "pack", *map(str, (*options, "1/2"))], env=env, start_new_session=True
        )
        while not ceph.contents("wds/.dsprep/leases/part-1.json"):
            time.sleep(0.01)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        upload = {"Bucket": ceph.name, "Key": "wds/train-000003.tar"}
        ceph.s3.create_multipart_upload(**upload)
        for number in range(2):
            done = other("pack", *options, f"{number}/2")
        assert "packed as" in done.out
        assert "looking for up to 2 s whether it still is" in done.err
        assert ceph.uploads() == []
        other("pack", twelve, tmp_path / "alone", "--to", "webdataset", *SHARDS)
        assert ceph.contents("wds/") == files(tmp_path / "alone")

    def test_annotations_of_which_a_machine_makes_a_copy_are_refused(
        self, on_ceph: Callable[[str], Machine], ceph: Bucket
    ) -> None:
        coco: dict[str, list[dict[str, object]]] = {
            "images": [{"id": 1, "file_name": "1.jpg"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}],
            "categories": [{"id": 1, "name": "a"}],
        }
        ceph.put("coco/images/1.jpg", jpeg(1))
        ceph.put("coco/instances.json", json.dumps(coco).encode())
        before, machine = ceph.keys(), on_ceph("one")
        options = (f"{ceph.url}/coco/", f"{ceph.url}/wds/", "--to", "webdataset")
        refused = machine("pack", *options, "--part", "0/2", code=2)
        assert "read from a temporary copy" in refused.err
        assert ceph.keys() == before
        machine("pack", *options)

    def test_the_plain_command_keeps_out_while_a_part_is_alive(
        self,
        soon: None,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        twelve: Path,
        tmp_path: Path,
    ) -> None:
        machine = on_ceph("one")
        options = ("pack", twelve, f"{ceph.url}/wds/", "--to", "webdataset", *SHARDS)
        machine(*options, "--part", "0/2")
        lease = Lease(store_of(ceph), "wds/.dsprep/leases/part-1.json", "a test")
        lease.take(tmp_path / "holder", lambda _: None)
        refused = machine(*options, "--seed", 5, "--overwrite", code=5)
        assert "another dsprep run is writing there" in refused.err
        synced = machine("sync", twelve, f"{ceph.url}/wds/", code=5)
        assert "is writing there" in synced.err
        lease.give_back()
        ceph.put("wds/.dsprep/leases/part-1.json", b'{"holder": "dead", "renewals": 1}')
        machine(*options, "--seed", 5, "--overwrite")
        on_ceph("other")("pack", twelve, tmp_path / "alone", *options[3:], "--seed", 5)
        assert ceph.contents("wds/") == files(tmp_path / "alone")

    def test_a_part_that_comes_late_harms_nothing(
        self,
        on_ceph: Callable[[str], Machine],
        ceph: Bucket,
        command: Path,
        twelve: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its shards are written twice, and its receipt comes when the data set is complete."""
        machine, other = on_ceph("one"), on_ceph("other")
        options = ("pack", twelve, f"{ceph.url}/wds/", "--to", "webdataset", *SHARDS)
        carry_out = Run.carry_out

        def stopped(*args: Any) -> Receipt:
            carry_out(*args)
            own = "wds/.dsprep/leases/part-1.json"  # as if it were dead for long
            ceph.s3.delete_object(Bucket=ceph.name, Key=own)
            for number in range(3):
                words = [command, *options, "--part", f"{number}/3"]
                env = {**os.environ, **ceph.env, **other.env}
                subprocess.run([*map(str, words)], check=True, env=env)
            ceph.put("wds/.dsprep/receipts/train-000001.tar.json", b"{}")  # its last word
            return Receipt()

        monkeypatch.setattr("dsprep.run.run.Run.carry_out", stopped)
        done = machine(*options, "--part", "1/3")
        monkeypatch.undo()
        assert "already packed" in done.out
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
        machine("pack", twelve, tmp_path / "alone", *options[3:], **ceph.env)
        assert ceph.contents("wds/") == files(tmp_path / "alone")


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("16/16", r"parts count from 0, so the last of 16 is 15/16"),
            ("1", "give a number of a part and how many there are, as 0/8"),
            ("-1/4", "give a number"),
            ("0/0", "there is at least one part"),
            ("auto", "the environment is not that of an array job"),
        ],
    )
    def test_that_make_no_sense(
        self, text: str, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.clear(monkeypatch)
        with pytest.raises(OptionError, match=message):
            parse_part(text)

    @pytest.mark.parametrize(
        ("env", "text", "part"),
        [
            ("AWS_BATCH_JOB_ARRAY_INDEX=3 AWS_BATCH_JOB_ARRAY_SIZE=8", "auto", (3, 8)),
            ("JOB_COMPLETION_INDEX=2", "auto/4", (2, 4)),
            ("ID=5 MIN=1 MAX=9 STEP=2 COUNT=5", "auto", (2, 5)),
            ("ID=7 MIN=3 MAX=7 STEP=1 COUNT=2", "auto/16", (7, 16)),
        ],
    )
    def test_that_schedulers_tell(
        self, env: str, text: str, part: tuple[int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.clear(monkeypatch)
        for each in env.split():
            name, _, value = each.partition("=")
            name = name if "_" in name else f"SLURM_ARRAY_TASK_{name}"
            monkeypatch.setenv(name, value)
        assert parse_part(text)[:2] == part

    @pytest.mark.parametrize("env", ["JOB_COMPLETION_INDEX=2", "ID=7 MIN=3 MAX=7 STEP=1 COUNT=2"])
    def test_that_need_their_number(self, env: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clear(monkeypatch)
        for each in env.split():
            name, _, value = each.partition("=")
            monkeypatch.setenv(name if "_" in name else f"SLURM_ARRAY_TASK_{name}", value)
        with pytest.raises(OptionError, match="auto/N"):
            parse_part("auto")

    @pytest.mark.parametrize(
        ("env", "text", "message"),
        [
            ("AWS_BATCH_JOB_ARRAY_INDEX=-1 AWS_BATCH_JOB_ARRAY_SIZE=2", "auto", "count from 0"),
            ("AWS_BATCH_JOB_ARRAY_INDEX=0 AWS_BATCH_JOB_ARRAY_SIZE=-2", "auto", "at least one"),
            ("JOB_COMPLETION_INDEX=2", "auto/0", "at least one"),
            ("ID=x", "auto/2", "is 'x', not a number"),
            ("ID=0 MIN=0 MAX=3 STEP=0 COUNT=4", "auto", "auto/N"),
        ],
    )
    def test_that_no_scheduler_tells(
        self, env: str, text: str, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.clear(monkeypatch)
        for each in env.split():
            name, _, value = each.partition("=")
            monkeypatch.setenv(name if "_" in name else f"SLURM_ARRAY_TASK_{name}", value)
        with pytest.raises(OptionError, match=message):
            parse_part(text)

    def test_of_a_sagemaker_job(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clear(monkeypatch)
        config = tmp_path / "resourceconfig.json"
        hosts = ["algo-2", "algo-10", "algo-1"]
        config.write_text(json.dumps({"current_host": "algo-2", "hosts": hosts}))
        monkeypatch.setattr(part_module, "_SAGEMAKER", (tmp_path / "none", config))
        assert parse_part("auto") == Part(2, 3, str(config))
        config.write_text("{}")
        with pytest.raises(OptionError, match="does not tell the hosts"):
            parse_part("auto")

    def clear(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(os.environ):
            if name.startswith(("SLURM_", "AWS_BATCH_", "JOB_COMPLETION")):
                monkeypatch.delenv(name)
        monkeypatch.setattr(part_module, "_SAGEMAKER", ())


def test_verify_of_an_unfinished_part_is_short(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", ("a",), 60)
    command = ("pack", tmp_path / "photos", tmp_path / "o", "--to", "tfrecord", "--part", "0/2")
    assert run_here(*command, "--samples-per-shard", 1).code == 0
    for path in (tmp_path / "o").glob("*.tfrecord"):
        path.write_bytes(path.read_bytes()[:100])
    done = run_here("verify", tmp_path / "o")
    assert (done.code, len(done.out.splitlines()) < 50) == (3, True), done.out
    assert "and 11 more" in done.out
