"""The table of docs/architecture.md: what lies at a target, and what the next command does.

The rows and the cells are those of the page. A test makes what a row says lies there, and carries
out each of its cells on a copy of it.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from dsprep.errors import RunStopped
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import image_folder
from tests.kills import run_and_kill
from tests.servers.bucket import Bucket

RunHere = Callable[..., Finished]
Files = dict[str, bytes]

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
NOTES = ".dsprep/"
PUBLISH = "dsprep.run.complete.publish_manifest"
TIDY_UP = "dsprep.run.complete.tidy_up"


def tables(title: str) -> Iterator[list[list[str]]]:
    """Yield the tables of a section of the page, as rows of cells, without their heads."""
    section = PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    for lines in re.findall(r"(?:^\|.*\n)+", section, re.M):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.split("\n")]
        yield rows[2:-1]


ROWS, CELLS, _ = tables("What lies at a target, and what the next command does")
FOLDER_ROWS, FOLDER_CELLS = tables("What lies at a folder, and what the next command does")
FOLDER_LEGEND = {cell: (int(code), said.strip("`")) for cell, code, said, _ in FOLDER_CELLS}
LEGEND = {cell: (int(code), said.strip("`")) for cell, code, said, _ in CELLS}

COMMAND = ("--to", "recordio", "--samples-per-shard", 2, "-j", 1)
OTHER = ("--to", "recordio", "--samples-per-shard", 3, "-j", 1)
PART = ("--part", "0/2")  # the shards 0 and 2
# The columns: the name of a command, and its options behind the source and the place.
COLUMNS: list[tuple[str, tuple[object, ...]]] = [
    ("pack", COMMAND),
    ("pack", (*COMMAND, "--overwrite")),
    ("pack", OTHER),
    ("pack", (*OTHER, "--overwrite")),
    ("pack", (*COMMAND, *PART)),
    ("verify", ()),
    ("status", ()),
]


def shards(files: Iterable[str], *numbers: int) -> set[str]:
    """Return the names of some shards, and of the files beside them."""
    return {name for name in files if name.startswith(tuple(f"train-{n:05}." for n in numbers))}


def receipt(number: int) -> str:
    return f"{NOTES}receipts/train-{number:05}.rec.json"


def without(files: Files, names: Iterable[str]) -> Files:
    gone = set(names)
    return {name: data for name, data in files.items() if name not in gone}


def only_shards(files: Files, *numbers: int) -> Files:
    """Leave out the other shards, with their receipts."""
    others = {0, 1, 2} - {*numbers}
    return without(files, [*shards(files, *others), *map(receipt, others)])


def data_of(files: Files) -> Files:
    """Leave out the notes of a run."""
    return {name: data for name, data in files.items() if not name.startswith(NOTES)}


class Writer:
    """Writes data sets, whole ones and others, to a directory or a prefix."""

    def __init__(self, run: RunHere, root: Path) -> None:
        self.run, self.photos, self.more = run, root / "photos", root / "more"
        image_folder(self.photos, ("a", "b"), 3)
        image_folder(self.more, ("a", "b"), 1)

    def pack(self, place: object, *options: object) -> None:
        done = self.run("pack", self.photos, place, *options)
        assert done.code == 0, done.err

    def stop(self, function: str, *command: object) -> None:
        """Give a command whose first process stops where it calls a function."""

        def stopped(*_: object) -> None:
            raise RunStopped("killed")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(function, stopped)
            assert self.run(*command).code == 6

    def unfinished(self, place: object, *options: object) -> None:
        self.stop(PUBLISH, "pack", self.photos, place, *options)


class States:
    """What commands leave in a directory; rows are made of these."""

    def __init__(self, writer: Writer, root: Path) -> None:
        self.writer, self._root = writer, root
        pack = writer.pack
        self.finished = self._made(lambda out: pack(out, *COMMAND))
        self.other = self._made(lambda out: pack(out, *OTHER))
        self.unfinished = self._made(lambda out: writer.unfinished(out, *COMMAND))
        self.published = self._made(
            lambda out: writer.stop(TIDY_UP, "pack", writer.photos, out, *COMMAND)
        )
        self.part = self._made(lambda out: pack(out, *COMMAND, "--part", "1/2"))
        with mock.patch("dsprep.plan.saved.VERSION", 0):
            self.other_plan = self._made(lambda out: pack(out, *COMMAND, "--part", "1/2"))
        self.append = self._made(self._append)
        # A temporary file, as a process has that is killed.
        self.killed = {**self.unfinished, f"{NOTES}partial-0/train-00001.rec": b"half a shard"}

    def _made(self, make: Callable[[Path], None]) -> Files:
        shutil.rmtree(out := self._root / "made", ignore_errors=True)
        make(out)
        return contents(out)

    def _append(self, out: Path) -> None:
        self.writer.pack(out, *COMMAND)
        self.writer.stop(PUBLISH, "shard", "append", self.writer.more, out, "-j", 1)

    def row(self, name: str) -> Files:
        """Return what lies there."""
        finished, killed, part = self.finished, self.killed, self.part
        manifest, run, plan = "manifest.json", f"{NOTES}run.json", f"{NOTES}plan.zip"
        rows: dict[str, Files] = {
            "nothing": {},
            "`lock` alone": {f"{NOTES}lock": b""},
            "a shard that dsprep did not write": {"train-00000.rec": b"of another program"},
            "`run.json`, a temporary file": only_shards(killed),
            "`run.json`, receipts of some shards, a temporary file": only_shards(killed, 0),
            "`run.json`, all receipts": killed,
            "`run.json`, a shard without its receipt": without(killed, [receipt(1)]),
            "`run.json`, a receipt without its shard": without(killed, shards(killed, 1)),
            "`run.json`, a receipt and a shard of another size": {
                **killed,
                "train-00001.rec": b"cut",
            },
            "`run.json`, a receipt that is cut short": {**killed, receipt(1): b'{"shard'},
            "`run.json` that is cut short, receipts, shards": {**killed, run: killed[run][:99]},
            "receipts and shards without `run.json`": without(killed, [run]),
            "`run.json`, `plan.zip`, no receipt": only_shards(part),
            "`run.json`, `plan.zip`, the receipts of another part": part,
            "`run.json`, `plan.zip` of another version": self.other_plan,
            "`run.json`, `plan.zip` that is damaged": {**part, plan: part[plan][:99]},
            "`replaced.json`, shards of the data set that makes way": {
                **without(finished, [manifest]),
                f"{NOTES}replaced.json": finished[manifest],
                f"{NOTES}lock": b"",
            },
            "`manifest.json`, `run.json`, receipts": self.published,
            "`manifest.json`": finished,
            "`manifest.json`, a shard of another size": {**finished, "train-00001.rec": b"cut"},
            "`manifest.json`, no shard": without(finished, shards(finished, 0, 1, 2)),
            "`manifest.json` that is cut short": {**finished, manifest: finished[manifest][:99]},
            "`manifest.json` of another version": {
                **finished,
                manifest: finished[manifest].replace(
                    b'"dsprep_manifest": 2', b'"dsprep_manifest": 1'
                ),
            },
            "shards without `manifest.json`": without(finished, [manifest]),
            "`manifest.json`, `run.json` of `shard append`": self.append,
            "a run that is alive": only_shards(killed, 0),
        }
        return rows[name]


@pytest.fixture(scope="module")
def states(run_here: RunHere, tmp_path_factory: pytest.TempPathFactory) -> States:
    root = tmp_path_factory.mktemp("states")
    return States(Writer(run_here, root), root)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold the lock of a directory as a run does that is alive; who waits for it loses patience."""
    clock = SimpleNamespace(monotonic=lambda: 100 * time.monotonic(), sleep=time.sleep)
    with (place / NOTES / "lock").open("a") as lock, mock.patch("dsprep.storage.local.time", clock):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def check(
    cell: str, options: Sequence[object], done: Finished, before: Files, after: Files, whole: Files
) -> None:
    """Compare how a command ended, and what is there, with a cell.

    ``whole`` is what the command writes where nothing lies.
    """
    kept = re.fullmatch(r"keeps (\d of \d)", cell)
    code, said = LEGEND["keeps N of M" if kept else cell]
    said = said.replace("N of M", kept[1]) if kept else said
    text = done.err if kept or cell == "waits" or code in (4, 5) else done.out
    assert (done.code, said in text) == (code, True), (cell, done)
    if cell == "writes a part" or (
        code == 0 and options[-2:] == PART and (kept or cell == "waits")
    ):
        assert "manifest.json" not in after
        assert {name: after[name] for name in shards(whole, 0, 2)}.items() <= whole.items()
    elif cell == "writes all, leaves others":
        assert after.keys() > whole.keys()
        assert after.items() <= (before | whole).items()
    elif cell.startswith(("writes", "keeps", "completes")):
        assert after == whole
    else:
        assert data_of(after) == data_of(before)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row(
    request: pytest.FixtureRequest,
    run_here: RunHere,
    states: States,
    tmp_path: Path,
    row: list[str],
) -> None:
    name, *cells = row
    if name.startswith("on S3: "):
        of_s3(request.getfixturevalue("on_s3"), states, name, cells)
        return
    before = states.row(name)
    for number, (cell, (command, options)) in enumerate(zip(cells, COLUMNS, strict=True)):
        out = tmp_path / str(number) / "out"
        for path, data in before.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_bytes(data)
        out.parent.mkdir(exist_ok=True)
        source = [states.writer.photos] if command == "pack" else []
        with locked(out) if name == "a run that is alive" else nullcontext():
            done = run_here(command, *source, out, *options)
        whole = states.other if options[: len(OTHER)] == OTHER else states.finished
        check(cell, options, done, before, contents(out), whole)


