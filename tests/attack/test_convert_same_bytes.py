"""`convert`, `shard` and `append` give the same bytes: with any workers, killed or not."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.test_same_bytes import hidden, wait_for_end_of_family, wait_for_progress
from tests.attack.trees import contents, places
from tests.conftest import Finished, Running
from tests.images import image_folder

RunHere = Callable[..., Finished]

TWOS = ("--samples-per-shard", 2)
VARIANTS: dict[str, tuple[object, ...]] = {
    "one to one": ("convert", "tars", "--to", "tfrecord", "--compression", "gzip"),
    "fields": ("convert", "records", "--to", "parquet", "--samples-per-shard", 8),
    "decompressed": ("convert", "photos.tar.gz", "--to", "webdataset", *TWOS),
    "columns": ("convert", "table", "--to", "recordio", "--samples-per-shard", 8),
    "folder": ("convert", "tars", "--to", "folder"),
    "manifest": ("convert", "photos.tar.gz", "--to", "augmented-manifest", "--resize", 8),
    "shuffled": ("shard", "tars", *TWOS, "--shuffle"),
    "shuffled from gzip": ("shard", "compressed", *TWOS, "--shuffle", "--seed", 3),
    "appended": ("shard append", "photos.tar.gz", *TWOS),
}
KILLED = ("one to one", "fields", "folder", "shuffled from gzip", "appended")
"""Those that are killed: one of each way to write."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, run_here: RunHere) -> Path:
    """A hundred and twenty samples in several forms, and a data set that others are added to."""
    root = tmp_path_factory.mktemp("sources")
    image_folder(root / "photos", ("cat", "dog", "owl"), 40, (16, 12))
    with tarfile.open(root / "photos.tar.gz", "w:gz") as tar:
        tar.add(root / "photos", "")
    image_folder(root / "few", ("cat", "dog", "owl"), 1, (16, 12))
    for path in sorted((root / "few").rglob("*.jpg")):
        path.rename(path.with_name("few.jpg"))
    for dest, source, *options in (
        ("tars", "photos", "--to", "webdataset", *TWOS),
        ("records", "photos", "--to", "tfrecord", "--shards", 3),
        ("compressed", "records", "--to", "tfrecord", "--compression", "gzip"),
        ("table", "photos", "--to", "parquet", "--shards", 2),
        ("base", "few", "--to", "webdataset"),
    ):
        assert run_here("convert", root / source, root / dest, *options, "-qj1").code == 0
    return root


def command(variant: str, sources: Path, dest: Path) -> list[object]:
    """The arguments of a variant that writes `dest`, which is there already to be added to."""
    verb, source, *options = VARIANTS[variant]
    if verb == "shard append":
        shutil.copytree(sources / "base", dest)
    return [*str(verb).split(), sources / str(source), dest, *options, "-q"]


@pytest.fixture(scope="module")
def undisturbed(
    run_here: RunHere, sources: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, bytes]]:
    """What one worker makes of a variant that nobody disturbs."""
    made: dict[str, dict[str, bytes]] = {}

    def make(variant: str) -> dict[str, bytes]:
        if variant not in made:
            root = tmp_path_factory.mktemp("undisturbed")
            args = command(variant, sources, root / "out")
            assert run_here(*args, "-j1") == (0, "", "")
            made[variant] = contents(root)
        return made[variant]

    return make


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_any_number_of_workers_and_once_only(
    run_here: RunHere,
    sources: Path,
    tmp_path: Path,
    undisturbed: Callable[[str], dict[str, bytes]],
    variant: str,
) -> None:
    args = command(variant, sources, tmp_path / "out")
    assert run_here(*args, "-j4") == (0, "", "")
    assert contents(tmp_path) == undisturbed(variant)
    written = places(tmp_path)
    assert run_here(*args, "-j1") == (0, "", "")
    assert places(tmp_path) == written


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_dry_run_writes_nothing(
    run_here: RunHere, sources: Path, tmp_path: Path, variant: str
) -> None:
    args = command(variant, sources, tmp_path / "out")
    before = places(tmp_path), places(sources)
    assert run_here(*args, "--dry-run", "-j1").code == 0
    assert (places(tmp_path), places(sources)) == before


@pytest.mark.parametrize("to", ["folder", "augmented-manifest", "webdataset", "parquet"])
def test_overwriting_replaces_what_another_command_wrote(
    run_here: RunHere, sources: Path, tmp_path: Path, to: str
) -> None:
    call = ("convert", sources / "tars", tmp_path / "out", "--to", to, "-qj1")
    assert run_here(*call, "--resize", 8).code == 0
    before = contents(tmp_path)
    assert run_here(*call).code == 5
    assert contents(tmp_path) == before
    assert run_here(*call, "--overwrite") == (0, "", "")
    (tmp_path / "fresh").mkdir()
    assert run_here(*call[:2], tmp_path / "fresh" / "out", *call[3:]).code == 0
    fresh = contents(tmp_path / "fresh")
    after = contents(tmp_path)
    assert {path: data for path, data in after.items() if not path.startswith("fresh/")} == fresh


def test_a_folder_with_a_file_of_somebody_else_is_not_overwritten(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    call = ("convert", sources / "tars", tmp_path / "out", "--to", "folder", "-qj1")
    assert run_here(*call).code == 0
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    refused = run_here(*call, "--overwrite")
    assert refused.code == 5
    assert "notes.txt: dsprep did not write this file" in refused.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("variant", KILLED)
def test_after_kills(
    run_here: RunHere,
    start_cli: Callable[..., Running],
    sources: Path,
    tmp_path: Path,
    undisturbed: Callable[[str], dict[str, bytes]],
    variant: str,
) -> None:
    whole = undisturbed(variant)
    rng = random.Random(variant)
    dest = tmp_path / "out"
    args = command(variant, sources, dest)
    # What is replaced at the end, when samples are added, is what it was or what it will be.
    before = contents(tmp_path)
    for _ in range(3):
        running = start_cli(*args, "-j", rng.choice((1, 2)))
        wait_for_progress(running, dest, rng, 12)
        with suppress(ProcessLookupError):  # it was faster
            rng.choice((os.kill, os.killpg))(running.process.pid, signal.SIGKILL)
        running.process.wait()
        wait_for_end_of_family(running)
        for name, data in contents(tmp_path).items():
            assert hidden(name) or data in (whole.get(name), before.get(name)), name
    assert run_here(*args, "-j2") == (0, "", "")
    assert contents(tmp_path) == whole
