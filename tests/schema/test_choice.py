"""Which fields are kept, and what a name that no field has leads to."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import dsprep
from dsprep.schema import Field, Schema
from tests.conftest import Finished
from tests.images import image_folder, jpeg
from tests.parquet_files import images, write_table

RunHere = Callable[..., Finished]


@pytest.fixture(scope="module")
def sources(run_here: RunHere, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fields")
    image_folder(root / "images", ("a", "b"), 1)
    for name in ("shard.tar", "records.tfrecord"):
        assert run_here("pack", root / "images", root / name, "-j1").code == 0
    return root


@pytest.mark.parametrize(
    ("source", "options", "note"),
    [
        ("images", ("--drop", "clss,label"), "--drop clss: no sample has this field"),
        ("shard.tar", ("--drop", "clss,label"), "--drop clss: no sample has this field"),
        (
            "shard.tar",
            ("--keep-fields", "mask.png", "--resize", "9"),
            "--keep-fields mask.png: no sample has this field",
        ),
    ],
)
def test_a_name_that_no_field_has_is_said(
    run_here: RunHere,
    sources: Path,
    tmp_path: Path,
    source: str,
    options: tuple[str, ...],
    note: str,
) -> None:
    args = (sources / source, tmp_path / "out", "--to", "parquet", "--dry-run", "--json", "-j1")
    assert note in json.loads(run_here("convert", *args, *options).out)["notes"]


def test_a_stream_says_it(sources: Path) -> None:
    notes: list[str] = []
    with (sources / "shard.tar").open("rb") as file:
        stream = dsprep.convert_stream(
            file,
            source="webdataset",
            to="tfrecord",
            drop=["clss"],
            rename={"cls": "y"},
            on_note=notes.append,
        )
        assert b"\x01y" in stream.read()
    assert notes == ["--drop clss: no sample has this field"]


@pytest.mark.parametrize("options", [("--drop", "image"), ("--only", "label")])
def test_images_are_not_left_out_of_image_files(
    run_here: RunHere, sources: Path, tmp_path: Path, options: tuple[str, str]
) -> None:
    done = run_here("convert", sources / "images", tmp_path / "x.tar", *options, "-j1")
    assert done.code == 2
    assert "--only and --drop leave no image" in done.err


@pytest.mark.parametrize("name", ["jpg", "image", "*"])
def test_the_image_goes_by_its_name_and_by_its_extensions(name: str) -> None:
    image = Field("image", "image", places=(("*",),))
    schema = Schema((image, Field("mask", "image", places=(("mask.*",),))), image="image")
    assert schema.named(name) == image
    assert schema.named("mask.png") == schema.named("mask") == schema.fields[1]


def test_a_column_that_is_dropped_is_there(run_here: RunHere, tmp_path: Path) -> None:
    columns = {"image": images([jpeg()]), "EventTime": [1.5]}
    source, dest = write_table(tmp_path / "x.parquet", columns), tmp_path / "x.tar"
    done = run_here("convert", source, dest, "--drop", "EventTime,minute", "--json", "-j1")
    assert json.loads(done.out)["notes"] == [
        "--drop minute: no sample has this field",
        "1 sample without labels",
    ]


@pytest.mark.parametrize("source", ["images", "shard.tar", "records.tfrecord"])
@pytest.mark.parametrize("to", ["x.parquet", "x.tar", "x.tfrecord"])
@pytest.mark.parametrize("options", [("--drop", "label")])
def test_without_labels_there_are_no_classes_and_verify_expects_none(
    run_here: RunHere, sources: Path, tmp_path: Path, source: str, to: str, options: tuple[str, str]
) -> None:
    dest = tmp_path / to
    done = run_here("convert", sources / source, dest, *options, "-j1")
    assert (done.code, done.err) == (0, "")
    assert "classes" not in done.out
    assert not (tmp_path / f"{to}.classes.txt").exists()
    assert b"image/class" not in dest.read_bytes()
    done = run_here("verify", dest, "--against", sources / source, "-j1")
    assert (done.code, "whole" in done.out) == (0, True), done.out + done.err


def test_a_renamed_label_is_verified(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    dest = tmp_path / "x.tar"
    options = ("--rename", "label=target", "-j1")
    assert run_here("convert", sources / "images", dest, *options).code == 0
    with tarfile.open(dest) as tar:
        assert sorted(tar.getnames())[:2] == ["a/000.jpg", "a/000.target.cls"]
    assert run_here("verify", dest, "--against", sources / "images", "-j1").code == 0


def test_what_a_preset_writes_is_not_a_field_of_the_source(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    dest, back = tmp_path / "x.tfrecord", tmp_path / "x.tar"
    call = ("convert", sources / "images", dest, "--features", "inception", "-j1")
    assert run_here(*call).code == 0
    assert b"image/class/synset" in dest.read_bytes()
    done = run_here("convert", dest, back, "-j1")
    assert (done.code, done.err) == (0, "")


def test_samples_of_parts_without_labels_have_no_classes(run_here: RunHere, tmp_path: Path) -> None:
    root = tmp_path / "in"
    image_folder(root, ("a", "b"), 1)
    (root / "a" / "000.txt").write_text("x")
    done = run_here("pack", root, tmp_path / "x.tar", "--parts", "--drop", "label", "-j1")
    assert (done.code, done.err, "classes" in done.out) == (0, "", False)
    assert not (tmp_path / "x.tar.classes.txt").exists()


def test_a_limit_of_no_pixels_is_a_limit(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(dsprep.SourceError, match="more than --max-pixels 0"):
        dsprep.pack(sources / "images", tmp_path / "x.tar", max_pixels=0, workers=1)


def test_samples_without_the_image_of_others_are_said(run_here: RunHere, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, data in (("a.jpg", jpeg()), ("b.img", jpeg()), ("c.jpg", jpeg())):
            (tmp_path / "file").write_bytes(data)
            tar.add(tmp_path / "file", name)
    options = ("--from", "webdataset", "-j1")
    done = run_here("convert", tmp_path / "x.tar", tmp_path / "out.tfrecord", *options)
    assert "1 of 3 samples looked at without the image 'image'; further images are img" in done.out


CASTS = {
    "list<int>": (["[101, 7]", " [1]\n"], [[101, 7], [1]], "[101, x]"),
    "list<float64>": (["[0.5, 7]", "[1e3]"], [[0.5, 7.0], [1000.0]], '["a"]'),
    "list<float32>": (["[0.5]", "2"], [[0.5], [2.0]], "[1e60]"),
    "int": (["3", "-4"], [3, -4], "3.5"),
    "float64": (["3", "0.1"], [3.0, 0.1], "three"),
    "bool": (["True", "0"], [True, False], "yes"),
    "json": (['{"a": 1}', "[]"], ['{"a": 1}', "[]"], "{"),
}


@pytest.mark.parametrize("kind", CASTS)
@pytest.mark.parametrize("via", ["parquet", "webdataset", "tfrecord"])
def test_a_field_gets_another_type(run_here: RunHere, tmp_path: Path, kind: str, via: str) -> None:
    texts, expected, wrong = CASTS[kind]
    path = write_table(tmp_path / "a.parquet", {"x": [*texts, wrong], "n": ["a", "b", "c"]})
    source: Path | str = path
    end = ("--no-image", "-j1", "-q")
    if via != "parquet":
        source = tmp_path / via
        assert run_here("convert", path, source, "--to", via, *end).code == 0
    told = ("--cast", f"x={kind}", "--max-errors", "1")
    done = run_here("convert", source, tmp_path / "o", "--to", "parquet", *told, *end)
    assert done.code == 3, done.err
    (reject,) = (tmp_path / "o/rejects.jsonl").read_text().splitlines()
    assert "the field 'x' is" in reject and repr(wrong)[1:-1] in json.loads(reject)["reason"]
    (made,) = (tmp_path / "o").glob("*.parquet")
    rows = pl.read_parquet(made).sort("n")
    assert rows["x"].to_list() == expected
    manifest = json.loads((tmp_path / "o/manifest.json").read_text())
    types = {each["name"]: each["type"] for each in manifest["schema"]["fields"]}
    assert types == {"x": kind, "n": "text"}
    done = run_here("verify", tmp_path / "o", "--against", source, "--no-image", "-j1")
    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("cast", "problem"),
    [
        ("x=ints", "--cast x=ints: choose one of bool, int, float32"),
        ("y=int", "--cast y=int: no sample of .* has this field; fields are image, x"),
        ("image=int", "--cast image=int: the field is an encoded image"),
        ("x", "write it as --cast FIELD=TYPE"),
    ],
)
def test_types_that_a_field_cannot_get(
    run_here: RunHere, tmp_path: Path, cast: str, problem: str
) -> None:
    path = write_table(tmp_path / "a.parquet", {"image": images([jpeg(1)]), "x": ["1"]})
    done = run_here("convert", path, tmp_path / "o", "--to", "webdataset", "--cast", cast)
    assert done.code == 2
    assert re.search(problem, done.err)


def test_a_stream_gives_another_type(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", {"x": ["[101, 7]", "[1]"]})
    dsprep.convert(path, tmp_path / "a.tfrecord", no_image=True)
    with (tmp_path / "a.tfrecord").open("rb") as source:
        cast = {"x": "list<int>"}
        made = dsprep.convert_stream(
            source, source="tfrecord", to="tfrecord", no_image=True, cast=cast
        ).read()
    (tmp_path / "b.tfrecord").write_bytes(made)
    dsprep.convert(tmp_path / "b.tfrecord", tmp_path / "b.parquet", no_image=True)
    assert pl.read_parquet(tmp_path / "b.parquet")["x"].to_list() == [[101, 7], [1]]
