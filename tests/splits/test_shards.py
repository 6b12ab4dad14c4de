"""``split --to``: the sides that lists would have, as shards of any source."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import Interrupted, OptionError
from tests.conftest import Finished
from tests.images import image_folder, jpeg
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]

RATIOS = {"train": 0.75, "val": 0.25}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    image_folder(tmp_path / "photos", ("birds/owl", "cat", "dog"), 12)
    return tmp_path / "photos"


def as_folder(photos: Path, where: Path) -> dict[str, Any]:
    return {"sources": photos}


def as_archive(photos: Path, where: Path) -> dict[str, Any]:
    return {"sources": shutil.make_archive(str(where / "a"), "zip", photos)}


def as_list(photos: Path, where: Path) -> dict[str, Any]:
    dsprep.create_list(photos, where / "all.lst")
    return {"sources": where / "all.lst", "root": photos}


def as_table(photos: Path, where: Path) -> dict[str, Any]:
    paths = sorted(path.relative_to(photos) for path in photos.glob("**/*.jpg"))
    lines = [f"{path},{path.parent},{path.stem[-1]}" for path in paths]
    (where / "t.csv").write_text("\n".join(["path,label,patient", *lines]) + "\n")
    return {"sources": photos, "labels": where / "t.csv", "label_columns": ["label"]}


def as_shards(photos: Path, where: Path) -> dict[str, Any]:
    dsprep.pack(photos, where / "before", to="webdataset", shards=3)
    return {"sources": where / "before"}


SOURCES = {each.__name__: each for each in (as_folder, as_archive, as_list, as_table, as_shards)}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def keys_of(shards: str, where: Path) -> list[str]:
    """The keys of the samples of some shards, as a list has them."""
    dsprep.create_list(shards, where)
    lines = where.read_text().splitlines()
    where.unlink()
    return sorted(line.split("\t")[-1].rpartition("/")[2] for line in lines)


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_shards_have_the_sides_that_lists_have(photos: Path, tmp_path: Path, make: Any) -> None:
    source: Mapping[str, Any] = make(photos, tmp_path)
    lists = dsprep.split(**source, out=tmp_path / "lists", ratios=RATIOS, seed=3)
    out = tmp_path / "out"
    report = dsprep.split(**source, out=out, ratios=RATIOS, seed=3, to="webdataset", shards=2)
    assert report.written is not None
    assert (report.state, report.classes, report.method) == ("split", lists.classes, lists.method)
    assert report.written.sides == {"train": 27, "val": 9}
    assert [(each.name, each.samples) for each in report.lists] == [("train", 27), ("val", 9)]
    assert (out / "classes.txt").read_text() == "birds/owl\ncat\ndog\n"
    assert len([*out.glob("*manifest.json")]) == 1
    for side, path in ((each.name, each.path) for each in report.lists):
        assert path == f"{out}/{side}-*.tar"
        lines = (tmp_path / "lists" / f"{side}.lst").read_text().splitlines()
        named = sorted(line.split("\t")[-1].rpartition("/")[2] for line in lines)
        found = [name.removesuffix(".jpg") for name in keys_of(path, tmp_path / "x.lst")]
        assert found == [name.removesuffix(".jpg") for name in named]
    if make is not as_list:
        assert not dsprep.verify(out, against=dsprep.Source(str(source["sources"]))).problems


@pytest.mark.parametrize("make", [as_folder, as_shards])
def test_the_bytes_are_those_of_pack_with_any_workers(
    photos: Path, tmp_path: Path, make: Any
) -> None:
    source = make(photos, tmp_path)
    for workers in (1, 2, 3):
        out = tmp_path / f"out{workers}"
        dsprep.split(**source, out=out, ratios=RATIOS, to="tfrecord", shards=2, workers=workers)
        assert contents(out) == contents(tmp_path / "out1")
    dsprep.pack(
        **source, dest=tmp_path / "pack", to="tfrecord", shards=2, split="train=0.75,val=0.25"
    )
    assert contents(tmp_path / "pack") == contents(tmp_path / "out1")
    alone = tmp_path / "alone"
    report = dsprep.split(**source, out=alone, ratios=RATIOS, to="tfrecord", shards=2, apart=True)
    assert [each.path for each in report.lists] == [
        f"{alone}/{side}-*.tfrecord" for side in ("train", "val")
    ]
    shards = {name: data for name, data in contents(tmp_path / "pack").items() if "-0" in name}
    assert contents(alone) == shards
    assert not dsprep.verify(alone).problems
    with pytest.raises(OptionError, match="lists have no manifest; give --to FORMAT"):
        dsprep.split(**source, out=tmp_path / "lists", apart=True)


def test_the_same_command_continues_and_another_is_refused(
    photos: Path, tmp_path: Path, run_here: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("split", photos, "-o", tmp_path / "out", "--to", "webdataset", "--shards", "2")
    planned = json.loads(run_here(*command, "--dry-run", "--json").out)
    assert (planned["state"], (tmp_path / "out").exists()) == ("planned", False)
    assert planned["written"]["sides"] == {"train": 29, "val": 4, "test": 3}
    assert run_here(*command).code == 0
    expected = contents(tmp_path / "out")
    assert "36 samples already split" in run_here(*command).out
    done = run_here(*command, "--ratio", "train=0.5,val=0.5")
    assert (done.code, "another command wrote" in done.err) == (5, True)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        patch.setattr("dsprep.run.write.commit", stop)
        with pytest.raises(Interrupted, match="6 of 6 shards are written"):
            dsprep.split(photos, out, to="webdataset", shards=2)
    (out / "val-000001.tar").unlink()
    assert dsprep.split(photos, out, to="webdataset", shards=2).state == "continued"
    assert contents(out) == expected


def test_from_s3_to_s3(
    photos: Path, tmp_path: Path, ceph: Bucket, run_here: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    options = ("--to", "webdataset", "--ratio", "train=0.75,val=0.25", "--shards", "2")
    assert run_here("split", photos, "-o", tmp_path / "out", *options).code == 0
    for path in photos.glob("**/*.jpg"):
        ceph.put(f"photos/{path.relative_to(photos)}", path.read_bytes())
    dest = f"{ceph.url}/out/"
    for state in ("split", "already split"):
        done = run_here("split", f"{ceph.url}/photos", "-o", dest, *options)
        assert (done.code, f"{dest}: 36 samples {state}" in done.out) == (0, True), done.err
    expected = contents(tmp_path / "out")
    assert ceph.contents("out/") == expected
    # Sides of shards on S3 stay.
    done = run_here("split", dest, "-o", f"{ceph.url}/again/", "--to", "tfrecord", "--json")
    assert json.loads(done.out)["written"]["sides"] == {"train": 27, "val": 9}
    assert run_here("verify", f"{ceph.url}/again/").code == 0
    done = run_here("split", photos, "-o", dest)
    assert (done.code, "--to FORMAT writes shards" in done.err) == (2, True)


def test_a_column_tells_sides_and_groups(photos: Path, tmp_path: Path) -> None:
    source = as_table(photos, tmp_path)
    out = tmp_path / "groups"
    report = dsprep.split(**source, out=out, ratios=RATIOS, to="recordio", group="patient")
    assert report.groups == 10
    named = {
        side: {line[-5] for line in (out / f"{side}-00000.lst").read_text().splitlines()}
        for side in RATIOS
    }
    assert not named["train"] & named["val"]
    paths = sorted(str(path.relative_to(photos)) for path in photos.glob("**/*.jpg"))
    rows = [f"{path},{'b' if number % 3 else 'a'}" for number, path in enumerate(paths)]
    (tmp_path / "folds.csv").write_text("path,split\n" + "\n".join(rows))
    report = dsprep.split(photos, tmp_path / "o", to="webdataset", assign=tmp_path / "folds.csv")
    assert report.written is not None
    assert report.written.sides == {"a": 12, "b": 24}


def test_copies_stay_together_or_are_reported(photos: Path, tmp_path: Path) -> None:
    for number in range(15):
        (photos / "cat" / f"copy{number}.jpg").write_bytes(jpeg(99, (16, 16)))
    together = dsprep.split(photos, tmp_path / "a", to="webdataset", leaks="together")
    assert not together.leaks
    report = dsprep.split(photos, tmp_path / "b", to="webdataset", leaks="report")
    assert len(report.leaks) == 1


def test_a_sample_that_is_rejected_is_said(photos: Path, tmp_path: Path, run_here: RunCli) -> None:
    (photos / "cat" / "bad.jpg").write_bytes(b"no image")
    done = run_here("split", photos, "-o", tmp_path / "out", "--to", "webdataset")
    assert (done.code, "cat/bad.jpg" in done.out) == (3, True)
    report = json.loads(
        run_here("split", photos, "-o", tmp_path / "out", "--to", "webdataset", "--json").out
    )
    assert [each["path"] for each in report["rejects"]] == ["cat/bad.jpg"]


def test_what_shards_have_no_place_for_is_refused(photos: Path, tmp_path: Path) -> None:
    for options in ({"folds": 3}, {"materialize": "copy"}):
        with pytest.raises(OptionError, match="shards have sides"):
            dsprep.split(photos, tmp_path / "o", to="webdataset", **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="give --to FORMAT"):
        dsprep.split(photos, tmp_path / "o", shards=3)
    with pytest.raises(OptionError, match="--shards 4: the side test has 3 samples"):
        dsprep.split(photos, tmp_path / "o", to="webdataset", shards=4)
    source = as_list(photos, tmp_path)
    with pytest.raises(OptionError, match="--to needs the files: give --root"):
        dsprep.split(source["sources"], tmp_path / "o", to="webdataset")


# Sides that a source has


@pytest.fixture
def official(tmp_path: Path) -> Path:
    first = 0
    for side, count in (("train", 20), ("valid", 4), ("test", 6)):
        for name in ("cat", "dog"):
            directory = tmp_path / "official" / side / name
            directory.mkdir(parents=True)
            for number in range(count):
                (directory / f"{number:03}.jpg").write_bytes(jpeg(first := first + 1, (16, 16)))
    return tmp_path / "official"


def test_sides_of_the_source_stay(official: Path, tmp_path: Path) -> None:
    report = dsprep.split(official, tmp_path / "lists")
    assert report.method == f"as {official} has them"
    assert [(each.name, each.samples) for each in report.lists] == [
        *(("train", 40), ("valid", 8), ("test", 12))
    ]
    for side in ("train", "valid", "test"):
        lines = (tmp_path / "lists" / f"{side}.lst").read_text().splitlines()
        assert all(f"\t{side}/" in line for line in lines)
    assert (tmp_path / "lists" / "classes.txt").read_text() == "cat\ndog\n"
    tree = dsprep.split(official, tmp_path / "tree", materialize="symlink")
    assert tree.samples == len([*(tmp_path / "tree").glob("*/[cd]*/*.jpg")]) == 60


@pytest.mark.parametrize("options", [{"group": "x"}, {"stable": True}, {"seed": 1}])
def test_what_would_divide_them_needs_shares(
    official: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(OptionError, match="SOURCE has sides, which stay as they are"):
        dsprep.split(official, tmp_path / "lists", **options)


def test_cross_validation_takes_one_side(official: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"name the one to divide, {official}/train"):
        dsprep.split(official, tmp_path / "lists", folds=5)
    report = dsprep.split(official / "train", tmp_path / "lists", folds=5)
    assert report.samples == 40


@pytest.mark.parametrize("to", [None, "webdataset"])
def test_shares_divide_the_sides_that_they_name(
    official: Path, tmp_path: Path, to: str | None
) -> None:
    shutil.copyfile(official / "train/cat/000.jpg", official / "test/cat/again.jpg")
    shares = {"train": 0.75, "val": 0.25}
    report = dsprep.split(
        official, tmp_path / "out", ratios=shares, to=to, leaks="together", group="([0-9]+|again)"
    )
    counts = {each.name: each.samples for each in report.lists}
    assert (counts["test"], counts["train"] + counts["val"]) == (13, 48)
    assert [each.name for each in report.lists] == ["train", "val", "test"]
    assert [{path for _, path in leak.samples} for leak in report.leaks] == [
        {"test/cat/again.jpg", "train/cat/000.jpg"}  # which no shares can help
    ]
    every = dsprep.split(official, tmp_path / "all", to=to)
    assert [each.samples for each in every.lists] == [40, 8, 13]


def test_all_sides_are_divided_if_the_shares_name_them(official: Path, tmp_path: Path) -> None:
    shares = {"train": 0.5, "val": 0.25, "test": 0.25}
    report = dsprep.split(official, tmp_path / "out", ratios=shares)
    assert [each.samples for each in report.lists] == [30, 15, 15]
    assert all(facts.off < 1 for facts in report.classes)
    assert f"divided again: train, valid, test of {official}" in report.notes
