"""Every source to every target: what arrives is what was there, say those who read the target."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from PIL import Image

from tests.attack.trees import contents
from tests.conftest import Finished
from tests.matrix.sources import SOURCES, Given, Item, Samples
from tests.matrix.targets import TARGETS, Arrived
from tests.missing import Frameworks

RunHere = Callable[..., Finished]
Sources = Callable[[str], Given]

SAME = ("zipped", "tarred", "tar_gz", "tar_of_tars")
"""A folder in other wrappings, of which the same files are made."""
COMPRESSED = ("webdataset_tar_gz", "tfrecord_gzip")

PAIRS = [
    (source, target)
    for source, target in product(SOURCES, TARGETS)
    if source not in (*SAME, *COMPRESSED) or target in ("webdataset", "folder")
]
"""What samples become does not depend on how they are wrapped: two targets show that."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory, samples: Samples, peers: Frameworks) -> Sources:
    """Each source by its name, written when it is first asked for."""
    made: dict[str, Given] = {}

    def give(name: str) -> Given:
        if name not in made:
            made[name] = SOURCES[name](tmp_path_factory.mktemp(name), samples, peers)
        return made[name]

    return give


@pytest.fixture(scope="module")
def of_the_folder(
    tmp_path_factory: pytest.TempPathFactory, samples: Samples, run_here: RunHere
) -> Callable[[str], dict[str, bytes]]:
    """What is made of the folder, by target."""
    made: dict[str, dict[str, bytes]] = {}

    def give(target: str) -> dict[str, bytes]:
        if target not in made:
            dest = tmp_path_factory.mktemp("folder") / target
            assert run_here("convert", samples.root, dest, "--to", target, "-qj1").code == 0
            made[target] = content(dest)
        return made[target]

    return give


def told(item: Item, arrived: Arrived, target: str, classes: Sequence[str]) -> Arrived:
    """What should have arrived, given that an encoder may encode pixels as it likes.

    In a folder of images, those that are not in the directory of their class get it, below that of
    their side.
    """
    key, directories = item.key, item.key.split("/")[:-1]
    if target in ("folder", "augmented-manifest") and (classes or not directories):
        own = classes[item.cls] if classes else str(item.cls)
        side, _, rest = key.partition("/")
        if own not in directories:
            key = f"{side}/{own}/{rest}" if side in ("train", "test") else f"{own}/{key}"
    if not item.is_pixels:
        return Arrived(key, item.cls, item.data)
    with Image.open(io.BytesIO(arrived.data)) as image:
        assert image.format == "PNG"
        same = image.tobytes() == item.data
    return Arrived(key, item.cls, arrived.data if same else item.data)


def class_names(dest: Path) -> tuple[str, ...]:
    """The lines of the `classes.txt` in a directory of shards, or beside a folder."""
    is_set = (dest / "manifest.json").exists()
    path = dest / "classes.txt" if is_set else dest.with_name(f"{dest.name}.classes.txt")
    return tuple(path.read_text().splitlines()) if path.exists() else ()


def content(dest: Path) -> dict[str, bytes]:
    """All that was written, but for the manifest of dsprep, which tells what it was made of."""
    return {
        path: data
        for path, data in contents(dest.parent).items()
        if not path.endswith("manifest.json")
    }


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_all_samples_arrive(
    given: Sources,
    of_the_folder: Callable[[str], dict[str, bytes]],
    run_here: RunHere,
    peers: Frameworks,
    tmp_path: Path,
    source: str,
    target: str,
) -> None:
    args, items, classes, further = given(source)
    dest = tmp_path / target
    if further and target == "recordio":
        args += ("--drop", further)
    assert run_here("convert", *args, dest, "--to", target, "-qj1") == (0, "", "")
    arrived = TARGETS[target](dest, peers)
    assert len(arrived) == len(items)
    assert arrived == [told(*each, target, classes) for each in zip(items, arrived, strict=True)]
    assert class_names(dest) == classes
    if source in SAME:
        assert content(dest) == of_the_folder(target)


@pytest.mark.parametrize("target", ["folder", "augmented-manifest"])
def test_folders_of_machines_join(
    of_the_folder: Callable[[str], dict[str, bytes]],
    samples: Samples,
    run_here: RunHere,
    tmp_path: Path,
    target: str,
) -> None:
    """Two machines share the images; each has a class that the other one lacks."""
    paths = sorted(samples.files)
    for node, own in enumerate((paths[:6], paths[6:])):
        for path in own:
            (tmp_path / f"{node}" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / f"{node}" / path).write_bytes(samples.files[path])
        command = ("convert", tmp_path / f"{node}", tmp_path / f"made-{node}", "--to", target)
        assert run_here(*command, "-qj1") == (0, "", "")
    dest = tmp_path / "joined" / target
    dest.parent.mkdir()
    joined = run_here("join", tmp_path / "made-0", tmp_path / "made-1", dest, "-q")
    assert joined == (0, "", "")
    assert content(dest) == of_the_folder(target)


@pytest.mark.parametrize("source", SOURCES)
def test_every_verb_takes_it(
    given: Sources, run_here: RunHere, tmp_path: Path, source: str
) -> None:
    args, items, classes, _ = given(source)
    cut = tmp_path / "cut"
    assert run_here("shard", *args, cut, "--to", "webdataset", "-qj1") == (0, "", "")
    assert json.loads((cut / "manifest.json").read_text())["samples"] == len(items)
    assert class_names(cut) == classes
    assert run_here("verify", cut, "--against", *args, "-qj1") == (0, "", "")


@pytest.mark.parametrize("source", SOURCES)
def test_lists_of_it_choose_from_it(
    given: Sources, run_here: RunHere, peers: Frameworks, tmp_path: Path, source: str
) -> None:
    args, items, *_ = given(source)
    listed, sides = tmp_path / "all.lst", tmp_path / "sides"
    assert run_here("lst", "create", *args, "-o", listed, "--no-shuffle", "-qj1") == (0, "", "")
    names = [line.split("\t")[2] for line in listed.read_text().splitlines()]
    assert len(set(names)) == len(items)

    halves = ("--ratio", "a=0.5,b=0.5")
    assert run_here("split", *args, "-o", sides, *halves, "-qj1") == (0, "", "")
    chosen: list[str] = []
    for side, verb in (("a", "convert"), ("b", "shard")):
        lst, dest = sides / f"{side}.lst", tmp_path / side
        rows = [line.split("\t") for line in lst.read_text().splitlines()]
        wanted = [items[names.index(name)] for _, _, name in rows]
        assert [int(label) for _, label, _ in rows] == [item.cls for item in wanted]
        choice = [*without_labels(args), "--list", lst]
        assert run_here(verb, *choice, dest, "--to", "webdataset", "-qj1") == (0, "", "")
        arrived = TARGETS["webdataset"](dest, peers)
        told_of = zip(wanted, arrived, strict=True)
        assert arrived == [told(*each, "webdataset", ()) for each in told_of]
        assert run_here("verify", dest, "--against", *choice, "-qj1") == (0, "", "")
        chosen += [name for _, _, name in rows]
    assert sorted(chosen) == sorted(names)


def without_labels(args: Sequence[object]) -> list[object]:
    """What names a source, but for what told its samples and their labels."""
    kept = list(args)
    for option in ("--list", "--labels"):
        if option in kept:
            del kept[kept.index(option) : kept.index(option) + 2]
    return [each for each in kept if each not in ("--from", "augmented-manifest")]
