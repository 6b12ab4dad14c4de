"""The recipes of CONTRIBUTING.md are true: a format, or a source, is one module and one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.images import image_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository with another format and another source."""
    ignored = shutil.ignore_patterns("__pycache__", "data")
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
    return root


def run(root: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout


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
    run(copy, "scripts.reference")
    assert "| `toy` | samples of entries" in (copy / "docs/formats.md").read_text("utf-8")


def test_a_source_is_one_module_and_one_line(copy: Path) -> None:
    require_paths(copy)
    run(copy, "scripts.reference")
    assert "| `paths` | a file whose lines are" in (copy / "docs/formats.md").read_text("utf-8")


def test_a_source_of_another_package_is_an_entry_point(tmp_path: Path) -> None:
    toy = (ROOT / "tests/house/toy_source.py").read_text("utf-8")
    (tmp_path / "toy_paths.py").write_text(toy, "utf-8")
    (tmp_path / "toy_old.py").write_text("class Old:\n    version = 0\n", "utf-8")
    about = tmp_path / "toy_paths-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-paths\nVersion: 1.0\n")
    points = "[dsprep.sources]\npaths = toy_paths:Paths\nold = toy_old:Old\ngone = toy_gone:Gone\n"
    (about / "entry_points.txt").write_text(points, "utf-8")
    told = require_paths(tmp_path)
    assert "source old (toy_old:Old) is left out: it is of version 0 of the protocol" in told
    assert "source gone (toy_gone:Gone) is left out: it cannot be loaded (No module named" in told


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
    shown = " ".join(run(root, "dsprep", "pack", "--help").split())
    assert "paths, a file of paths and classes" in shown
    return " ".join(told.split())
