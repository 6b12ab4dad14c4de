"""``dsprep inspect`` tells what is there; numpy, Pillow and imagehash are the judges."""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagehash
import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageOps

import dsprep
from dsprep.errors import SourceError
from tests.conftest import Finished
from tests.inspecting.conftest import texture

RunCli = Callable[..., Finished]


@pytest.fixture(scope="module")
def report(odd: Path) -> dsprep.InspectReport:
    return dsprep.inspect(odd)


def colors(path: Path) -> Any:
    """Return an image upright, as RGB on white, from 0 to 1."""
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGBA")
    white = Image.new("RGBA", upright.size, "white")
    # Pillow's own paste, as alpha_composite rounds otherwise.
    white.paste(upright, mask=upright.getchannel("A"))
    return np.asarray(white.convert("RGB"), dtype=np.float64) / 255


def test_figures_agree_with_numpy(report: dsprep.InspectReport, odd: Path) -> None:
    rows = [row for row in report.table.iter_rows(named=True) if row["reason"] is None]
    assert len(rows) == 17
    means, squares = [], []
    for row in rows:
        path = odd / row["path"]
        pixels = colors(path)
        with Image.open(path) as image:
            stored = image.convert("RGB").convert("L")
            assert (row["mode"], row["bytes"]) == (image.mode, path.stat().st_size)
        assert (row["height"], row["width"]) == pixels.shape[:2]
        means.append(pixels.mean((0, 1)))
        squares.append((pixels**2).mean((0, 1)))
        if row["mode"] in ("P", "RGBA"):  # a palette's colors are rounded in other ways
            continue
        luma = pixels @ (0.299, 0.587, 0.114)
        assert row["brightness"] == pytest.approx(luma.mean(), abs=1e-9)
        assert row["contrast"] == pytest.approx(math.sqrt(pixels.var((0, 1)).mean()), abs=1e-7)
        gray = np.asarray(stored, dtype=np.float64)
        height, width = gray.shape
        top, left = max(0, (height - 96) // 2), max(0, (width - 96) // 2)
        middle = gray[top : top + 96, left : left + 96]
        laplacian = middle[1:-1, 2:] + middle[1:-1, :-2] + middle[2:, 1:-1] + middle[:-2, 1:-1]
        laplacian = (laplacian - 4 * middle[1:-1, 1:-1]).clip(-128, 127)
        assert row["sharpness"] == pytest.approx(laplacian.std(), abs=1e-6)
    channels = report.sides[0].channels
    assert channels is not None
    mean, square = np.mean(means, 0), np.mean(squares, 0)
    assert channels.mean == pytest.approx(mean, abs=1e-3)
    assert channels.std == pytest.approx(np.sqrt(square - mean**2), abs=1e-3)


def test_hashes_are_those_of_imagehash(report: dsprep.InspectReport, odd: Path) -> None:
    compared = 0
    for path, found in report.table.select("path", "hash").iter_rows():
        if found is not None:
            with Image.open(odd / path) as image:
                upright = ImageOps.exif_transpose(image).convert("RGBA")
            white = Image.new("RGB", upright.size, "white")
            white.paste(upright, mask=upright.getchannel("A"))
            theirs = int(str(imagehash.phash(white)), 16)
            assert (found ^ theirs).bit_count() <= 4, path
            compared += 1
    assert compared == 16  # all that can be read, but the white one


def test_what_is_odd_is_told(run_here: RunCli, odd: Path) -> None:
    done = run_here("inspect", odd, "--json")
    assert done.code == 3
    found = json.loads(done.out)
    assert found["samples"] == found["looked_at"] == 19
    (side,) = found["sides"]
    assert side["classes"] == {"cat": 10, "dog": 9}
    assert side["kinds"] == {"jpg": 9, "png": 6, "gif": 1, "webp": 1}
    assert side["modes"]["CMYK"] == side["modes"]["L"] == side["modes"]["RGBA"] == 1
    assert side["orientations"] == {"1": 16, "6": 1}
    assert {each["path"]: each["reason"].split(":")[0] for each in found["rejects"]} == {
        "cat/cut.jpg": "truncated JPEG",
        "cat/empty.jpg": "empty file",
    }
    sets = {
        (each["kind"], each["differ"], tuple(one["path"] for one in each["samples"]))
        for each in found["alike"]
    }
    assert sets == {
        ("same", True, ("cat/0.jpg", "dog/copy.jpg")),
        ("near", False, ("cat/1.jpg", "cat/1-small.jpg")),
    }
    assert {each["path"] for each in found["suspects"]} == {"dog/white.png"}
    (sizes,) = (each for each in side["distributions"] if each["name"] == "bytes")
    assert (sizes["images"], sizes["least"] > 0) == (17, True)
    text = run_here("inspect", odd, "--head", 1).out
    for line in (
        "  classes   2: cat 10, dog 9",
        "  copies    2 in 2 sets, 1 with different labels",
        "            equal: cat/0.jpg (cat), dog/copy.jpg (dog)",
        "  suspects  1 nearly uniform, contrast below 0.02 (dog/white.png)",
        "  skipped   1 left over: 1 .txt (notes.txt)",
        "            cat/empty.jpg: empty file",
    ):
        assert line in text.splitlines()


def test_many_tasks_find_what_one_finds(
    report: dsprep.InspectReport, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.inspecting.measure._AT_ONCE", 3)
    found = dsprep.inspect(odd)
    assert found.table.equals(report.table)
    assert (found.sides, found.alike) == (report.sides, report.alike)


def test_headers_alone_are_enough_for_sizes(odd: Path) -> None:
    report = dsprep.inspect(odd, decode=False)
    (side,) = report.sides
    names = [each.name for each in side.distributions]
    assert names == ["width", "height", "aspect", "bytes"]
    assert side.channels is None
    assert side.sizes["160x120"] == 10
    assert [each.kind for each in report.alike] == ["same"]


def test_samples_are_chosen_by_their_keys(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for seed in range(40):
        texture(seed, (12, 9)).save(folder / f"{seed:02}.png")
    first = dsprep.inspect(folder, sample=10, decode=False)
    assert (first.samples, first.looked_at) == (40, 10)
    chosen = set(first.table["path"])
    for number in range(0, 40, 2):  # another order and another number of samples
        (folder / f"{number:02}.png").rename(folder / f"{number:02}.jpg")
    again = dsprep.inspect(folder, sample=12, decode=False)
    keys = {path.partition(".")[0] for path in again.table["path"]}
    assert {path.partition(".")[0] for path in chosen} < keys
    other = dsprep.inspect(folder, sample=10, seed=1, decode=False)
    assert set(other.table["path"]) != chosen


@pytest.mark.parametrize("format", ["webdataset", "tfrecord", "recordio", "parquet"])
def test_shards_look_like_what_they_were_made_of(
    odd: Path, tmp_path: Path, format: str, report: dsprep.InspectReport
) -> None:
    packed = dsprep.pack(odd, tmp_path / "out", to=format, transform=dsprep.Transform(encode="png"))
    found = dsprep.inspect(tmp_path / "out")
    (mine,), (theirs,) = found.sides, report.sides
    assert mine.classes == {"cat": 8, "dog": 9}
    assert found.samples == packed.samples == 17
    assert mine.channels is not None
    assert theirs.channels is not None
    assert mine.channels.mean == pytest.approx(theirs.channels.mean, abs=1e-9)
    assert len(found.alike) == len(report.alike)


def test_data_sets_and_sides_are_compared(run_here: RunCli, odd: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    dsprep.pack(odd, shards, to="webdataset", split="train=0.5,val=0.5")
    report = dsprep.inspect(shards)
    assert [each.name for each in report.sides] == ["train", "val"]
    assert [each.samples for each in report.sides] == [9, 8]
    text = run_here("inspect", odd / "cat", odd / "dog").out
    assert "1 on several sides" in text
    assert f"{odd / 'dog'}: 9 samples" in text.splitlines()


def test_a_side_without_images_has_no_figures(run_here: RunCli, odd: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "0.jpg").write_bytes(b"no image")
    found = json.loads(run_here("inspect", odd, tmp_path / "bad", "--json").out, parse_constant=int)
    width = found["sides"][1]["distributions"][0]
    assert (width["name"], width["images"], width["mean"]) == ("width", 0, None)


def test_a_sample_is_shown(run_here: RunCli, odd: Path) -> None:
    done = run_here("inspect", odd, "--key", "dog/alpha")
    assert done.code == 0
    size = (odd / "dog" / "alpha.png").stat().st_size
    assert f"  image     png, 160x120, {size / 1000:.1f} KB" in done.out.splitlines()
    assert "  label     dog" in done.out.splitlines()
    cut = run_here("inspect", odd, "--key", "cat/cut")
    assert (cut.code, "  rejected  truncated JPEG" in cut.out) == (3, True)
    lost = run_here("inspect", odd, "--key", "dog/none")
    assert (lost.code, "has no sample 'dog/none'; keys look like" in lost.err) == (4, True)


def test_a_sample_is_shown_though_another_is_missing(run_here: RunCli, tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    texture(1).save(tmp_path / "cat" / "1.jpg")
    (tmp_path / "cat" / "2.jpg").symlink_to("nowhere.jpg")
    assert run_here("inspect", tmp_path, "--key", "cat/1").code == 0
    assert run_here("inspect", tmp_path).code == 3


def test_hostile_names_stay_text(run_here: RunCli, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for name in ("<script>alert(1)", "a\x1b[31mred", "b\u202eevil"):
        (folder / name).mkdir(parents=True)
        texture(1, (20, 20)).save(folder / name / "x.png")
    done = run_here("inspect", folder)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "<script>alert(1) 1" in done.out


def test_samples_without_images_are_counted(run_here: RunCli, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((5, 3), dtype=np.float32))
    for command in ("inspect", "dedup"):
        done = run_here(command, tmp_path / "rows.npy")
        assert "  note      5 samples without an image" in done.out


def test_images_of_each_label_are_named(run_here: RunCli, tmp_path: Path) -> None:
    for name in ("a/0", "a/1", "a/2", "a/3", "b/0"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        texture(1).save(tmp_path / f"{name}.png")
    for command in ("inspect", "dedup"):
        assert "equal: a/0.png (a), b/0.png (b)," in run_here(command, tmp_path).out


def test_parts_make_the_same_report(run_here: RunCli, odd: Path, tmp_path: Path) -> None:
    tables = [tmp_path / f"{part}.parquet" for part in range(3)]
    for part, table in enumerate(tables):
        assert run_here("inspect", odd, "--part", f"{part}/3", "-o", table, "-q").code in (0, 3)
    measured = [text for table in tables for text in ("--measured", table)]
    joined = json.loads(run_here("inspect", odd, *measured, "--json").out)
    whole = json.loads(run_here("inspect", odd, "--json").out)
    assert joined | {"seconds": 0} == whole | {"seconds": 0}
    lost = run_here("inspect", odd, *measured[:4])
    assert (lost.code, "have 13 of the 19 samples" in lost.err) == (4, True)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    bad = run_here("inspect", odd, "--measured", tmp_path / "bad.parquet")
    assert (bad.code, "it is not Parquet" in bad.err) == (4, True)


@pytest.mark.parametrize(
    "lie",
    [
        {"width": pl.lit("wide")},
        {"labels": pl.lit([None], dtype=pl.List(pl.String))},
        {"means": pl.lit([0.5, None, 0.5], dtype=pl.List(pl.Float64))},
        {"means": pl.lit([0.5], dtype=pl.List(pl.Float64))},
        {"squares": pl.lit(None, dtype=pl.List(pl.Float64))},
    ],
)
def test_tables_that_were_not_measured_are_refused(
    report: dsprep.InspectReport, odd: Path, tmp_path: Path, lie: dict[str, pl.Expr]
) -> None:
    table = tmp_path / "lie.parquet"
    report.table.with_columns(**lie).write_parquet(table)
    with pytest.raises(SourceError, match="is not a table"):
        dsprep.inspect(odd, measured=[table])


def test_samples_of_a_part_are_called_as_in_the_whole(tmp_path: Path) -> None:
    for name in "ab":
        texture(ord(name)).save(tmp_path / "image.png")
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            tar.add(tmp_path / "image.png", "image.png")
    shards = tmp_path / "{a,b}.tar"
    whole = dsprep.inspect(shards, head=2)
    assert [each.path for each in whole.shown] == ["a.tar/image", "b.tar/image"]
    assert whole.table["path"].to_list() == ["a.tar/image", "b.tar/image"]
    tables = [tmp_path / f"{part}.parquet" for part in range(2)]
    for part, table in enumerate(tables):
        dsprep.inspect(shards, part=f"{part}/2", output=table)
    assert dsprep.inspect(shards, measured=tables).sides == whole.sides


def test_what_was_measured_chooses_samples(run_here: RunCli, odd: Path, tmp_path: Path) -> None:
    looks, out = tmp_path / "looks.parquet", tmp_path / "out"
    report = dsprep.inspect(odd, output=looks)
    wide = report.table.filter(report.table["width"] >= 160)["path"]
    options = ("--to", "webdataset", "--filter", "width >= 160", "--filter-table", looks)
    assert run_here("shard", odd, out, *options, "-q").code == 0
    assert dsprep.inspect(out).samples == len(wide) == 11
    again = run_here("inspect", odd, "-o", looks)  # a table of its own is replaced
    assert (again.code, f"  written   {looks}" in again.out.splitlines()) == (3, True)
    assert "  copies    none" in run_here("inspect", out, "--sample", 1).out.splitlines()
    looks.write_bytes(b"PAR1")
    again = run_here("shard", odd, tmp_path / "more", *options)
    assert (again.code, "is not Parquet" in again.err) == (4, True)
