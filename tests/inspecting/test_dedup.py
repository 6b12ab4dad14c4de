"""``dsprep dedup`` lists copies, and the commands that write leave them out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

import dsprep
from dsprep.errors import DestinationError, OptionError
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import encode
from tests.inspecting.conftest import texture
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]


def listed(path: Path) -> list[dict[str, Any]]:
    return pl.read_csv(path, separator="\t").to_dicts()


def write(root: Path, **files: bytes) -> Path:
    """Write files whose names have two underscores for a slash."""
    for name, data in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four images: one of them also smaller, one again, one again with another label."""
    root = tmp_path_factory.mktemp("copies") / "photos"
    images = [encode(texture(seed), "JPEG", quality=92) for seed in range(4)]
    small = encode(texture(0).resize((80, 60)), "PNG")
    files = {f"cat/{number}.jpg": data for number, data in enumerate(images)}
    files |= {"cat/0.png": small, "cat/again.jpg": images[1], "dog/2.jpg": images[2]}
    files |= {"dog/white.png": encode(Image.new("RGB", (99, 99), "white"), "PNG")}
    files |= {"cat/white.png": encode(Image.new("RGB", (98, 99), "white"), "PNG")}
    return write(root, **{name.replace("/", "__"): data for name, data in files.items()})


def test_copies_are_listed_and_left_out(photos: Path, run_here: RunCli, tmp_path: Path) -> None:
    table = tmp_path / "copies.tsv"
    done = run_here("dedup", photos, "--near", "-o", table)
    assert done.code == 0
    assert "2 to leave out" in done.out
    assert "1 copy kept, as labels differ" in done.out
    assert "conflict  equal: cat/2.jpg (cat), dog/2.jpg (dog)" in done.out
    assert "2 images flat, compared by bytes alone: cat/white.png, dog/white.png" in done.out
    found = {row["path"]: row for row in listed(table)}
    gone = [path for path, row in found.items() if not row["keep"]]
    assert gone == ["cat/0.png", "cat/again.jpg"]
    assert found["cat/0.png"]["copy_of"] == "cat/0.jpg"  # the larger one
    assert found["cat/again.jpg"]["distance"] is None
    assert found["dog/2.jpg"] == {
        "path": "dog/2.jpg",
        "side": None,
        "label": "dog",
        "set": 3,
        "keep": True,
        "copy_of": "cat/2.jpg",
        "distance": None,
        "conflict": True,
    }
    # cat/0.jpg and cat/0.png would have one key.
    for command in ("pack", "convert", "shard"):
        options = ["--to", "webdataset", "--filter-table", table]
        done = run_here(command, photos, tmp_path / command, *options)
        assert done.code == 0, done.err
        assert "2 samples filtered out" in done.out
        manifest = json.loads((tmp_path / command / "manifest.json").read_text())
        assert manifest["samples"] == 7
    proven = run_here("verify", tmp_path / "pack", "--against", photos, "--filter-table", table)
    assert proven.code == 0, proven.out
    rest = json.loads(run_here("dedup", tmp_path / "pack", "--near", "--json").out)
    assert (rest["copies"], rest["conflicts"], len(rest["sets"])) == (0, 1, 1)
    options = ["--to", "webdataset", "--op", "hflip", "--per-image", "1"]
    more = run_here("augment", photos, tmp_path / "more", *options, "--filter-table", table)
    assert more.code == 0, more.err
    assert "samples   14" in more.out


def test_conflicts_are_left_out_by_an_expression(photos: Path, tmp_path: Path) -> None:
    table = tmp_path / "copies.tsv"
    dsprep.dedup(photos, output=table)
    asked = {"copy_of IS NULL": 7, "COALESCE(keep AND NOT conflict, TRUE)": 6}
    for expression, samples in asked.items():
        dest = tmp_path / str(samples)
        report = dsprep.shard(
            photos, dest, to="tfrecord", key="index", filter=expression, filter_table=table
        )
        assert report.samples == samples


