"""`verify --against` compares all fields of samples, in any format."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Finished
from tests.images import image_folder, jpeg, png, truncated

Run = Callable[..., Finished]
Samples = dict[str, dict[str, bytes]]

CLASSES = "cat\ndog\nowl\n"
ALL = ("webdataset", "tfrecord", "parquet", "folder")
FORMATS = (*ALL, "recordio", "recordio-protobuf")


def samples() -> Samples:
    return {
        f"s{number}": {
            "jpg": jpeg(number, size=(24, 16)),
            "cls": b"%d" % (number % 3),
            "txt": f"caption {number}".encode(),
            "mask.png": png(number, size=(24, 16)),
            "meta.json": b'{"box": [%d, 2]}' % number,
            "score.json": b"%d.5" % number,
        }
        for number in range(6)
    }


def write(directory: Path, found: Samples, classes: str = CLASSES) -> Path:
    """Write samples as somebody else's shard, with its class names beside it."""
    directory.mkdir()
    (directory / "classes.txt").write_text(classes)
    with tarfile.open(directory / "a.tar", "w") as tar:
        for key, members in found.items():
            for extension, data in members.items():
                info = tarfile.TarInfo(f"{key}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return directory


def swap_labels(found: Samples) -> None:
    found["s1"]["cls"], found["s2"]["cls"] = found["s2"]["cls"], found["s1"]["cls"]


def change_caption(found: Samples) -> None:
    found["s3"]["txt"] = b"caption 3."


def leave_mask_out(found: Samples) -> None:
    del found["s4"]["mask.png"]


def change_mask(found: Samples) -> None:
    found["s4"]["mask.png"] = png(9, size=(24, 16))


def encode_again(found: Samples) -> None:
    with Image.open(io.BytesIO(found["s0"]["jpg"])) as picture:
        written = io.BytesIO()
        picture.save(written, "jpeg", quality=50)
    found["s0"]["jpg"] = written.getvalue()


def change_json(found: Samples) -> None:
    found["s5"]["meta.json"] = found["s5"]["meta.json"].replace(b"2", b"3")


def leave_out(found: Samples) -> None:
    del found["s2"]


def add(found: Samples) -> None:
    found["s6"] = found["s1"] | {"jpg": jpeg(6, size=(24, 16))}


TAMPERING: dict[Callable[[Samples], None], list[tuple[str, str]]] = {
    swap_labels: [("s1", "its label is not that of s1"), ("s2", "its label is not that of s2")],
    change_caption: [("s3", "its field 'text' is not that of s3")],
    leave_mask_out: [("s4", "lacks the field 'mask' of s4")],
    change_mask: [("s4", "its field 'mask' is not that of s4")],
    encode_again: [("s0", "its image is not that of s0")],
    change_json: [("s5", "its field 'meta' is not that of s5")],
    leave_out: [("s2", "is in the source, but neither in a shard nor rejected")],
    add: [("s6", "the source holds no such sample")],
}
HELD = (swap_labels, encode_again, leave_out, add)
"""What RecordIO can hold, too."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("fields") / "source", samples())


def converted(run_here: Run, source: Path, dest: Path, format: str) -> Path:
    only = () if format in ALL else ("--only", "image,label")
    done = run_here("convert", source, dest, "--to", format, "-j", 1, *only)
    assert done.code == 0, done.out + done.err
    return dest


def problems(run_here: Run, dest: Path, source: Path, *options: object) -> list[tuple[str, str]]:
    done = run_here("verify", dest, "--against", source, "--json", "-j", 1, *options)
    assert done.code in (0, 3), done.err
    found = [(each["sample"], each["message"]) for each in json.loads(done.out)["problems"]]
    return sorted(found)  # a folder's are in the order of its paths


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_converted_is_the_source(
    run_here: Run, source: Path, tmp_path: Path, format: str
) -> None:
    dest = converted(run_here, source, tmp_path / "out", format)
    done = run_here("verify", dest, "--against", source, "-j", 1)
    assert (done.code, "whole" in done.out) == (0, True), done.out + done.err
    assert "note" not in done.out


@pytest.mark.parametrize("tamper", TAMPERING, ids=lambda each: each.__name__)
@pytest.mark.parametrize("format", FORMATS)
def test_a_change_is_found_and_named(
    run_here: Run, source: Path, tmp_path: Path, tamper: Callable[[Samples], None], format: str
) -> None:
    if format not in ALL and tamper not in HELD:
        return
    found = samples()
    tamper(found)
    dest = converted(run_here, write(tmp_path / "other", found), tmp_path / "out", format)
    told = problems(run_here, dest, source)
    if format == "recordio":  # its samples are known by their numbers
        told = [(sample and f"s{sample.removeprefix('s')}", message) for sample, message in told]
        if tamper is leave_out:
            told.remove(("s5", TAMPERING[leave_out][0][1]))
            assert {message.split(" of ")[0] for _, message in told} == {
                "its image and label are not those"
            }
            return
    assert told == TAMPERING[tamper]


@pytest.mark.parametrize("format", FORMATS)
def test_a_renamed_class_is_found(run_here: Run, source: Path, tmp_path: Path, format: str) -> None:
    other = write(tmp_path / "other", samples(), CLASSES.replace("dog", "dgo"))
    dest = converted(run_here, other, tmp_path / "out", format)
    (problem,) = problems(run_here, dest, source)
    assert problem == ("", "calls the class 1 'dgo', the source 'dog'")


@pytest.mark.parametrize("tamper", [swap_labels, leave_mask_out, change_json])
def test_what_was_copied_is_compared_as_well(
    run_here: Run, source: Path, tmp_path: Path, tamper: Callable[[Samples], None]
) -> None:
    run_here("shard", source, tmp_path / "same", "--shards", 2, "-j", 1)
    assert problems(run_here, tmp_path / "same", source) == []
    found = samples()
    tamper(found)
    run_here("shard", write(tmp_path / "other", found), tmp_path / "out", "--shards", 2, "-j", 1)
    assert problems(run_here, tmp_path / "out", source) == TAMPERING[tamper]


@pytest.mark.parametrize("format", ALL)
def test_after_a_transform_all_but_the_image_is_compared(
    run_here: Run, source: Path, tmp_path: Path, format: str
) -> None:
    how = ("--to", format, "--encode", "png", "--keep-fields", "mask,meta", "-j", 1)
    assert run_here("convert", source, tmp_path / "same", *how).code == 0
    assert problems(run_here, tmp_path / "same", source) == []
    found = samples()
    swap_labels(found)
    change_caption(found)
    other = write(tmp_path / "other", found)
    assert run_here("convert", other, tmp_path / "out", *how).code == 0
    assert problems(run_here, tmp_path / "out", source) == [
        *TAMPERING[swap_labels],
        *TAMPERING[change_caption],
    ]


def test_fields_that_were_dropped_or_renamed_are_known(
    run_here: Run, source: Path, tmp_path: Path
) -> None:
    how = ("--to", "tfrecord", "--drop", "mask", "--rename", "text=caption", "-j", 1)
    assert run_here("convert", source, tmp_path / "out", *how).code == 0
    assert problems(run_here, tmp_path / "out", source) == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("how", [("--drop", "label"), ("--rename", "label=target")])
def test_labels_may_be_gone_or_have_another_name(
    run_here: Run, photos: Path, tmp_path: Path, format: str, how: tuple[str, ...]
) -> None:
    dest = tmp_path / "out"
    done = run_here("convert", photos, dest, "--to", format, *how, "-j", 1)
    assert done.code == 0, done.err
    assert problems(run_here, dest, photos) == []
    if how[0] == "--rename":
        own, beside = dest / "manifest.json", tmp_path / "out.manifest.json"  # a folder's
        manifest = own if own.exists() else beside
        values = json.loads(manifest.read_text())
        values["options"]["fields"] = {"drop": ["label"]}
        manifest.write_text(json.dumps(values))
        found = problems(run_here, dest, photos)
        assert len(found) == 24
        assert all("has a label, and " in message for _, message in found)


def test_samples_that_were_rejected_are_not_missing(run_here: Run, tmp_path: Path) -> None:
    """Nobody knows the keys of records that are not read."""
    image_folder(tmp_path / "images", ("cat", "dog"), per_class=3)
    (tmp_path / "images" / "cat" / "001.jpg").write_bytes(truncated(jpeg(3)))
    first, second = tmp_path / "first", tmp_path / "second"
    how = ("--to", "tfrecord", "-j", 1)
    assert run_here("convert", tmp_path / "images", first, "--check", "none", *how).code == 0
    assert run_here("convert", first, second, "--check", "decode", *how).code == 3
    assert problems(run_here, second, first) == []


def test_a_field_of_the_source_that_the_shards_lack_is_a_problem(
    run_here: Run, source: Path, tmp_path: Path
) -> None:
    found = samples()
    for members in found.values():
        del members["mask.png"]
    dest = converted(run_here, write(tmp_path / "other", found), tmp_path / "out", "tfrecord")
    assert problems(run_here, dest, source) == [("", "has no field 'mask', and the source has")]


def test_labels_of_another_list_are_hinted_at(run_here: Run, tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for number in range(30):
        (images / f"{number:02d}.jpg").write_bytes(jpeg(number, size=(8, 8)))
    rows = "".join(f"{number:02d}.jpg,{number + 1}\n" for number in range(30))
    (tmp_path / "labels.csv").write_text("path,label\n" + rows)
    told = ("--labels", tmp_path / "labels.csv")
    run_here("pack", images, tmp_path / "out", "--format", "tfrecord", *told, "-j", 1)
    assert problems(run_here, tmp_path / "out", images, *told) == []
    done = run_here("verify", tmp_path / "out", "--against", images, "-j", 1)
    assert done.code == 3
    assert "note      all labels differ: pass the --labels, --list or --label-field that" in (
        done.out
    )
    assert done.out.count("has a label, and") == 20
    assert "and 10 more; --json lists them all" in done.out


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("tfrecord", "its class 1 is called 'dog', and it is 'dgo' in the manifest"),
        ("parquet", "calls the class 1 'dog', and it is 'dgo' in the manifest"),
    ],
)
def test_names_in_shards_are_those_of_the_manifest(
    run_here: Run, source: Path, tmp_path: Path, format: str, message: str
) -> None:
    dest = converted(run_here, source, tmp_path / "out", format)
    path = dest / "manifest.json"
    path.write_text(path.read_text().replace('"dog"', '"dgo"'))
    done = run_here("verify", dest, "--json", "-j", 1)
    assert {each["message"] for each in json.loads(done.out)["problems"]} == {message}
    assert "calls the class 1 'dgo', the source 'dog'" in {
        message for _, message in problems(run_here, dest, source)
    }


def test_two_lists_of_classes_in_a_manifest_are_one(
    run_here: Run, source: Path, tmp_path: Path
) -> None:
    dest = converted(run_here, source, tmp_path / "out", "webdataset")
    values = json.loads((dest / "manifest.json").read_text())
    values["classes"][1] = "dgo"
    (dest / "manifest.json").write_text(json.dumps(values))
    assert ("", "names other classes than its field 'label'") in problems(run_here, dest, source)