@pytest.fixture
def on_s3(
    localstack: Bucket, soon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bucket:
    """LocalStack, as a machine sees it that is not the one that began a run."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return localstack


@contextmanager
def renewed(bucket: Bucket, key: str, seconds: float) -> Iterator[None]:
    """Renew a lease as a run does that is alive, for some seconds; then it gives it back."""
    over = threading.Event()

    def live() -> None:
        began = time.monotonic()
        while not over.wait(0.1) and time.monotonic() - began < seconds:
            bucket.put(key, lease(time.monotonic()))
        bucket.s3.delete_object(Bucket=bucket.name, Key=key)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def lease(renewals: float) -> bytes:
    return json.dumps({"holder": "another machine", "renewals": renewals}).encode()


def of_s3(bucket: Bucket, states: States, name: str, cells: list[str]) -> None:
    """Make what a row says lies under a prefix, and carry out its cells."""
    writer = states.writer
    if "replaced.json" in name:
        writer.pack(f"{bucket.url}/made", *COMMAND)
        writer.unfinished(f"{bucket.url}/made", *OTHER, "--overwrite")
        before = bucket.contents("made/")
        before = without(before, [receipt(1)])
    else:
        writer.unfinished(f"{bucket.url}/made", *COMMAND)
        before = only_shards(bucket.contents("made/"), 0) | {f"{NOTES}lease.json": lease(1)}
    for number, (cell, (command, options)) in enumerate(zip(cells, COLUMNS, strict=True)):
        for path, data in before.items():
            bucket.put(f"{number}/{path}", data)
        source = [writer.photos] if command == "pack" else []
        is_alive, key = name.endswith("alive"), f"{number}/{NOTES}lease.json"
        seconds = 0.5 if cell == "waits" else 60
        # Not the time of the server's clock: what is an hour old there is dead.
        long_ago = mock.patch("dsprep.storage.lease.LONG_AGO", -3600.0)
        with renewed(bucket, key, seconds) if is_alive else long_ago:
            done = writer.run(command, *source, f"{bucket.url}/{number}", *options)
        whole = states.other if options[: len(OTHER)] == OTHER else states.finished
        check(cell, options, done, before, bucket.contents(f"{number}/"), whole)


TO_FOLDER = ("--to", "folder", "-j", 1)
OTHER_FOLDER = (*TO_FOLDER, "--key", "index")
FOLDER_COLUMNS: list[tuple[str, tuple[object, ...]]] = [
    ("convert", TO_FOLDER),
    ("convert", (*TO_FOLDER, "--overwrite")),
    ("convert", OTHER_FOLDER),
    ("convert", (*OTHER_FOLDER, "--overwrite")),
    ("convert", (*TO_FOLDER, *PART)),  # the units 0, 2 and 4
    ("verify", ()),
    ("status", ()),
]
FOLDER_NOTES, PIECES = ".out.dsprep/", ".out.dsprep/pieces/"


class FolderStates:
    """What commands leave of a folder, and beside it."""

    def __init__(self, writer: Writer, root: Path) -> None:
        self.writer, self._root = writer, root
        self.finished = self._made(None, *TO_FOLDER)
        self.other = self._made(None, *OTHER_FOLDER)
        self.unnamed = self._made("dsprep.run.folder._name_tree", *TO_FOLDER)
        self.named = self._made(PUBLISH, *TO_FOLDER)
        self.published = self._made(TIDY_UP, *TO_FOLDER)
        self.part = self._made(None, *TO_FOLDER, "--part", "1/2")
        image_folder(root / "third", ("c", "d"), 1)
        folders = [root / "folders" / name for name in ("photos", "third")]
        for folder in folders:
            assert writer.run("convert", root / folder.name, folder, *TO_FOLDER).code == 0
        stop = "dsprep.run.join_folders.finish_folder"
        self.joining = self._made(stop, command=("join", *folders))

    def _made(self, stop: str | None, *options: object, command: tuple[object, ...] = ()) -> Files:
        shutil.rmtree(above := self._root / "folder", ignore_errors=True)
        above.mkdir()
        command = (*(command or ("convert", self.writer.photos)), above / "out", *options)
        if stop is None:
            assert self.writer.run(*command).code == 0
        else:
            self.writer.stop(stop, *command)
        return contents(above)

    def row(self, name: str) -> Files:
        """Return what lies there."""
        finished, manifest, first = self.finished, "out.manifest.json", "out/a/000.jpg"
        receipts = f"{PIECES}.dsprep/receipts/units-00000"
        some = [n for n in self.unnamed if n.startswith((f"{receipts}3", f"{receipts}4"))]
        some.append("out.files.jsonl")
        rows: dict[str, Files] = {
            "nothing": {},
            "a file in the folder that dsprep did not write": {"out/x.jpg": b"of another program"},
            "`run.json`, receipts of some units": without(self.unnamed, some),
            "`run.json`, all receipts": self.unnamed,
            "`run.json`, all receipts, a file of another size": {
                **self.unnamed,
                f"{PIECES}tree/a/000.jpg": b"cut",
            },
            "`run.json`, the folder under its name": self.named,
            "`run.json`, `plan.zip`, the receipts of another part": self.part,
            "`run.json` of `join`, receipts": self.joining,
            "`manifest.json`, `run.json`, receipts": self.published,
            "`manifest.json`": finished,
            "`manifest.json`, a file of another size": {**finished, first: b"cut"},
            "`manifest.json`, a file that dsprep did not write": {**finished, "out/x.jpg": b"x"},
            "`manifest.json`, no file": {
                path: data for path, data in finished.items() if not path.startswith("out/")
            },
            "the folder without `manifest.json`": without(finished, [manifest]),
        }
        return rows[name]


@pytest.fixture(scope="module")
def folder_states(run_here: RunHere, tmp_path_factory: pytest.TempPathFactory) -> FolderStates:
    root = tmp_path_factory.mktemp("folders")
    return FolderStates(Writer(run_here, root), root)


@pytest.mark.parametrize("row", FOLDER_ROWS, ids=lambda row: row[0])
def test_row_of_a_folder(
    run_here: RunHere, folder_states: FolderStates, tmp_path: Path, row: list[str]
) -> None:
    name, *cells = row
    before = folder_states.row(name)
    for number, (cell, (command, options)) in enumerate(zip(cells, FOLDER_COLUMNS, strict=True)):
        above = tmp_path / str(number)
        above.mkdir()
        for path, data in before.items():
            (above / path).parent.mkdir(parents=True, exist_ok=True)
            (above / path).write_bytes(data)
        source = [folder_states.writer.photos] if command == "convert" else []
        done = run_here(command, *source, above / "out", *options)
        is_other = options[: len(OTHER_FOLDER)] == OTHER_FOLDER
        whole = folder_states.other if is_other else folder_states.finished
        kept = re.fullmatch("keeps (\\d) of 6", cell)
        code, said = FOLDER_LEGEND["keeps N of 6" if kept else cell]
        if kept:
            count = "1 sample" if kept[1] == "5" else f"{6 - int(kept[1])} samples"
            assert f"continues; {count} left to write" in done.err
        after = contents(above)
        assert (done.code, said in done.out + done.err) == (code, True), (number, cell, done)
        if cell == "writes a part":
            assert "out.manifest.json" not in after
        elif cell.startswith(("writes", "keeps", "completes")):
            assert after == whole
        else:
            there = [
                {path: data for path, data in files.items() if not path.startswith(FOLDER_NOTES)}
                for files in (before, after)
            ]
            assert there[0] == there[1], (number, cell)


def test_each_cell_is_explained() -> None:
    used = {re.sub(r"\d of \d", "N of M", cell) for _, *cells in ROWS for cell in cells}
    assert used == LEGEND.keys()
    used = {re.sub(r"\d of 6", "N of 6", cell) for _, *cells in FOLDER_ROWS for cell in cells}
    assert used == FOLDER_LEGEND.keys()


def test_a_kill_is_replayed(run_here: RunHere, states: States, tmp_path: Path) -> None:
    out, photos = tmp_path / "out", str(states.writer.photos)
    words = ["pack", photos, str(out), *map(str, COMMAND)]
    receipts = [out / receipt(number) for number in (0, 1)]
    assert run_and_kill("name train-00002.rec", words, awaited=receipts).returncode == -9
    done = run_here(*words)
    assert "continues; 2 of 3 shards complete" in done.err
    assert contents(out) == states.finished
