"""The recipes of CONTRIBUTING.md are true: a format, source, … or store is a module and a line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.images import image_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository with one more of each: format, source, annotations, store."""
    ignored = shutil.ignore_patterns("data")  # bytecode is copied: it is valid as long as the dates
    for name in ("dsprep", "scripts", "tests", "docs"):
        shutil.copytree(ROOT / name, tmp_path / "repo" / name, ignore=ignored)
    root = tmp_path / "repo"
    shutil.copyfile(ROOT / "pyproject.toml", root / "pyproject.toml")
    shutil.copyfile(ROOT / "tests/house/toy_format.py", root / "dsprep/formats/toy.py")
    registry = root / "dsprep/formats/__init__.py"
    text = registry.read_text("utf-8")
    text = text.replace("_CONCATENATIVE = {", '_CONCATENATIVE = {\n    "toy": "toy.Toy",')
    registry.write_text(text, "utf-8")
    shutil.copyfile(ROOT / "tests/house/toy_source.py", root / "dsprep/sources/toy.py")
    registry = root / "dsprep/sources/kinds.py"
    text = registry.read_text("utf-8")
    registry.write_text(text.replace("KINDS = {", 'KINDS = {\n    "paths": "toy:Paths",'), "utf-8")
    toy = root / "dsprep/sources/annotated/lines_kind.py"
    shutil.copyfile(ROOT / "tests/house/toy_annotations.py", toy)
    registry = root / "dsprep/sources/annotation_kinds.py"
    text = registry.read_text("utf-8")
    text = text.replace("KINDS = {", 'KINDS = {\n    "lines": "annotated.lines_kind:LinesKind",')
    registry.write_text(text, "utf-8")
    shutil.copyfile(ROOT / "tests/house/toy_store.py", root / "dsprep/storage/toy.py")
    registry = root / "dsprep/storage/store.py"
    text = registry.read_text("utf-8")
    text = text.replace("_MODULES = {", '_MODULES = {\n    "toy": "dsprep.storage.toy",')
    registry.write_text(text, "utf-8")
    return root


def run(root: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr
    return done.stdout or done.stderr


def test_a_format_is_one_module_and_one_word(copy: Path) -> None:
    assert "toy" in run(copy, "dsprep", "pack", "--help")
    image_folder(copy / "images", ("cat", "dog"), 3)
    run(copy, "dsprep", "pack", "images", "shards", "--to", "toy")
    run(copy, "dsprep", "verify", "shards", "--against", "images", "--decode")
    run(copy, "dsprep", "convert", "shards", "records", "--to", "tfrecord")
    run(copy, "dsprep", "convert", "records", "again", "--to", "toy")
    # Somebody else's shards have no manifest.
    (copy / "again" / "manifest.json").unlink()
    run(copy, "dsprep", "verify", "again", "--against", "images")
    run(copy, "dsprep", "convert", "again", "once more", "--to", "webdataset")
    run(copy, "dsprep", "verify", "once more", "--against", "images")
    found = run(
        copy,
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/formats/test_contract.py",
        "tests/formats/test_sizes.py",
        "-k",
        "toy",
    )
    assert " passed" in found
    assert "toy" not in found.partition("short test summary")[2]


def test_the_reference_tells_of_each(copy: Path) -> None:
    run(copy, "scripts.reference")
    found = (copy / "docs/formats.md").read_text("utf-8")
    assert "| `toy` | samples of entries" in found
    assert "| `paths` | a file whose lines are" in found
    assert "| `lines` | A file whose lines are" in found


def test_a_source_is_one_module_and_one_line(copy: Path) -> None:
    require_paths(copy)


def test_a_source_of_another_package_is_an_entry_point(tmp_path: Path) -> None:
    install(tmp_path, "toy_source", "sources", "paths = toy_source:Paths")
    told = require_paths(tmp_path)
    assert "source old (toy_old:Old) is left out: it is of version 0 of the protocol" in told
    assert "source gone (toy_gone:Gone) is left out: it cannot be loaded (No module named" in told


def test_a_kind_of_annotations_is_one_module_and_one_line(copy: Path) -> None:
    require_lines(copy)


def test_a_kind_of_annotations_of_another_package_is_an_entry_point(tmp_path: Path) -> None:
    install(tmp_path, "toy_annotations", "annotations", "lines = toy_annotations:LinesKind")
    told = require_lines(tmp_path)
    assert "annotations old (toy_old:Old) is left out: it is of version 0 of the protocol" in told
    assert "annotations gone (toy_gone:Gone) is left out: it cannot be loaded" in told


def install(root: Path, module: str, group: str, point: str) -> None:
    """Install a package with a kind, with another of an old version and one that is gone."""
    shutil.copyfile(ROOT / f"tests/house/{module}.py", root / f"{module}.py")
    (root / "toy_old.py").write_text("class Old:\n    version = 0\n", "utf-8")
    about = root / "toy_kinds-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-kinds\nVersion: 1.0\n")
    points = f"[dsprep.{group}]\n{point}\nold = toy_old:Old\ngone = toy_gone:Gone\n"
    (about / "entry_points.txt").write_text(points, "utf-8")