def test_a_list_without_copies_leaves_nothing_out(tmp_path: Path) -> None:
    images = {f"a__{seed}.jpg": encode(texture(seed), "JPEG") for seed in range(3)}
    root, table = write(tmp_path / "images", **images), tmp_path / "copies.tsv"
    assert dsprep.dedup(root, output=table, near=True).sets == []
    assert listed(table) == []
    report = dsprep.pack(root, tmp_path / "shards", to="tfrecord", filter_table=table)
    assert report.samples == 3
    expression = "COALESCE(keep, TRUE)"
    again = dsprep.shard(tmp_path / "shards", tmp_path / "b", filter=expression, filter_table=table)
    assert again.samples == 3


def test_rows_of_a_list_without_a_sample_are_counted(
    photos: Path, run_here: RunCli, tmp_path: Path
) -> None:
    table = tmp_path / "copies.tsv"
    table.write_text("path\tkeep\ncat/again.jpg\tfalse\ncat/gone.jpg\tfalse\n")
    options = ("--to", "webdataset", "--filter-table", table, "--key", "index")
    done = run_here("pack", photos, tmp_path / "out", *options)
    chosen = "1 sample filtered out, 1 row of --filter-table without a sample"
    assert f"  chosen    {chosen}" in done.out


def test_samples_for_validation_stay(tmp_path: Path, run_here: RunCli) -> None:
    image, other = (encode(texture(seed), "PNG") for seed in range(2))
    names = ["train__x__1.png", "train__x__2.png", "val__x__9.png"]
    root = write(tmp_path / "set", **dict.fromkeys(names, image))
    write(root, **{"train__x__3.png": other, "val__x__8.png": other[:-8]})
    done = run_here("dedup", root, "--near", "-o", tmp_path / "copies.tsv")
    assert done.code == 3  # a sample cannot be read
    assert "rejected  val/x/8.png" in done.out
    sides = "val/x/9.png (val), train/x/1.png (train), train/x/2.png (train)"
    assert f"leak      equal: {sides}" in done.out
    kept = {row["path"]: row["keep"] for row in listed(tmp_path / "copies.tsv")}
    assert kept == {"val/x/9.png": True, "train/x/1.png": False, "train/x/2.png": False}


def test_without_looks_only_files_of_equal_size_are_read(photos: Path, tmp_path: Path) -> None:
    root = tmp_path / "photos"
    write(root, **{path.replace("/", "__"): data for path, data in contents(photos).items()})
    write(root, **{"cat__broken.jpg": b"no image"})
    report = dsprep.dedup(root)
    assert (report.samples, report.copies, report.rejects) == (10, 1, [])
    assert len(dsprep.dedup(root, near=True).rejects) == 1


def test_which_of_the_copies_stays(photos: Path, tmp_path: Path) -> None:
    def gone(**options: Any) -> list[str]:
        table = dsprep.dedup(photos, near=True, **options).table
        return sorted(table.filter(~pl.col("keep"))["path"])

    assert gone() == ["cat/0.png", "cat/again.jpg"]
    named = tmp_path / "named.csv"
    named.write_text("path\ncat/0.png\ncat/again.jpg\n")
    assert gone(keep=named) == ["cat/0.jpg", "cat/1.jpg"]
    named.write_text("path,keep\ncat/0.png,false\ncat/again.jpg,true\n")
    assert gone(keep=named) == ["cat/0.png", "cat/1.jpg"]
    small = encode(texture(5, (80, 60)), "PNG")
    order = write(tmp_path / "b", **{"a__1.png": small, "a__2.png": encode(texture(5), "PNG")})
    first, largest = (dsprep.dedup(order, near=True, keep=how) for how in ("first", "largest"))
    assert first.table["copy_of"].to_list() == [None, "a/1.png"]
    assert largest.table["copy_of"].to_list() == [None, "a/2.png"]


def test_names_that_tables_have_trouble_with(tmp_path: Path) -> None:
    names = ["a\tb", "new\nline", 'quo"te', " blank", "=cmd()", "<script>", "é猫", "a,b", "''"]
    root, table = tmp_path / "odd", tmp_path / "copies.tsv"
    for seed, name in enumerate(names):
        data = encode(texture(seed), "PNG")
        write(root, **{f"x__{name}.png": data, f"y__{name}.png": data})
    report = dsprep.dedup(root, output=table)
    assert len(report.sets) == report.conflicts == len(names)
    kept = dsprep.shard(
        root, tmp_path / "out", to="tfrecord", filter="copy_of IS NULL", filter_table=table
    )
    assert kept.samples == len(names)


