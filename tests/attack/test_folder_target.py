"""Folders that are written: killed half-way, full of traps, and large."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dsprep.errors import BadSample, DestinationError, RunStopped
from dsprep.formats.folder import LISTING, Folder, read_listing
from dsprep.run.tree import join_tree, publish_tree
from dsprep.sample import Sample
from dsprep.schema import Field, Schema

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


def write_units(scratch: Path, units: list[list[Sample]]) -> list[tuple[Path, int]]:
    scratch.mkdir(parents=True)
    written = []
    for number, samples in enumerate(units):
        writer = LAYOUT.open_writer(str(scratch / str(number)))
        for sample in samples:
            writer.add(sample)
        writer.finish()
        writer.close()
        written.append((scratch / str(number), writer.crc32c))
    return written


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            assert not os.path.islink(path)
            found[os.path.relpath(path, folder)] = Path(path).read_bytes()
    return found


def crowd(count: int) -> list[list[Sample]]:
    """Units of samples, many of which want the name of another."""
    samples = [
        Sample(f"c{n % 7}/{n % 50}", {"image": b"%d" % n, "x": b"t%d" % n}, n) for n in range(count)
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
    writer = LAYOUT.open_writer(str(tmp_path / "unit"))
    kept = []
    for sample in samples:
        try:
            writer.add(sample)
            kept.append(sample)
        except BadSample:
            continue
    writer.finish()
    writer.close()
    assert len(kept) > len(samples) // 2
    before = set(tmp_path.parent.iterdir())
    joined = join_tree(
        [(tmp_path / "unit", writer.crc32c)], tmp_path / "tree", tmp_path / "back.files.jsonl"
    )
    publish_tree(tmp_path / "tree", tmp_path / "back")
    assert {path.name for path in tmp_path.iterdir()} == {"unit", "back", "back.files.jsonl"}
    assert set(tmp_path.parent.iterdir()) == before
    found = contents(tmp_path / "back")
    assert joined.files == len(found)
    assert joined.samples == len(kept)
    for sample, listed in zip(kept, read_listing(tmp_path / "back.files.jsonl"), strict=True):
        data = [value for value in sample.fields.values() if isinstance(value, bytes)]
        assert sorted(found[file.path] for file in listed.files) == sorted(data)


@pytest.mark.parametrize("moved", [0, 1, 37, 199])
def test_a_join_that_is_killed_goes_on(tmp_path: Path, moved: int) -> None:
    """Killed for real, at a certain rename; what comes out is what it would have been."""
    whole = write_units(tmp_path / "whole", crowd(100))
    join_tree(whole, tmp_path / "whole/tree", tmp_path / "whole/files.jsonl")
    expected = contents(tmp_path / "whole/tree")
    units = write_units(tmp_path / "cut", crowd(100))
    code = f"""
import os, signal
from pathlib import Path
from types import SimpleNamespace
from dsprep.run.tree import join_tree
rename, count = os.rename, 0
def counted(*args, **options):
    global count
    if count == {moved}:
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    rename(*args, **options)
os.rename = counted
units = [(Path(path), crc) for path, crc in {[(str(path), crc) for path, crc in units]!r}]
cut = Path({str(tmp_path / "cut")!r})
join_tree(units, cut / "tree", cut / "files.jsonl")
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "cut/files.jsonl").exists()
    joined = join_tree(units, tmp_path / "cut/tree", tmp_path / "cut/files.jsonl")
    assert contents(tmp_path / "cut/tree") == expected
    assert (tmp_path / "cut/files.jsonl").read_bytes() == (
        tmp_path / "whole/files.jsonl"
    ).read_bytes()
    assert (joined.samples, joined.files) == (100, 200)


def test_a_run_that_is_killed_around_the_publishing_goes_on(tmp_path: Path) -> None:
    units = write_units(tmp_path / "scratch", crowd(20))
    tree, listing, back = tmp_path / "scratch/tree", tmp_path / "scratch/files", tmp_path / "back"
    first = join_tree(units, tree, listing)
    assert join_tree(units, tree, listing) == first
    publish_tree(tree, back)
    expected = contents(back)
    assert join_tree(units, tree, listing) == first
    publish_tree(tree, back)
    assert contents(back) == expected


def test_a_half_written_listing_counts_for_nothing(tmp_path: Path) -> None:
    units = write_units(tmp_path / "scratch", crowd(20))
    (tmp_path / "files.jsonl.partial").write_bytes(b'{"id": 0')
    join_tree(units, tmp_path / "scratch/tree", tmp_path / "files.jsonl")
    assert len(list(read_listing(tmp_path / "files.jsonl"))) == 20


