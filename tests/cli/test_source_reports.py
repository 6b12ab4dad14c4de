"""What commands say of a source: what they skip, and how they number its classes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder, jpeg

Run = Callable[..., Finished]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in two classes, and other files of three kinds."""
    root = tmp_path_factory.mktemp("tree") / "tree"
    image_folder(root, ("cat", "dog"), per_class=2, size=(8, 8))
    for name in ("cat/000.xml", "dog/001.xml", "notes.txt", ".git/config"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("-")
    (root / "cat.lst").write_text("0\t1\tcat/000.jpg\n")
    return root


OTHERS = "1 directory hidden (.git/); 4 left over: 2 .xml, 1 .lst, 1 .txt (cat.lst, "
OTHER_COUNTS = {"hidden": {"directories": 1}, "left-over": {".xml": 2, ".lst": 1, ".txt": 1}}


@pytest.mark.parametrize(
    "args",
    [
        ("pack", "{tree}", "{out}", "--format", "webdataset"),
        ("pack", "{tree}", "{out}", "--format", "webdataset", "--dry-run"),
        ("convert", "{tree}", "{out}", "--to", "parquet"),
        ("convert", "{tree}", "{out}", "--to", "folder"),
        ("shard", "{tree}", "{out}", "--to", "tfrecord"),
        ("lst", "create", "{tree}", "-o", "{out}.lst"),
        ("split", "{tree}", "-o", "{out}", "--ratio", "a=0.5,b=0.5"),
    ],
)
def test_what_is_skipped_is_counted(
    run_here: Run, tree: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    command = [each.format(tree=tree, out=tmp_path / "out") for each in args]
    done = run_here(*command)
    assert done.code == 0
    assert f"  skipped   {OTHERS}" in done.out
    overwrite = () if args[0] in ("pack", "convert", "shard", "split") else ("--overwrite",)
    report = json.loads(run_here(*command, *overwrite, "--json").out)
    assert report["skipped_counts"] == OTHER_COUNTS
    assert len(report["skipped"]) == 5


def test_details_are_beside_the_shards(run_here: Run, tree: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "tree"), "zip", tree.parent, tree.name)
    done = run_here("pack", archive, tmp_path / "out", "--format", "webdataset", "--json")
    assert json.loads(done.out)["skipped_counts"] == OTHER_COUNTS
    lines = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    paths = {json.loads(line)["path"] for line in lines}
    assert paths == {".git/", "cat.lst", "cat/000.xml", "dog/001.xml", "notes.txt"}


def test_directories_do_not_count_as_images(run_here: Run, tree: Path, tmp_path: Path) -> None:
    args = ("--list", tree / "cat.lst", "--format", "recordio")
    done = run_here("pack", tree, tmp_path / "out", *args)
    assert "1 not listed: 1 .jpg (cat/001.jpg); " in done.out
    assert "1 directory not looked into, as nothing there is listed (dog/)" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--parts",), "2 no part of a sample: 1 .lst, 1 .txt (cat.lst, notes.txt)"),
        (
            ("--pair", "image=cat/*.jpg", "--pair", "voc=cat/*.xml"),
            "5 no part of a sample: 2 .jpg, 1 .lst, 1 .txt, 1 .xml (",
        ),
    ],
)
def test_what_is_no_part_is_counted(
    run_here: Run, tree: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = run_here("pack", tree, tmp_path / "out", "--format", "webdataset", *options)
    assert said in done.out


def test_of_many_extensions_the_rest_is_counted(run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(jpeg())
    for number in range(9):
        (tmp_path / "a" / f"x.e{number}").touch()
    done = run_here("pack", tmp_path / "a", tmp_path / "out.tar", "--dry-run")
    assert "9 left over: 1 .e0, 1 .e1, 1 .e2, 1 .e3, 1 .e4, 4 with 4 other extensions (" in done.out


# The order of classes


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("numbered") / "numbered"
    image_folder(root, ("1", "2", "10"), per_class=2, size=(8, 8))
    return root


NOTE = (
    "note      classes are numbered in plain order of their names (1, 10, 2), as torchvision does"
)


@pytest.mark.parametrize(
    ("args", "classes"),
    [
        (("pack", "{src}", "{out}", "--format", "webdataset"), "out/classes.txt"),
        (("convert", "{src}", "{out}", "--to", "recordio"), "out/classes.txt"),
        (("shard", "{src}", "{out}", "--to", "tfrecord"), "out/classes.txt"),
        (("lst", "create", "{src}", "-o", "{out}.lst"), "classes.txt"),
        (("split", "{src}", "-o", "{out}", "--ratio", "a=0.5,b=0.5"), "out/classes.txt"),
    ],
)
def test_class_order(
    run_here: Run, numbered: Path, tmp_path: Path, args: tuple[str, ...], classes: str
) -> None:
    command = [each.format(src=numbered, out=tmp_path / "out") for each in args]
    natural = run_here(*command, "--class-order", "natural")
    assert (natural.code, "note" in natural.out) == (0, False)
    assert (tmp_path / classes).read_text() == "1\n2\n10\n"
    plain = run_here(*command)
    assert plain.code == 5  # the destination holds the other order
    plain = run_here(*command, "--overwrite")
    assert (plain.code, plain.out.count(NOTE)) == (0, 1)
    assert (tmp_path / classes).read_text() == "1\n10\n2\n"


@pytest.mark.parametrize("format_name", ["recordio", "webdataset", "tfrecord"])
def test_verify_needs_no_order(
    run_here: Run, numbered: Path, tmp_path: Path, format_name: str
) -> None:
    dest = tmp_path / "out"
    args = ("pack", numbered, dest, "--format", format_name, "--class-order", "natural")
    assert run_here(*args).code == 0
    options = json.loads((dest / "manifest.json").read_text())["options"]
    assert options["class_order"] == "natural"
    assert run_here(*args).out.startswith(f"{dest}: already packed")
    for order, code in ((), 0), (("natural",), 0), (("name",), 3):
        stated = ("--class-order", *order) if order else ()
        assert run_here("verify", dest, "--against", numbered, *stated).code == code
    others = shutil.copytree(numbered, tmp_path / "others")
    (others / "2").rename(others / "x")
    (others / "10").rename(others / "2")
    (others / "x").rename(others / "10")
    assert run_here("verify", dest, "--against", others).code == 3


def test_orders_that_do_nothing(run_here: Run, numbered: Path, tmp_path: Path) -> None:
    shard = tmp_path / "a.tar"
    assert run_here("pack", numbered, shard).code == 0
    order = ("--class-order", "natural")
    done = run_here("convert", shard, tmp_path / "b.tfrecord", *order)
    assert (done.code, "neither names of directories nor names" in done.err) == (2, True)
    assert run_here("verify", shard, *order).code == 2
    assert run_here("verify", shard).code == 0
    lst = tmp_path / "a.lst"
    assert run_here("lst", "create", numbered, "-o", lst).code == 0
    assert run_here("split", lst, "-o", tmp_path / "lists", *order).code == 2
