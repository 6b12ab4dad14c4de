"""Samples of many parts against odd names, links, and files that change behind the catalog."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.catalog import Catalog
from dsprep.errors import BadSample
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.sources.pictures.parts import read_parts
from dsprep.sources.source import make_source
from tests.attack.trees import contents, rejects
from tests.conftest import Finished
from tests.images import jpeg, png

RunCli = Callable[..., Finished]

STEMS = (
    "0001",
    "a blank",
    "Ünï cödé",
    "ねこ",
    "e\u0301 decomposed",
    "it's",
    '"quoted"',
    "-rf",
    "--help",
    "100%s %d",
    "%2f%2e",
    "#hash;semi&amp|pipe",
    "back\\slash\\n",
    "{1,3}*?[x]",
    "~",
    "$HOME",
    "a=b,c:d",
    "__x__",
    "x" * 240,
    "\U0001f408",
    "\u202ereversed",
)
PARTS = ("jpg", "json", "mask.png", "b.c.d", "no bytes")


def parts_of(number: int) -> dict[str, bytes]:
    return dict(zip(PARTS, (jpeg(number), b'{"a": 1}', png(number), b"\0\xff", b""), strict=True))


def tree(root: Path, *directories: str) -> dict[str, dict[str, bytes]]:
    """Make a sample of each stem in each directory; returns the parts by key."""
    made = {}
    for number, stem in enumerate(STEMS):
        for directory in directories:
            key = f"{directory}/{stem}".removeprefix("/")
            made[key] = parts_of(number)
            (root / directory).mkdir(parents=True, exist_ok=True)
            for part, data in made[key].items():
                (root / f"{key}.{part}").write_bytes(data)
    return made


def read(catalog: Catalog) -> list[Sample | BadSample | bytes]:
    columns = (catalog.table[name].to_list() for name in ("index", "path", "size"))
    return list(catalog.reader.read(Rows(*columns, None)))


def test_all_parts_are_in_the_shard(run_here: RunCli, tmp_path: Path, webdataset: object) -> None:
    """As webdataset itself reads it."""
    import webdataset as wds

    made = tree(tmp_path / "source", "cat", "v1.2/dog")
    packed = run_here("pack", tmp_path / "source", tmp_path / "out.tar", "--parts")
    assert packed.code == 0, packed.err
    samples = wds.WebDataset(str(tmp_path / "out.tar"), shardshuffle=False)
    found = {sample["__key__"]: {part: sample[part] for part in PARTS} for sample in samples}
    assert found == made


@pytest.mark.parametrize(
    "option", [("--parts",), ("--pair", "image=**/*.jpg", "--pair", "mask=**/*.mask.png")]
)
def test_same_bytes_whoever_writes_them(
    run_here: RunCli, tmp_path: Path, option: tuple[str, ...]
) -> None:
    tree(tmp_path / "source", "cat", "dog")
    for workers in ("1", "4"):
        finished = run_here(
            *("pack", tmp_path / "source", tmp_path / workers, "--format", "webdataset"),
            *("--shards", "3", "--workers", workers, *option),
        )
        assert finished.code == 0, finished.err
    assert contents(tmp_path / "1") == contents(tmp_path / "4")


def test_a_key_that_webdataset_passes_over_is_refused_by_name(
    run_here: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    for name in ("ok.jpg", "line\nbreak.jpg"):
        (tmp_path / "source" / name).write_bytes(jpeg())
    finished = run_here(
        "pack", tmp_path / "source", tmp_path / "out", "--format", "webdataset", "--parts"
    )
    assert finished.code == 3
    assert list(rejects(tmp_path / "out")) == ["line\nbreak.jpg"]


def test_samples_that_lack_a_part(run_here: RunCli, tmp_path: Path) -> None:
    for folder, count in (("images", 5), ("masks", 4)):
        (tmp_path / "source" / folder).mkdir(parents=True)
        for number in range(count):
            suffix = "jpg" if folder == "images" else "png"
            (tmp_path / f"source/{folder}/{number}.{suffix}").write_bytes(jpeg(number))
    pairs = ("--pair", "image=images/*.jpg", "--pair", "mask=masks/*.png")
    finished = run_here(
        "pack", tmp_path / "source", tmp_path / "out", "--format", "webdataset", "--json", *pairs
    )
    assert finished.code == 3
    assert rejects(tmp_path / "out") == {"4.jpg": "is not on the disk (mask.png)"}
    assert json.loads(finished.out)["samples"] == 4


@pytest.mark.parametrize(
    "pair", ["image=../*.jpg", "image=/etc/*.conf", "image=*", "../image=*.jpg", "image=*/../*.jpg"]
)
def test_patterns_do_not_lead_out(run_here: RunCli, tmp_path: Path, pair: str) -> None:
    (tmp_path / "source").mkdir()
    for place in ("0.jpg", "source/1.jpg"):
        (tmp_path / place).write_bytes(jpeg())
    dest = tmp_path / "out"
    refused = run_here("pack", tmp_path / "source", dest, "--format", "webdataset", "--pair", pair)
    assert refused.code == 2, refused.err
    assert not dest.exists()


# What changes behind the catalog


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    for stem in ("1", "2", "3"):
        for part, data in parts_of(0).items():
            (root / f"{stem}.{part}").write_bytes(data)
    return root


PAIRS = {"image": "*.jpg", "json": "*.json", "b.c.d": "*.b.c.d", "none": "*.no bytes"}


def grow(path: Path) -> None:
    os.truncate(path, 1 << 40)


def to_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def to_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize("attack", [Path.unlink, grow, to_fifo, to_directory, to_device, to_loop])
@pytest.mark.parametrize("part", ["jpg", "json", "b.c.d"])
@pytest.mark.parametrize("pairs", [None, PAIRS])
def test_a_part_that_is_another_thing_now_is_a_reject(
    source: Path, attack: Callable[[Path], None], part: str, pairs: dict[str, str] | None
) -> None:
    """Of that sample alone, at once, and whatever size it is said to have."""
    catalog, _ = read_parts(make_source(source, pairs=pairs))
    attack(source / f"1.{part}")
    one, *others = read(catalog)
    assert isinstance(one, BadSample)
    assert len(others) == 2
    assert all(isinstance(each, Sample) and each.fields["jpg"] == jpeg(0) for each in others)


@pytest.mark.parametrize("attack", [to_fifo, to_directory, to_device, to_loop])
@pytest.mark.parametrize("pairs", [None, {"image": "*.jpg", "json": "*.json"}])
def test_what_is_no_file_is_no_part(
    source: Path, attack: Callable[[Path], None], pairs: dict[str, str] | None
) -> None:
    attack(source / "1.json")
    catalog, findings = read_parts(make_source(source, pairs=pairs))
    assert all(isinstance(each, Sample) for each in read(catalog))
    told = {(finding.kind, finding.path) for finding in findings}
    if pairs is None:
        assert catalog.keys().to_list() == ["1", "2", "3"]
        assert ("incomplete", "1.jpg") in told
    else:
        assert catalog.keys().to_list() == ["2", "3"]
        assert ("missing", "1.jpg") in told


def test_links_that_go_round_end(source: Path) -> None:
    (source / "round").symlink_to(".")
    catalog, findings = read_parts(make_source(source, pairs={"image": "**/*.jpg"}))
    assert catalog.keys().to_list() == ["1", "2", "3"]
    assert "loop" in {finding.kind for finding in findings}


def test_a_part_added_later_is_not_read(source: Path) -> None:
    catalog, _ = read_parts(make_source(source))
    (source / "1.key").write_bytes(b"secret")
    assert all(isinstance(each, Sample) and "key" not in each.fields for each in read(catalog))


def test_any_number_of_dots(run_here: RunCli, tmp_path: Path) -> None:
    """One sample of thousands of parts would be read whole."""
    (tmp_path / "source").mkdir()
    for number in range(3000):
        (tmp_path / f"source/frame.{number}.jpg").touch()
    refused = run_here("pack", tmp_path / "source", tmp_path / "out.tar", "--parts")
    assert refused.code == 4
    assert "3,000 ways" in refused.err