def test_shards_with_the_same_keys(photos: Path, tmp_path: Path) -> None:
    shards = [tmp_path / name / "train" for name in "ab"]
    for place in shards:
        dsprep.pack(photos / "dog", place, to="webdataset", shuffle=False)
    table = tmp_path / "copies.tsv"
    report = dsprep.dedup(shards, output=table)
    assert report.copies == 2
    assert dsprep.shard(shards, tmp_path / "out", filter_table=table).samples == 2


def test_the_same_list_with_any_number_of_workers(photos: Path, run_here: RunCli) -> None:
    lists = {
        run_here("dedup", photos, "--near", "-o", "-", "-j", workers).out for workers in (1, 2)
    }
    assert len(lists) == 1
    (text,) = lists
    assert text.startswith("path\tside\tlabel\tset\tkeep\tcopy_of\tdistance\tconflict\n")
    assert len(text.splitlines()) == 7


def test_no_other_file_is_replaced(photos: Path, tmp_path: Path) -> None:
    table = tmp_path / "new" / "copies.tsv"
    dsprep.dedup(photos, output=table)
    with pytest.raises(DestinationError, match="exists; give --overwrite"):
        dsprep.dedup(photos, output=table)
    dsprep.dedup(photos, output=table, overwrite=True)
    mine = write(tmp_path, precious=b"my labels") / "precious"
    with pytest.raises(DestinationError, match="another file than a list of copies"):
        dsprep.dedup(photos, output=mine, overwrite=True)
    assert mine.read_bytes() == b"my labels"
    with pytest.raises(OptionError, match="cannot be written to S3"):
        dsprep.dedup(photos, output="s3://bucket/copies.tsv")


def test_images_on_s3(photos: Path, ceph: Bucket, run_here: RunCli, tmp_path: Path) -> None:
    for path, data in contents(photos).items():
        ceph.put(f"photos/{path}", data)
    lists = [tmp_path / "here.tsv", tmp_path / "there.tsv"]
    places = (photos, f"s3://{ceph.name}/photos")
    for place, table in zip(places, lists, strict=True):
        done = run_here(
            "dedup", place, "--near", "-o", table, env={"AWS_ENDPOINT_URL": ceph.endpoint}
        )
        assert done.code == 0, done.err
    assert lists[0].read_bytes() == lists[1].read_bytes()


def test_what_makes_no_sense_is_refused(photos: Path, tmp_path: Path, run_here: RunCli) -> None:
    with pytest.raises(OptionError, match="--near-distance 17: is not from 0 to 16"):
        dsprep.dedup(photos, near=True, near_distance=17)
    alone = run_here("dedup", photos, "--near-distance", "2")
    assert "--near-distance 2 has no effect: it says which images look alike" in alone.err
    table = tmp_path / "table.csv"
    table.write_text("path,split\ncat/0.jpg,train\n")
    with pytest.raises(OptionError, match="no column keep that holds true or false"):
        dsprep.pack(photos, tmp_path / "out", to="tfrecord", filter_table=table)
    table.write_text("path,keep\ncat/0.jpg,true\ncat/0.jpg,false\n")
    with pytest.raises(OptionError, match=r"names 'cat/0\.jpg' twice"):
        dsprep.pack(photos, tmp_path / "out", to="tfrecord", filter_table=table)


def test_copies_of_lower_quality_and_half_size_are_found(tmp_path: Path) -> None:
    files = {}
    for seed in range(9):
        image = texture(seed)
        half, low = io.BytesIO(), io.BytesIO()
        image.resize((80, 60)).save(half, "JPEG", quality=90)
        image.save(low, "JPEG", quality=50)
        files |= {f"a__{seed}.png": encode(image, "PNG")}
        files |= {f"a__{seed}h.jpg": half.getvalue(), f"a__{seed}q.jpg": low.getvalue()}
    report = dsprep.dedup(write(tmp_path / "images", **files), near=True)
    assert report.copies == 18
    assert all(len(each.samples) == 3 for each in report.sets)
