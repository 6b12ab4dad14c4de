"""Folders that are written: killed half-way, full of traps, and large."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsprep.errors import BadSample, DestinationError, SourceError
from dsprep.formats.folder import Folder
from dsprep.formats.listing import read_listing
from dsprep.plan.destination import Destination
from dsprep.run.folder import whole_units
from dsprep.run.target import InPlace
from dsprep.sample import Sample
from dsprep.schema import Field, Schema
from tests.run.folders import begin, finish, write_folder, write_units

HOSTILE = (
    "../escape",
    "../../../../../../../../tmp/escape",
    "/absolute",
    "//host/share",
    "a/../../escape",
    "..\\..\\escape",
    "C:\\escape",
    "a\0b",
    "a\nb",
    "\udcff",
    "-rf",
    "~root/x",
    "$(touch escape)",
    "x" * 5000,
    "/".join("y" * 30),
    "/".join(["z" * 255] * 10),
    "files.jsonl",
    "0",
    "aux",
    "\u202egpj.exe",
)

FIELDS = ("jpg", "../up", "/abs", "a/b", "\0", "", "..", ".", "x" * 190, "files.jsonl")


LAYOUT, _ = Folder().arranged(
    Schema(
        (
            Field("image", "image"),
            Field("label", "class", missing=True),
            *(Field(name, "bytes", missing=True) for name in (*FIELDS, "x")),
        ),
        "image",
        "label",
    )
)


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            assert not os.path.islink(path)
            found[os.path.relpath(path, folder)] = Path(path).read_bytes()
    return found


def crowd(count: int) -> list[list[Sample]]:
    """Samples in four units."""
    samples = [
        Sample(f"c{n % 7}/{n}", {"image": b"%d" % n, "x": b"t%d" % n}, n) for n in range(count)
    ]
    size = count // 4
    return [samples[start : start + size] for start in range(0, count, size)]


@pytest.mark.parametrize("as_class", [False, True])
def test_nothing_leaves_the_folder(tmp_path: Path, as_class: bool) -> None:
    samples = []
    for name in HOSTILE:
        for field in FIELDS:
            fields = {"image": name.encode("utf-8", "replace"), field: b"data of a field"}
            if as_class:
                samples.append(Sample("key", fields | {"label": 0}, class_name=name))
            else:
                samples.append(Sample("key", fields, path=name))
            samples.append(Sample(name, dict(fields)))
    (tmp_path / "x").mkdir()
    before, count = set(tmp_path.parent.iterdir()), 0
    for number, sample in enumerate(samples):
        listing, tree = tmp_path / "x" / f"{number}.jsonl", tmp_path / "x" / str(number)
        with closing(LAYOUT.open_writer(str(listing), str(tree), 9)) as writer:
            try:
                writer.add(sample)
            except BadSample:
                continue
            writer.finish()
        count += 1
        found = contents(tree)
        (each,) = read_listing(listing)
        data = [value for value in sample.fields.values() if isinstance(value, bytes)]
        assert sorted(found[file.path] for file in each.files) == sorted(data)
        assert len(each.files) == len(found)
    assert count > len(samples) // 2
    assert len(list((tmp_path / "x").iterdir())) == len(samples) + count
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert set(tmp_path.parent.iterdir()) == before


@pytest.mark.parametrize("names", [("a.jpg", "b.jpg"), ("train/a.jpg", "val/b.jpg")])
@pytest.mark.parametrize("at", range(1, 16, 2))
def test_a_run_that_is_killed_goes_on(tmp_path: Path, names: tuple[str, ...], at: int) -> None:
    """Killed for real, at a certain system call; what comes out is what it would have been."""
    layout, _ = Folder().arranged(Schema((Field("image", "image"), Field("text", "text"))))
    units = [
        [Sample("k", {"image": name.encode(), "text": name}, path=f"{n}/{name}") for name in names]
        for n in range(2)
    ]
    write_folder(tmp_path / "whole", layout, *units)
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

        for name in ("mkdir", "rename", "replace", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        write_folder(tmp_path / "cut", layout, *units)
        os._exit(0)
    os.waitpid(child, 0)
    write_folder(tmp_path / "cut", layout, *units)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    "damage", ["listing cut", "listing gone", "file gone", "file cut", "link", "another file"]
)
def test_units_that_a_power_cut_spoiled_are_written_again(tmp_path: Path, damage: str) -> None:
    state = begin(tmp_path)
    write_units(state, LAYOUT, crowd(20))
    state.release()
    listing = state.pieces.path("units-000002")
    target = listing if "listing" in damage else state.pieces.tree / "c5/12.bin"
    if "gone" in damage:
        target.unlink()
    elif "cut" in damage:
        os.truncate(target, 0)
    elif damage == "link":
        target.unlink()
        target.symlink_to("/etc/passwd")
    else:
        (state.pieces.tree / "c5/other").touch()
    again = begin(tmp_path)
    assert len(again.done) == 4 - (damage != "another file")
    finish(again, LAYOUT, write_units(again, LAYOUT, crowd(20)))
    again.hold.remove()
    write_folder(tmp_path / "whole", LAYOUT, *crowd(20))
    assert contents(tmp_path / "back") == contents(tmp_path / "whole/back")


@pytest.mark.parametrize("where", ["tree", "class"])
def test_no_link_is_followed(tmp_path: Path, where: str) -> None:
    elsewhere, state = tmp_path / "elsewhere", begin(tmp_path)
    elsewhere.mkdir()
    tree = state.pieces.tree
    if where == "class":
        tree.mkdir()
        tree = tree / "cat"
    tree.symlink_to(elsewhere)
    with pytest.raises((OSError, SourceError)):
        write_units(state, LAYOUT, [[Sample("cat/a", {"image": b"a"})]])
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_filled_up_meanwhile_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    (tmp_path / "back/mine").write_text("mine")
    with pytest.raises(DestinationError, match="holds files already"):
        write_folder(tmp_path, LAYOUT, *crowd(20))
    assert contents(tmp_path / "back") == {"mine": b"mine"}
    (tmp_path / "back/mine").unlink()
    (tmp_path / "back").rmdir()
    (tmp_path / "back").symlink_to(tmp_path)
    with pytest.raises(DestinationError, match="is a link"):
        write_folder(tmp_path, LAYOUT, *crowd(20))


@pytest.mark.parametrize("known", [True, False])
def test_a_disk_that_loses_bytes_has_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Whether the system says so of one file system, or can only be asked to flush them all."""

    def fail(*_: object) -> int:
        ctypes.set_errno(errno.EIO)
        if known:
            return -1
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    state = begin(tmp_path)
    names = write_units(state, LAYOUT, crowd(20))
    library = SimpleNamespace(syncfs=fail) if known else SimpleNamespace()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(os, "sync", fail)
    with pytest.raises(DestinationError, match="cannot be written"):
        finish(state, LAYOUT, names)
    assert not (tmp_path / "back").exists()
    monkeypatch.undo()
    finish(state, LAYOUT, names)
    assert len(contents(tmp_path / "back")) == 40


def test_what_a_kill_before_the_first_receipt_left_is_removed(tmp_path: Path) -> None:
    pieces = InPlace(Destination(tmp_path / "pieces"), durable=False)
    (pieces.tree / "cat").mkdir(parents=True)
    (pieces.tree / "cat" / "0.jpg").write_bytes(b"begun")
    assert whole_units(pieces, Destination(tmp_path, "out")) == {}
    assert not (pieces.tree / "cat" / "0.jpg").exists()
