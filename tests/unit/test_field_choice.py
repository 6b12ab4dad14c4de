"""Which fields are kept, and what a name that no field has leads to."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from tests.conftest import Finished
from tests.images import image_folder, jpeg, png
from tests.unit.parquet_files import images, write_table

RunHere = Callable[..., Finished]


@pytest.fixture(scope="module")
def sources(run_here: RunHere, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fields")
    image_folder(root / "images", ("a", "b"), 1)
    for name in ("shard.tar", "records.tfrecord", "columns.parquet"):
        assert run_here("pack", root / "images", root / name, "-j1").code == 0
    with tarfile.open(root / "other.tar", "w") as tar:
        for name, data in (("0.image", png()), ("0.cls", b"1"), ("1.image", jpeg())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return root


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("images", "tfrecord"),
        ("shard.tar", "parquet"),
        ("records.tfrecord", "webdataset"),
        ("columns.parquet", "webdataset"),
    ],
)
@pytest.mark.parametrize(
    ("options", "note"),
    [
        (("--drop", "clss,cls"), "--drop clss: no sample has this field"),
        (("--only", "image,x,y"), "--only x,y: no sample has these"),
        (
            ("--keep-fields", "mask.png", "--resize", "9"),
            "--keep-fields mask.png: no sample has this field",
        ),
        (("--map", "label=caption"), "--map label: no sample has this field"),
    ],
)
def test_a_name_that_no_field_has_is_said(
    run_here: RunHere,
    sources: Path,
    tmp_path: Path,
    source: str,
    to: str,
    options: tuple[str, ...],
    note: str,
) -> None:
    args = (sources / source, tmp_path / "out", "--to", to, "--dry-run", "--json", "-j1")
    assert note in json.loads(run_here("convert", *args, *options).out)["notes"]


def test_a_sample_in_which_no_field_is_called_image(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    shard = tmp_path / "new.tar"
    done = run_here("convert", sources / "other.tar", shard, "--map", "image=png", "-j1")
    assert (done.code, done.err) == (0, "")
    assert "note" not in done.out
    with tarfile.open(shard) as tar:
        assert sorted(tar.getnames()) == ["0.cls", "0.png", "1.png"]


def test_map_names_the_image_whatever_it_is_called(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    shard = tmp_path / "x.tar"
    done = run_here("convert", sources / "shard.tar", shard, "--map", "image=photo", "-j1")
    assert (done.code, "note" in done.out) == (0, False)
    with tarfile.open(shard) as tar:
        assert sorted(tar.getnames()) == ["a/000.cls", "a/000.photo", "b/000.cls", "b/000.photo"]


@pytest.mark.parametrize("options", [("--drop", "cls"), ("--only", "image")])
def test_labels_of_image_files_are_left_out(
    run_here: RunHere, sources: Path, tmp_path: Path, options: tuple[str, str]
) -> None:
    for name in ("x.tar", "y.tfrecord"):
        done = run_here("convert", sources / "images", tmp_path / name, *options, "-j1")
        assert (done.code, done.err) == (0, "")
        assert "classes" not in done.out
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert sorted(tar.getnames()) == ["a/000.jpg", "b/000.jpg"]
    assert b"image/class" not in (tmp_path / "y.tfrecord").read_bytes()


def test_images_are_not_left_out_of_image_files(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    done = run_here("convert", sources / "images", tmp_path / "x.tar", "--drop", "image", "-j1")
    assert done.code == 2
    assert "--only and --drop leave no image" in done.err


def test_a_column_that_is_dropped_is_there(run_here: RunHere, tmp_path: Path) -> None:
    columns = {"image": images([jpeg()]), "EventTime": [1.5], "hour": [None]}
    source, dest = write_table(tmp_path / "x.parquet", columns), tmp_path / "x.tar"
    done = run_here("convert", source, dest, "--drop", "EventTime,hour,minute", "--json", "-j1")
    assert json.loads(done.out)["notes"] == ["--drop minute: no sample has this field"]


def test_a_stream_says_it_at_its_end(sources: Path) -> None:
    notes: list[str] = []
    with (sources / "shard.tar").open("rb") as file:
        stream = dsprep.convert_stream(
            file,
            source="webdataset",
            to="tfrecord",
            drop=["clss"],
            rename={"cls": "y", "label": "z"},
            on_note=notes.append,
        )
        assert stream.read()
    assert notes == [
        "--drop clss: no sample has this field",
        "--map label: no sample has this field",
    ]


@pytest.mark.parametrize(
    ("to", "options"),
    [("tar", ("--drop", "jpg")), ("rec", ("--drop", "png")), ("tar", ("--only", "jpg,cls"))],
)
def test_no_kind_of_image_is_left_out_of_image_files(
    run_here: RunHere, tmp_path: Path, to: str, options: tuple[str, str]
) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "a" / "0.jpg").write_bytes(jpeg())
    (tmp_path / "in" / "a" / "1.PNG").write_bytes(png())
    done = run_here("convert", tmp_path / "in", tmp_path / f"x.{to}", *options, "-j1")
    assert done.code == 2
    assert f"leave no image of the kind {'jpg' if 'jpg' in options else 'png'}" in done.err


def test_the_kind_of_all_images_may_be_named(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jpg").write_bytes(png())  # which its name does not say
    dest = tmp_path / "x.tar"
    done = run_here("convert", tmp_path / "in", dest, "--only", "jpg", "--drop", "png", "-j1")
    assert (done.code, done.err) == (0, "")
    with tarfile.open(dest) as tar:
        assert tar.getnames() == ["0.png"]
    done = run_here("convert", sources / "images", dest, "--only", "jpg", "--overwrite", "--json")
    assert json.loads(done.out)["notes"] == [
        "2 samples without labels; to have labels, give --labels FILE or --list FILE, or put the "
        "images of each class into a directory of its own"
    ]
    with tarfile.open(dest) as tar:
        assert tar.getnames() == ["a/000.jpg", "b/000.jpg"]


@pytest.mark.parametrize("source", ["images", "shard.tar"])
@pytest.mark.parametrize(
    "options", [("--drop", "filename,width,class"), ("--only", "image,height")]
)
def test_what_a_format_adds_is_left_out(
    run_here: RunHere, sources: Path, tmp_path: Path, source: str, options: tuple[str, str]
) -> None:
    dest = tmp_path / "x.tfrecord"
    inception = ("--features", "inception", "-j1")
    assert run_here("convert", sources / source, dest, *options, *inception).code == 0
    data = dest.read_bytes()
    assert b"image/height" in data
    assert not any(name in data for name in (b"/width", b"class/text"))


def test_pack_leaves_out_file_names(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    dest = tmp_path / "x.tfrecord"
    done = run_here("pack", sources / "images", dest, "--drop", "filename,width", "--json", "-j1")
    assert json.loads(done.out)["notes"] == ["--drop width: no sample has this field"]
    assert b"image/filename" not in dest.read_bytes()
    assert run_here("verify", dest, "--against", sources / "images", "-j1").code == 0


@pytest.mark.parametrize("source", ["images", "shard.tar", "records.tfrecord"])
@pytest.mark.parametrize("to", ["x.parquet", "x.tar", "x.rec"])
def test_without_labels_there_are_no_classes_and_verify_expects_none(
    run_here: RunHere, sources: Path, tmp_path: Path, source: str, to: str
) -> None:
    dest = tmp_path / to
    done = run_here("convert", sources / source, dest, "--drop", "cls,class", "-j1")
    assert (done.code, done.err) == (0, "")
    assert "classes" not in done.out
    assert not (tmp_path / f"{to}.classes.txt").exists()
    done = run_here("verify", dest, "--against", sources / source, "-j1")
    assert (done.code, "whole" in done.out) == (0, True), done.out + done.err


def test_verify_knows_labels_under_another_name(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    dest = tmp_path / "x.tar"
    assert run_here("convert", sources / "images", dest, "--map", "cls=target", "-j1").code == 0
    assert run_here("verify", dest, "--against", sources / "images", "-j1").code == 0


def test_verify_still_sees_labels_that_should_not_be_there(
    run_here: RunHere, sources: Path, tmp_path: Path
) -> None:
    dest = tmp_path / "x.tar"
    assert run_here("convert", sources / "images", dest, "-j1").code == 0
    manifest = tmp_path / "x.tar.manifest.json"
    told = json.loads(manifest.read_text())
    told["options"]["fields"] = {"only": None, "dropped": ["cls"], "renamed": {}}
    manifest.write_text(json.dumps(told))
    done = run_here("verify", dest, "--against", sources / "images", "-j1")
    assert done.code == 3
    assert "has a label, and a/000.jpg has none" in done.out
    told["options"]["fields"] = {"dropped": "cls"}
    manifest.write_text(json.dumps(told))
    assert run_here("verify", dest, "-j1").code == 4


def test_samples_of_parts_without_labels_have_no_classes(run_here: RunHere, tmp_path: Path) -> None:
    root = tmp_path / "in"
    image_folder(root, ("a", "b"), 1)
    (root / "a" / "000.txt").write_text("x")
    done = run_here("pack", root, tmp_path / "x.tar", "--parts", "--drop", "cls", "-j1")
    assert (done.code, done.err, "classes" in done.out) == (0, "", False)
    assert not (tmp_path / "x.tar.classes.txt").exists()


@pytest.mark.usefixtures("lasting")
def test_a_limit_of_no_pixels_is_a_limit(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(dsprep.SourceError, match="more than --max-pixels 0"):
        dsprep.pack(sources / "images", tmp_path / "x.tar", max_pixels=0, workers=1)
