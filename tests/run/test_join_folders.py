"""``join`` of folders of files, on a disk and on S3: what one machine would have written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dsprep.errors import RunStopped
from dsprep.run.notes import Target
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import jpeg
from tests.run.test_folder_in_parts import place

RunHere = Callable[..., Finished]
Place = tuple[str, Callable[[], dict[str, bytes]]]

__all__ = ["place"]

# The images of three machines: cat/1.jpg is on two of them, and no machine has each class.
SHARES = {
    "one": ("cat/1.jpg", "cat/2.jpg", "dog/4.jpg"),
    "two": ("ant/5.jpg", "ant/6.jpg", "dog/7.jpg"),
    "three": ("cat/1.jpg", "emu/9.jpg"),
}


def write(root: Path, paths: Sequence[str], change: int = 0) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(jpeg(int(path[-5]) + change, (20, 20)))
    return root


@pytest.fixture
def whole(run_here: RunHere, tmp_path: Path) -> dict[str, bytes]:
    """The folder of the images of all machines, and what lies beside it."""
    source = write(tmp_path / "all", [path for paths in SHARES.values() for path in paths])
    return convert(run_here, source, tmp_path / "alone/set") or contents(tmp_path / "alone")


@pytest.fixture
def folders(run_here: RunHere, tmp_path: Path, place: Place) -> list[str]:
    """The folders of three machines, where the joined one goes as well."""
    made = [f"{place[0]}/{name}" for name in SHARES]
    for (name, paths), dest in zip(SHARES.items(), made, strict=True):
        convert(run_here, write(tmp_path / name, paths), dest)
    return made


def convert(run: RunHere, source: Path, dest: object, *options: object) -> None:
    done = run("convert", source, dest, "--to", "folder", "-qj1", *options)
    assert done.code == 0, done.err


def of_set(there: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of the joined folder, and the values of its manifest but the source."""
    found = {name: data for name, data in there.items() if name.lstrip(".").startswith("set")}
    if manifest := found.pop("set.manifest.json", b""):
        values = json.loads(manifest) | {"source": ""}
        found["manifest"] = json.dumps(values).encode()
    return found


def test_the_files_are_those_of_one_machine(
    run_here: RunHere, place: Place, folders: list[str], whole: dict[str, bytes]
) -> None:
    dest, there = f"{place[0]}/set", place[1]
    before = there()
    planned = run_here("join", *folders, dest, "--dry-run")
    assert (planned.code, "samples   7" in planned.out, there()) == (0, True, before)
    done = run_here("join", *folders, dest)
    assert (done.code, "1 sample left out, because another folder" in done.out) == (0, True), done
    assert of_set(there()) == of_set(whole)
    assert {name: data for name, data in there().items() if name in before} == before
    assert run_here("verify", dest).code == 0
    if not dest.startswith("s3:"):  # files are linked
        assert Path(f"{dest}/emu/9.jpg").samefile(f"{folders[2]}/emu/9.jpg")
    first = there()
    assert run_here("join", *reversed(folders), dest).out.startswith(f"{dest}: already joined")
    assert run_here("join", *reversed(folders), dest, "--overwrite").code == 0
    assert there() == first
    if "://" not in dest:
        Path(f"{dest}-1").write_text("a file of others")
        refused = run_here("join", *folders, f"{dest}-1", "--overwrite")
        assert (refused.code, "or remove it if dsprep wrote it" in refused.err) == (5, True)
        Path(f"{dest}-1").unlink()
    # Two at first, and then the third.
    assert run_here("join", *folders[:2], f"{dest}-2").code == 0
    assert run_here("join", f"{dest}-2", folders[2], dest, "--overwrite").code == 0
    assert of_set({n: d for n, d in there().items() if "-2" not in n}) == of_set(whole)


def test_what_is_killed_leaves_nothing_half_and_goes_on(
    run_here: RunHere, place: Place, folders: list[str], whole: dict[str, bytes]
) -> None:
    dest, there = f"{place[0]}/set", place[1]
    before, calls, leave = there(), count(), Target.leave

    def killed(self: Target, *args: Any) -> None:
        if next(calls) % 4 == 3:
            raise RunStopped("killed")
        leave(self, *args)

    with mock.patch("dsprep.run.join_folders._MOST_SAMPLES", 1):
        with mock.patch.object(Target, "leave", killed):
            assert run_here("join", *folders, dest).code == 6
            assert not {"set.manifest.json", "set.files.jsonl"} & there().keys()
            assert run_here("status", dest).code == 6
            assert run_here("join", *folders[:2], dest).code == 5  # another command
            assert run_here("join", *folders, dest).code == 6  # three more units
        with mock.patch("dsprep.run.join_folders.publish_manifest", side_effect=RunStopped("")):
            assert run_here("join", *folders, dest).code == 6
        assert "set.manifest.json" not in there()
        done = run_here("join", *folders, dest)
    assert (done.code, "continued as folder" in done.out) == (0, True), done
    assert of_set(there()) == of_set(whole)
    assert there().keys() - before.keys() == {n for n in there() if n.startswith("set")}


