"""Files that are masks of others are no samples, wherever they lie."""

from __future__ import annotations

import tarfile
from pathlib import Path
from random import Random

import pytest
from PIL import Image

import dsprep
from dsprep.errors import OptionError

SIZE = (8, 6)


def write(root: Path, *names: str) -> Path:
    """Make masks of files called so, and photographs of others."""
    for at, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise = Random(at).randbytes(3 * SIZE[0] * SIZE[1])
        is_mask = "mask" in name
        picture = Image.new("L", SIZE, at) if is_mask else Image.frombytes("RGB", SIZE, noise)
        picture.save(root / name)
    return root


def members(out: Path) -> list[str]:
    with tarfile.open(out / "train-000000.tar") as shard:
        return sorted(shard.getnames())


NESTED = ("images/a.jpg", "images/b.jpg", "masks/a_mask.png", "masks/b_mask.png", "masks/c.png")


@pytest.mark.parametrize(
    ("names", "root", "masks", "samples"),
    [
        (NESTED, ".", "masks", ["images/a", "images/b"]),
        (("a.jpg", "b.jpg", "a_mask.png", "b_mask.png"), ".", ".", ["a", "b"]),
        (("a.png", "b.png", "a_mask.png", "b_mask.png"), ".", ".", ["a", "b"]),
        (("x/a.png", "x/b.png", "x/a_mask.png", "x/b_mask.png"), "x", ".", ["a", "b"]),
    ],
    ids=["below the images", "beside JPEGs", "beside PNGs", "above the images"],
)
def test_masks_are_no_samples(
    tmp_path: Path, names: tuple[str, ...], root: str, masks: str, samples: list[str]
) -> None:
    where, out = write(tmp_path / "set", *names), tmp_path / "out"
    asked, given = str(where / root), str(where / masks)
    dsprep.pack(asked, str(out), to="webdataset", masks=given, workers=1)
    ends = (".jpg", ".mask.png") if names[0].endswith("jpg") else (".mask.png", ".png")
    assert members(out) == [f"{sample}{end}" for sample in samples for end in ends]
    if root == ".":  # the manifest records masks that lie in SOURCE
        report = dsprep.verify(str(out), against=asked, workers=1)
        assert not report.problems
        assert not [note for note in report.notes if "do not hold all" in note]


def test_a_layout_names_the_masks_of_a_set(tmp_path: Path) -> None:
    root, out, layout = write(tmp_path / "set", *NESTED), tmp_path / "out", tmp_path / "set.toml"
    layout.write_text('dsprep_layout = 1\n\n[annotations]\nmasks = "masks"\n')
    report = dsprep.pack(str(root), str(out), to="webdataset", layout=str(layout), workers=1)
    assert (report.samples, members(out)[:2]) == (2, ["images/a.jpg", "images/a.mask.png"])


def test_a_directory_with_all_images_has_not_the_masks_alone(tmp_path: Path) -> None:
    root = write(tmp_path / "set", "x/a.jpg", "x/a_mask.png")
    with pytest.raises(OptionError, match="has all images of .*: if masks lie among the images, "):
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", masks=f"{root}/x")


def test_photographs_among_masks_are_told(tmp_path: Path) -> None:
    root = write(tmp_path / "set", *NESTED, "masks/d.jpg")
    report = dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", masks=f"{root}/masks")
    assert report.samples == 2
    assert any(note.startswith("1 image in ") and "masks/d.jpg" in note for note in report.notes)