def require_paths(root: Path) -> str:
    """Pack with the other source, found by itself and by its name; return what is told."""
    files = image_folder(root / "images", ("cat", "dog"), 3)
    lines = [f"{path}\tlarge {path.partition('/')[0]}\n" for path in list(files)[1:5]]
    for name in ("some.paths", "some.txt"):
        (root / "images" / name).write_text("".join(lines), "utf-8")
    told = run(root, "dsprep", "pack", "images/some.paths", "shards", "--to", "webdataset")
    run(root, "dsprep", "verify", "shards", "--against", "images/some.txt", "--from", "paths")
    manifest = (root / "shards" / "manifest.json").read_text("utf-8")
    assert '"samples": 4' in manifest
    assert "large dog" in manifest
    # The option of the kind, a run in parts, and what a dry run says of the source.
    (root / "lists").mkdir()
    shutil.copyfile(root / "images/some.paths", root / "lists/some.paths")
    pack = ("dsprep", "pack", "lists/some.paths", "parts", "--to", "webdataset", "--shards", "2")
    pack += ("--paths-below", "images")
    assert "source    a file of paths, because of .paths" in run(root, *pack, "--dry-run")
    for part in ("0/2", "1/2"):
        run(root, *pack, "--part", part)
    assert '"samples": 4' in (root / "parts" / "manifest.json").read_text("utf-8")
    refused = run(root, *pack[:2], "images", "out", *pack[4:], code=2)
    assert "--paths-below images has no effect: SOURCE is not a file of paths; leave" in refused
    shutil.copyfile(ROOT / "tests/house/toy_contract.py", root / "test_toy.py")
    found = run(root, "pytest", "-q", "-p", "no:cacheprovider", "test_toy.py")
    assert " passed" in found
    shown = " ".join(run(root, "dsprep", "pack", "--help").split())
    assert "paths, a file of paths and classes" in shown
    assert "--paths-below DIR Directory that the paths start from" in shown
    return " ".join(told.split())


def require_lines(root: Path) -> str:
    """Pack with the other annotations, found by themselves and named; return what is told."""
    files = image_folder(root / "images", ("cat", "dog"), 2)
    lines = "".join(f"{path} animal 1 2 {8 + n} 9\n" for n, path in enumerate(files))
    (root / "images/boxes.lines").write_text(lines, "utf-8")
    told = run(root, "dsprep", "pack", "images", "found", "--to", "webdataset")
    (root / "images/boxes.lines").unlink()
    (root / "boxes.txt").write_text(f"a header\n{lines}", "utf-8")
    pack = ("dsprep", "pack", "images", "named", "--to", "webdataset", "--lines-skipped", "1")
    said = "--lines-skipped 1 has no effect: SOURCE has no annotations that it could be about"
    assert said in run(root, *pack, code=2)
    pack += ("--annotations", "boxes.txt", "--annotation-format", "lines")
    for part in ("0/2", "1/2"):
        run(root, *pack, "--part", part)
    first, second = ((root / each / "train-000000.tar").read_bytes() for each in ("found", "named"))
    assert first == second
    assert b'"box":[1.0,2.0,10.0,9.0]' in first
    shown = " ".join(run(root, "dsprep", "pack", "--help-all").split())
    assert "a file of lines of boxes" in shown
    assert "--lines-skipped N Lines to skip" in shown
    assert re.search(r"--annotation-format \[[a-z|-]*\|lines\|", shown)
    return " ".join(told.split())


COMMANDS = """
import os
from pathlib import Path
from tests.here import Here

store = Path("store").resolve()
store.mkdir()
os.environ["TOY_STORE"] = str(store)
here = Here()


def dsprep(line, code=0):
    done = here(*line.split())
    assert done.code == code, f"dsprep {line}: {done}"
    return done.out


dsprep("pack images toy://set/shards --to webdataset --shards 2")
assert "4 files by the checksum that a toy store keeps" in dsprep("verify toy://set/shards")
assert "4 files by reading all bytes" in dsprep("verify toy://set/shards --download")
dsprep("convert toy://set/shards toy://set/records --to tfrecord")
dsprep("convert toy://set/records back --to webdataset")
dsprep("verify back --against images --decode")
dsprep("sync toy://set/shards fetched")
dsprep("verify fetched --against images --decode")
assert "verified         5 files, by checksum" in dsprep("sync fetched toy://sent --verify")
assert "there already    5 files" in dsprep("sync toy://sent fetched")
dsprep("sync toy://sent toy://copied")
for places in ("fetched toy://sent", "toy://sent toy://copied"):
    done = here(*f"sync {places} --profile someone".split())
    assert (done.code, "options of S3" in done.err) == (2, True), done
(store / "copied" / "more").touch()
dsprep("sync toy://sent toy://copied --delete")
shard = store / "sent" / "train-000000.tar"
shard.write_bytes(bytes(shard.stat().st_size))
assert "bytes have changed" in dsprep("verify toy://sent", 3)
assert "sent             2 files" in dsprep("sync fetched toy://sent")  # and the manifest
here.end()
"""


def test_a_store_is_one_module_and_one_line(copy: Path) -> None:
    image_folder(copy / "images", ("cat", "dog"), 3)
    (copy / "commands.py").write_text(COMMANDS, "utf-8")
    run(copy, "commands")
    first, *others = [
        {path.name: path.read_bytes() for path in (copy / place).iterdir()}
        for place in ("store/set/shards", "store/sent", "store/copied", "fetched")
    ]
    assert len(first) == 5
    assert others == [first] * 3
