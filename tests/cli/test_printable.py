"""What a name can do to a terminal, it does not: no command prints a control character of one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import jpeg, truncated
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]

NASTY = (
    "line\nFORGED",
    "return\rFORGED",
    "red\x1b[31m",
    "title\x1b]0;FORGED\x07",
    "turned\u202eFORGED",
    "next\x85FORGED",
    "csi\x9b31m",
    "mark\u200f\u2066",
    "separated\u2028FORGED",
    "latin\udce9",  # a byte that is not UTF-8
)


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of nasty names, below one: good images, truncated, empty and hidden files."""
    root = tmp_path_factory.mktemp("nasty") / "top\n\x1b[2JFORGED" / "photos"
    for number, name in enumerate(NASTY):
        for directory in ("cat", f"d{number}"):
            (root / directory).mkdir(parents=True, exist_ok=True)
            (root / directory / f"{name}.jpg").write_bytes(jpeg(number))
        (root / "cat" / f"{name}.cut.jpg").write_bytes(truncated(jpeg(number)))
        (root / "cat" / f"{name}.none.jpg").write_bytes(b"")
        (root / "cat" / f"{name}.txt").write_bytes(b"-")
        (root / f".{name}").mkdir()
    return root


def require_harmless(done: Finished) -> None:
    """Fail if there is more than printable characters, line breaks, and lines of dsprep's own."""
    for stream in (done.out, done.err):
        shown = [each for each in stream if not each.isprintable() and each != "\n"]
        assert not shown, (set(shown), stream)
        assert not any(line.startswith("FORGED") for line in stream.split("\n")), stream


@pytest.fixture
def run(run_here: RunCli) -> Iterator[RunCli]:
    """Run a command that must print no harm."""

    def run(*arguments: object, **how: object) -> Finished:
        done = run_here(*arguments, **how)
        require_harmless(done)
        assert "\\n" in done.out + done.err, "no nasty name was printed"
        return done

    yield run


def test_of_commands_that_write(run: RunCli, nasty: Path, tmp_path: Path) -> None:
    dest = tmp_path / "out\n\x1b[2JFORGED"
    assert run("pack", nasty, dest / "dry", "--to", "webdataset", "--dry-run").code == 3
    assert run("pack", nasty, dest / "w", "--to", "webdataset").code == 3
    told = run("pack", nasty, dest / "r", "--to", "recordio", "--json")
    assert {"cat/line\nFORGED.cut.jpg", "cat/turned\u202eFORGED.none.jpg"} <= {
        each["path"] for each in json.loads(told.out)["rejects"]
    }
    assert run("pack", nasty, dest / "w", "--to", "tfrecord").code == 5
    assert run("status", dest / "w").code == 0
    assert run("verify", dest / "w", "--against", nasty).code == 0
    assert run("convert", dest / "w", dest / "t", "--to", "tfrecord").code == 0
    assert run("convert", dest / "w", dest / "folder", "--to", "folder").code == 0
    assert run("convert", dest / "w", dest / "none" / "x.txt").code == 2
    for shard in dest.glob("w/*.tar"):
        data = bytearray(shard.read_bytes())
        data[200_000 % len(data)] ^= 1
        shard.write_bytes(data)
    assert run("verify", dest / "w").code == 3
    assert run("verify", dest / "w", "--json").code == 3
    os.remove(next(dest.glob("w/*.tar")))
    assert run("status", dest / "w").code == 3
    assert run("shard", dest / "w", dest / "again", "--shards", "2").code == 4
    assert run("split", nasty, "-o", dest / "sides", "--ratio", "train=0.8,val=0.2").code == 3
    assert run("dedup", nasty, "-o", dest / "copies.csv").code in (0, 3)


def test_of_lists(run: RunCli, nasty: Path, tmp_path: Path) -> None:
    dest = tmp_path / "out\n\x1b[2JFORGED"
    dest.mkdir()
    held = [name for name in NASTY if not {*"\n\r\udce9"} & {*name}]
    for label in range(2):
        rows = (f"{id}\t{label}\tcat/{name}.jpg\n" for id, name in enumerate(held))
        (dest / f"{label}.lst").write_text("".join(rows), newline="")
    (dest / "wrong.lst").write_text("0\tx\x1b[31m\ta.jpg\n\x1b[2J\n0\t1\t../\x9b.jpg\n")
    assert run("lst", "create", nasty, "-o", dest / "new.lst").code == 3
    assert run("lst", "check", dest / "0.lst", "--root", nasty).code == 0
    assert run("lst", "check", dest / "wrong.lst").code == 3
    assert run("lst", "stats", dest / "0.lst").code == 0
    assert run("lst", "diff", dest / "0.lst", dest / "1.lst", "--summary").code == 1
    assert run("lst", "patch", dest / "0.lst", dest / "wrong.lst").code == 4
    assert (
        run("pack", nasty, dest / "l", "--list", dest / "wrong.lst", "--to", "recordio").code == 4
    )


def test_of_what_looks_at_data(run: RunCli, nasty: Path, tmp_path: Path) -> None:
    assert run("inspect", nasty).code == 3
    page = tmp_path / "page\n.html"
    assert run("inspect", nasty, "-o", page).code == 3
    require_harmless(Finished(0, page.read_text(), ""))
    assert run("inspect", nasty, "--key", "cat/red\x1b[31m.jpg\n").code == 4


def test_of_sync(run: RunCli, ceph: Bucket, tmp_path: Path) -> None:
    source, dest = tmp_path / "in\n\x1b[2JFORGED", f"s3://{ceph.name}/x\n"
    source.mkdir()
    for name in NASTY:
        (source / name).write_bytes(b"-")
    for how in (("--dry-run",), (), ("--json",)):
        done = run("sync", source, dest, *how, *ceph.options)
        assert done.code in (0, 3)
        # A name that is not UTF-8 cannot be a key; it is shown as pack shows it.
        assert ("latin\\\\xe9" if how == ("--json",) else "latin\\xe9") in done.out + done.err


@pytest.mark.parametrize("name", NASTY)
def test_of_errors_that_quote_the_command_line(run_here: RunCli, tmp_path: Path, name: str) -> None:
    for arguments in (
        ("pack", name, "out", "--to", "webdataset"),
        ("pack", "out", name),
        ("pack", "a", "b", "--to", name),
        ("pack", "a", "b", "--resize", name),
        ("pack", "a", "b", f"--{name}"),
        ("pack", "a", "b", "--classes", name, "--to", "webdataset"),
        ("verify", "a", "b", name),
        ("verify", name),
        ("verify", f"{name}-{{0..3}}.tar"),
        (name,),
        ("lst", name),
        ("lst", "check", name),
        ("lst", "set", "a.lst", "--id", name, "--label", "x"),
        ("sync", name, "s3://bucket/x"),
        ("sync", ".", f"s3://{name}/x"),
        ("sync", ".", "s3://bucket/x", "--endpoint-url", name),
        ("status", name),
        ("convert", "-", name),
        ("serve", name, "--fifo", "x"),
        ("serve", tmp_path, "--fifo", tmp_path / "x", "--", name),
        ("inspect", name),
        ("bench", name),
        ("sagemaker", name),
        ("cost", name),
        ("join", name, "out"),
        ("dedup", name, "-o", "x"),
    ):
        done = run_here(*arguments, cwd=tmp_path)
        assert done.code, arguments
        require_harmless(done)
        assert done.err.startswith(("dsprep: ", "Usage: ")), done