def test_one_path_with_other_bytes_is_an_error(
    run_here: RunHere, place: Place, folders: list[str], tmp_path: Path
) -> None:
    other = write(tmp_path / "other", SHARES["three"], change=1)
    convert(run_here, other, f"{place[0]}/other")
    before = place[1]()
    done = run_here("join", *folders, f"{place[0]}/other", f"{place[0]}/set")
    assert (done.code, "has this file with other bytes" in done.err) == (4, True), done.err
    assert "cat/1.jpg" in done.err
    assert place[1]() == before


def test_files_of_others_are_not_touched(
    run_here: RunHere, place: Place, folders: list[str], tmp_path: Path
) -> None:
    dest, there = place
    source = write(tmp_path / "more", ["cat/8.jpg"])
    convert(run_here, source, f"{dest}/set/below")
    before = there()
    for options in ((), ("--overwrite",)):
        done = run_here("join", *folders, f"{dest}/set", *options)
        assert (done.code, there()) == (5, before), done
    for wrong in (f"{folders[0]}/set", folders[0]):
        assert run_here("join", *folders, wrong).code == 2
    assert run_here("join", *folders, f"{dest}/new", "--apart").code == 2
    assert there() == before


class TestClasses:
    def test_numbers_follow_the_order_of_each_folder(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        for node, names in enumerate((("owl", "cat"), ("dog", "cat"))):
            source = write(tmp_path / f"{node}", [f"{name}/{node}.jpg" for name in names])
            (tmp_path / "classes.txt").write_text("".join(f"{name}\n" for name in names))
            own = ("--classes", tmp_path / "classes.txt")
            convert(run_here, source, tmp_path / "f" / f"{node}", *own)
        assert run_here("join", tmp_path / "f/0", tmp_path / "f/1", tmp_path / "set").code == 0
        assert (tmp_path / "set.classes.txt").read_text() == "owl\ncat\ndog\n"
        labels = [line.split("\t")[1:] for line in (tmp_path / "set.lst").read_text().splitlines()]
        assert ["2", "dog/1.jpg"] in labels
        assert ["1", "cat/1.jpg"] in labels

    def test_and_texts_and_references_are_made_again(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        """What lies in `metadata.jsonl` and in an augmented manifest is that of all samples."""
        names = {"one": ("ant", "bee"), "two": ("bee", "cow")}
        for node, own in {**names, "all": ("ant", "bee", "cow")}.items():
            paths = [f"{name}/{node}-{at}.jpg" for at, name in enumerate(own)]
            if node == "all":
                paths = ["ant/one-0.jpg", "bee/one-1.jpg", "bee/two-0.jpg", "cow/two-1.jpg"]
            source = write(tmp_path / node, paths)
            for path in paths:
                (source / path).with_suffix(".txt").write_text(f"a {path}")
            convert(run_here, source, tmp_path / f"f/{node}")
            done = run_here(
                *("convert", source, tmp_path / f"m/{node}", "--to", "augmented-manifest", "-qj1"),
                *("--drop", "text"),
            )
            assert done.code == 0, done.err
        for kind in ("f", "m"):
            folders = [tmp_path / kind / node for node in names]
            assert run_here("join", *folders, tmp_path / kind / "set").code == 0
            found = contents(tmp_path / kind)
            assert of_set(found).keys() > {"set/bee/two-0.jpg"}
            for name, data in found.items():
                if name.startswith("all") and not name.endswith("manifest.json"):
                    assert found["set" + name[3:]] == data, name

    def test_of_boxes_have_to_be_the_same(self, run_here: RunHere, tmp_path: Path) -> None:
        for node, name in enumerate(("ant", "bee")):
            source = write(tmp_path / f"{node}", [f"images/{node}.jpg"])
            (source / "labels").mkdir()
            (source / f"labels/{node}.txt").write_text("0 0.5 0.5 0.2 0.2\n")
            (source / "data.yaml").write_text(f"names: [{name}]\n")
            done = run_here("convert", source, tmp_path / f"f/{node}", "--to", "coco", "-qj1")
            assert done.code == 0, done.err
        done = run_here("join", tmp_path / "f/0", tmp_path / "f/1", tmp_path / "set")
        assert (done.code, "give each machine the same --classes" in done.err) == (4, True), done


def test_damaged_folders_are_refused(run_here: RunHere, tmp_path: Path) -> None:
    dest = tmp_path / "set"
    for name, paths in SHARES.items():
        convert(run_here, write(tmp_path / name, paths), tmp_path / "f" / name)
    folders = [tmp_path / "f" / name for name in SHARES]
    listing = tmp_path / "f/two.files.jsonl"
    for damage in (folders[0] / "dog/4.jpg", listing):
        whole = damage.read_bytes()
        damage.unlink()  # not what a joined folder is linked to
        damage.write_bytes(whole[:-7])
        done = run_here("join", *folders, dest)
        assert (done.code, "dsprep verify" in done.err) == (4, True), done
        damage.write_bytes(whole)
    shards = tmp_path / "shards"
    assert run_here("pack", tmp_path / "one", shards, "--to", "recordio", "-qj1").code == 0
    done = run_here("join", *folders, shards, dest)
    assert done.code == 4, done
    assert not any(name.startswith(("set", ".set")) for name in contents(tmp_path))