@pytest.mark.parametrize("damage", ["listing cut", "listing gone", "file gone", "file cut", "link"])
def test_units_that_a_power_cut_spoiled_are_written_again(tmp_path: Path, damage: str) -> None:
    units = write_units(tmp_path / "scratch", crowd(20))
    unit = units[2][0]
    target = unit / (LISTING if "listing" in damage else "3")
    if "gone" in damage:
        target.unlink()
    elif "cut" in damage:
        os.truncate(target, 0)
    else:
        target.unlink()
        target.symlink_to("/etc/passwd")
    with pytest.raises(RunStopped, match="again to continue"):
        join_tree(units, tmp_path / "scratch/tree", tmp_path / "files.jsonl")
    assert list((tmp_path / "scratch").iterdir()) == []
    units = write_units(tmp_path / "again", crowd(20))
    join_tree(units, tmp_path / "again/tree", tmp_path / "files.jsonl")
    assert len(contents(tmp_path / "again/tree")) == 40


@pytest.mark.parametrize("where", ["tree", "class"])
def test_no_link_is_followed(tmp_path: Path, where: str) -> None:
    units = write_units(tmp_path / "scratch", [[Sample("cat/a", {"image": b"a"})]])
    elsewhere, tree = tmp_path / "elsewhere", tmp_path / "scratch/tree"
    elsewhere.mkdir()
    if where == "class":
        tree.mkdir()
        tree = tree / "cat"
    tree.symlink_to(elsewhere)
    with pytest.raises(DestinationError):
        join_tree(units, tmp_path / "scratch/tree", tmp_path / "files.jsonl")
    assert list(elsewhere.iterdir()) == []
    assert contents(units[0][0])["0"] == b"a"


def test_a_file_system_that_takes_two_names_for_one_loses_nothing(tmp_path: Path) -> None:
    """As one that ignores case would: the place of a file is taken by another."""
    units = write_units(tmp_path / "scratch", [[Sample("cat/a", {"image": b"a"})]])
    taken = tmp_path / "scratch/tree/cat/a.bin"
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"other")
    with pytest.raises(DestinationError, match="two names for one"):
        join_tree(units, tmp_path / "scratch/tree", tmp_path / "files.jsonl")
    assert taken.read_bytes() == b"other"
    assert contents(units[0][0])["0"] == b"a"


def test_a_folder_that_filled_up_meanwhile_is_left_alone(tmp_path: Path) -> None:
    units = write_units(tmp_path / "scratch", crowd(20))
    tree, back = tmp_path / "scratch/tree", tmp_path / "back"
    join_tree(units, tree, tmp_path / "files.jsonl")
    back.mkdir()
    (back / "mine").write_text("mine")
    with pytest.raises(DestinationError, match="holds files already"):
        publish_tree(tree, back)
    assert contents(back) == {"mine": b"mine"}
    assert len(contents(tree)) == 40


def test_ten_thousand_samples_of_which_most_want_a_name_that_is_taken(tmp_path: Path) -> None:
    units = write_units(tmp_path / "scratch", crowd(10_000))
    joined = join_tree(units, tmp_path / "scratch/tree", tmp_path / "back.files.jsonl")
    publish_tree(tmp_path / "scratch/tree", tmp_path / "back")
    assert (joined.samples, joined.files, joined.renamed) == (10_000, 20_000, 10_000 - 350)
    found = contents(tmp_path / "back")
    assert len(found) == 20_000
    for number, listed in enumerate(read_listing(tmp_path / "back.files.jsonl")):
        image, text = listed.files
        assert found[image.path] == b"%d" % number
        assert found[text.path] == b"t%d" % number
        assert image.path.removesuffix(".bin") == text.path.removesuffix(".x")


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

    units = write_units(tmp_path / "scratch", crowd(20))
    join_tree(units, tmp_path / "scratch/tree", tmp_path / "files.jsonl")
    library = SimpleNamespace(syncfs=fail) if known else SimpleNamespace()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(os, "sync", fail)
    with pytest.raises(DestinationError, match="cannot be written"):
        publish_tree(tmp_path / "scratch/tree", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    monkeypatch.undo()
    publish_tree(tmp_path / "scratch/tree", tmp_path / "back")
    assert len(contents(tmp_path / "back")) == 40
