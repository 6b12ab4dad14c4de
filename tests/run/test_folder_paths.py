"""Files in class folders again: what they are called, where they lie, and what the listing says."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadSample, DestinationError, OptionError, SourceError
from dsprep.formats.base import Format
from dsprep.formats.folder import METADATA, Folder, harmless_path
from dsprep.formats.listing import File, Listed, read_listing
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.plan.destination import Destination
from dsprep.run.folder import _format_list, remove_folder
from dsprep.run.target import target_of
from dsprep.sample import Sample, key_of
from dsprep.schema import Field, Reading, Schema
from tests.images import image_folder, jpeg, png
from tests.run import folders

IMAGE = jpeg()

FIELDS = (
    Field("image", "image", missing=True),
    Field("label", "class", missing=True, names=("ant", "bee")),
    Field("text", "text", missing=True),
    Field("mask", "image", missing=True),
    Field("json", "json", missing=True),
    Field("image/object/mask", "bytes", missing=True),
)
SCHEMA = Schema(FIELDS, "image", "label")


def sample(key: str, data: bytes | None = IMAGE, id: int = 0, **more: Any) -> Sample:
    """A sample of the schema above."""
    names = "path", "class_name"
    fields = {name: value for name, value in more.items() if name not in names}
    fields = ({} if data is None else {"image": data}) | fields
    return Sample(key, fields, id, **{name: more[name] for name in names if name in more})


def folder(schema: Schema = SCHEMA, reencoded: bool = False) -> Folder:
    return Folder(reencoded).arranged(schema)[0]


def write_folder(root: Path, *units: Sequence[Sample], schema: Schema = SCHEMA) -> int:
    """Write samples to `root/back`, with a listing `root/back.files.jsonl`."""
    return folders.write_folder(root, folder(schema), *units)


def files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    assert not any(path.is_symlink() for path in paths)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def images(root: Path, *samples: Sample) -> list[str]:
    write_folder(root, samples)
    return [path for path in files(root / "back") if path != METADATA]


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (sample("0"), "0.jpg"),
        (sample("cat/a"), "cat/a.jpg"),
        (sample("bee/a", label=1), "bee/a.jpg"),
        (sample("x/bee/a", label=1), "x/bee/a.jpg"),
        (sample("bee/x/a", label=1), "bee/x/a.jpg"),
        (sample("cat/a", label=1), "bee/cat/a.jpg"),
        (sample("a", label=1), "bee/a.jpg"),
        (sample("a", label=1, class_name="wasp"), "wasp/a.jpg"),
        (sample("a", label=7), "7/a.jpg"),
        (sample("a", label=-1), "-1/a.jpg"),
        (sample("a", path="b.JPEG"), "b.JPEG"),
        (sample("a", path="b.JPEG", label=0), "ant/b.JPEG"),
        (sample("a", path="ant/b.JPEG", label=0), "ant/b.JPEG"),
        (sample("a", path="x/b"), "x/b.jpg"),
        (sample("a", path="x/.jpg"), "x/.jpg.jpg"),
        (sample("a", path="x/b.c.png"), "x/b.c.png"),
        (sample("Ünï/ねこ"), "Ünï/ねこ.jpg"),
        (sample("a b\n\tc"), "a b\n\tc.jpg"),
    ],
)
def test_names_come_from_file_names_keys_and_classes(
    tmp_path: Path, made: Sample, path: str
) -> None:
    assert images(tmp_path, made) == [path]
    (listed,) = read_listing(tmp_path / "back.files.jsonl")
    assert listed.wanted is None


def test_directories_count_for_a_class_without_a_name(tmp_path: Path) -> None:
    schema = Schema((FIELDS[0], Field("label", "class")), "image", "label")
    write_folder(tmp_path, [sample("a", label=4), sample("cat/b", label=4)], schema=schema)
    assert list(files(tmp_path / "back")) == ["4/a.jpg", "cat/b.jpg", METADATA]


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (sample("../../x"), "_/_/x.jpg"),
        (sample(".."), "_.jpg"),
        (sample("/etc/passwd"), "etc/passwd.jpg"),
        (sample("a//b/./c/"), "a/b/c.jpg"),
        (sample("a\0b"), "a_b.jpg"),
        (sample("a\udc80b"), "a_b.jpg"),
        (sample("a", path="../b.jpg"), "_/b.jpg"),
        (sample("a", path="/b.jpg"), "b.jpg"),
        (sample("a", path="cat/.."), "cat/_.jpg"),
        (sample("a", label=0, class_name=".."), "_/a.jpg"),
        (sample("a", label=0, class_name="."), "_/a.jpg"),
        (sample("a", label=0, class_name=""), "_/a.jpg"),
        (sample("a", label=0, class_name="../etc"), ".._etc/a.jpg"),
        (sample("a", label=0, class_name="x\0"), "x_/a.jpg"),
        (sample("n" * 300), "n" * 251 + ".jpg"),
        (sample("ね" * 100), "ね" * 83 + ".jpg"),
        (sample("d" * 300 + "/a"), "d" * 255 + "/a.jpg"),
        (sample("a", label=0, class_name="c" * 300), "c" * 255 + "/a.jpg"),
    ],
)
def test_hostile_names_are_made_harmless_and_told(tmp_path: Path, made: Sample, path: str) -> None:
    write_folder(tmp_path, [made])
    assert path in files(tmp_path / "back")
    (listed,) = read_listing(tmp_path / "back.files.jsonl")
    assert listed.wanted == (made.path or made.key)


@pytest.mark.parametrize(
    "made",
    [
        *map(sample, ["", "/", ".", "./.", "a/" * 65 + "b", ("d" * 200 + "/") * 16 + "b"]),
        sample("metadata", path="metadata.jsonl"),
    ],
)
def test_names_that_no_file_can_have_are_rejected(made: Sample) -> None:
    with pytest.raises(BadSample):
        folder().lay_out(made)


def test_other_parts_lie_beside_the_image() -> None:
    parts: dict[str, Any] = {
        "json": b"{}",
        "mask": png(),
        "image/object/mask": b"o",
        "text": "a cat",
    }
    listed, data = folder().lay_out(sample("k", path="ant/a.b.JPG", label=0, **parts))
    assert dict(zip([file.path for file in listed.files], data, strict=True)) == {
        "ant/a.b.JPG": IMAGE,
        "ant/a.b.json": b"{}",
        "ant/a.b.mask.png": png(),
        "ant/a.b.image%2fobject%2fmask": b"o",
    }
    assert (listed.stem, data[0]) == ("ant/a.b", IMAGE)
    assert listed.references == (("mask", ".mask.png"),)


def test_samples_without_an_image() -> None:
    sound = folder(Schema((Field("flac", "bytes"), Field("info", "json"))))
    for path, names in (
        ("", ["a.flac", "a.info.json"]),
        ("x/a.FLAC", ["x/a.FLAC", "x/a.info.json"]),
    ):
        listed, data = sound.lay_out(Sample("a", {"flac": b"f", "info": b"1"}, path=path))
        assert ([file.path for file in listed.files], data) == (names, [b"f", b"1"])


def test_bytes_are_not_called_what_they_are_not() -> None:
    layout = folder(Schema((Field("a.txt", "bytes"), Field("png", "bytes"), Field("npy", "bytes"))))
    listed, _ = layout.lay_out(Sample("k", {"a.txt": b"", "png": b"", "npy": b""}))
    assert [file.path for file in listed.files] == ["k.a.txt.bin", "k.png.bin", "k.npy"]


def test_nothing_to_write_is_a_reject() -> None:
    with pytest.raises(BadSample, match="nothing that could be a file"):
        folder().lay_out(sample("a", None, label=1))


def test_names_that_no_part_can_have() -> None:
    with pytest.raises(BadSample, match="longer than"):
        folder(Schema((Field("x" * 300, "bytes"),))).lay_out(Sample("a", {"x" * 300: b""}))
    for name in ("file_name", "mask_file_name", "image"):
        with pytest.raises(OptionError, match=f"--rename {name}=NAME or --drop {name}"):
            folder(Schema((Field(name, "text"),)))
    with pytest.raises(OptionError, match="--drop x"):
        folder(Schema((Field("x", "list<bytes>"),)))


def test_what_names_do_not_tell_is_metadata(tmp_path: Path) -> None:
    fields = (
        *FIELDS[:5],
        Field("n", "class", names=("u", "v")),
        Field("m", "class"),
        Field("score", "float32"),
        Field("boxes", "list<float64>"),
        Field("tags", "list<text>"),
        Field("ok", "bool"),
        Field("width", "int"),
    )
    schema = Schema(fields, "image", "label")
    others: dict[str, Any] = {"n": 1, "m": 3, "score": 0.10000000149011612, "boxes": (0.5, 2.0)}
    others |= {"tags": ("ä", "b"), "ok": True}
    units = [
        [sample("a", label=0, text="ä\n", mask=png(), json=b"[]", **others)],
        [sample("a", label=-1, **others), sample("bee/b", label=1, **others)],
    ]
    size = write_folder(tmp_path, *units, schema=schema)
    found = files(tmp_path / "back")
    assert size == sum(map(len, found.values()))
    told = '"n":"v","m":3,"score":0.1,"boxes":[0.5,2.0],"tags":["ä","b"],"ok":true}\n'
    assert found.pop(METADATA).decode() == (
        '{"file_name":"ant/a.jpg","label":"ant","mask_file_name":"ant/a.mask.png","text":"ä\\n",'
        + told
        + '{"file_name":"-1/a.jpg","label":"-1",'
        + told
        + '{"file_name":"bee/b.jpg","label":"bee",'
        + told
    )
    assert list(found) == ["-1/a.jpg", *("ant/a.jpg", "ant/a.json", "ant/a.mask.png"), "bee/b.jpg"]
    assert folder(schema) == Folder().arranged(schema)[0]
    assert Folder().arranged(schema)[1] == ["left out, because the images tell them: width"]
    listed = list(read_listing(tmp_path / "back.files.jsonl"))
    assert {file.path for each in listed for file in each.files} == {*found, METADATA}


@pytest.mark.parametrize(
    ("field", "value", "lines"),
    [
        (Field("label", "class", names=("ant", "bee")), 1, None),
        (Field("label", "class"), 1, None),
        (Field("label", "list<float32>"), (0.5, 1.0), None),
        (Field("label", "float32"), 0.5, None),
        (Field("label", "text"), "wasp", '"label":"wasp"'),
        (Field("y", "text"), "wasp", '"label":"wasp"'),
        (Field("y", "text", given=True), "wasp", '"y":"wasp"'),
    ],
)
def test_metadata_is_written_if_it_is_needed(
    tmp_path: Path, field: Field, value: Any, lines: str | None
) -> None:
    schema = Schema((FIELDS[0], field), "image", field.name)
    write_folder(tmp_path, [Sample("a", {"image": IMAGE, field.name: value})], schema=schema)
    found = files(tmp_path / "back").get(METADATA)
    told = None if lines is None else f'{{"file_name":"a.jpg",{lines}}}\n'.encode()
    assert found == told


def test_a_class_that_no_directory_tells_is_metadata(tmp_path: Path) -> None:
    write_folder(tmp_path, [sample("bee/x/a", label=1), sample("b")])
    assert files(tmp_path / "back")[METADATA].splitlines() == [
        b'{"file_name":"bee/x/a.jpg","label":"bee"}',
        b'{"file_name":"b.jpg"}',
    ]


def test_sides_have_metadata_of_their_own(tmp_path: Path) -> None:
    """Where datasets finds sides, it passes over what lies beside them."""
    samples = [
        sample("train/a", text="1"),
        sample("val-3", text="2", label=1, mask=png()),
        sample("x/test 2/a", text="3"),
        sample("b", text="4"),
        sample("train/b", text="5"),
        sample("latest-train", text="6"),
    ]
    write_folder(tmp_path, samples)
    found = files(tmp_path / "back")
    lines = [
        (path.removesuffix(METADATA) + line["file_name"], line["text"])
        for path, data in found.items()
        if path.endswith(METADATA)
        for line in map(json.loads, data.splitlines())
    ]
    assert sorted(lines, key=itemgetter(1)) == [
        ("train/a.jpg", "1"),
        ("val/bee/val-3.jpg", "2"),
        ("x/test 2/a.jpg", "3"),
        ("b.jpg", "4"),
        ("train/b.jpg", "5"),
        ("train/latest-train.jpg", "6"),
    ]
    assert {path for path in found if path.endswith(METADATA)} == {
        *(METADATA, f"train/{METADATA}", f"val/{METADATA}", f"x/test 2/{METADATA}")
    }
    assert b'"mask_file_name":"bee/val-3.mask.png"' in found[f"val/{METADATA}"]


@pytest.mark.parametrize(
    ("filename", "path"),
    [
        ("cat/a.png", "cat/a.jpg"),
        ("cat/a.JPEG", "cat/a.JPEG"),
        ("cat/a.dcm", "cat/a.dcm.jpg"),
        ("cat/a", "cat/a.jpg"),
    ],
)
def test_images_that_were_encoded_again_are_called_what_they_are(filename: str, path: str) -> None:
    made = sample("k", path=filename)
    for reencoded, expected in ((True, path), (False, filename if "." in filename else path)):
        listed, _ = folder(reencoded=reencoded).lay_out(made)
        assert listed.files[0].path == expected


def test_the_size_in_a_label_is_that_of_the_new_image() -> None:
    schema = Schema((FIELDS[0], Field("label", "list<float32>")), "image", "label")
    made = sample("a", jpeg(size=(20, 10)), label=(4.0, 5.0, 99.0, 99.0, 0.0, 0.0, 0.0, 1.0, 1.0))
    for reencoded, size in ((False, (99, 99)), (True, (20, 10))):
        listed, _ = folder(schema, reencoded).lay_out(made)
        assert listed.label == (4, 5, *size, 0, 0, 0, 1, 1)


@pytest.mark.parametrize(
    "names",
    [("a.jpg", "a.jpg"), ("a.b", "a.b/0.jpg"), ("a.b/0.jpg", "a.b"), ("n" * 300, "n" * 301)],
)
def test_equal_names_are_refused(tmp_path: Path, names: Sequence[str]) -> None:
    with pytest.raises(SourceError, match="has the file .* already.* --key index"):
        write_folder(tmp_path, *([sample("k", path=name)] for name in names))
    assert not (tmp_path / "back").exists()


def test_names_that_differ_only_in_case_are_two(tmp_path: Path) -> None:
    assert images(tmp_path, sample("a"), sample("A")) == ["A.jpg", "a.jpg"]


def test_the_listing_tells_sizes_checksums_and_labels(tmp_path: Path) -> None:
    write_folder(tmp_path, [sample("a", b"123456789", 7, label=1, text='"')])
    (listed,) = read_listing(tmp_path / "back.files.jsonl")
    file = File("bee/a.bin", 9, 0xE3069283)
    metadata = listed.files[1]
    assert listed == Listed(7, "a", 1, "bee", "bee/a", (file, metadata), None, '"text":"\\""', ())
    schema = Schema((FIELDS[0], Field("label", "list<float32>")), "image", "label")
    (tmp_path / "b").mkdir()
    write_folder(tmp_path / "b", [sample("b", b"", 8, label=(1.0, 0.5))], schema=schema)
    assert list(read_listing(tmp_path / "b" / "back.files.jsonl")) == [
        Listed(8, "b", (1.0, 0.5), None, "b", (File("b.bin", 0, 0),), None)
    ]


def test_the_list_of_a_folder() -> None:
    listed = [
        Listed(7, "a", 2, None, "2/a", (File("2/a.jpg", 1, 1),), None),
        Listed(5, "b", (1.0, 0.5), None, "b", (File("b.jpg", 1, 1),), None),
        Listed(6, "c", None, None, "c", (File("c.jpg", 1, 1),), None),
        Listed(9, "d", 0, None, "d\te", (File("d\te.jpg", 1, 1),), None),
    ]
    assert _format_list(listed) == "7\t2\t2/a.jpg\n5\t1\t0.5\tb.jpg\n"
    assert _format_list(listed[2:3]) == ""
    same = [each._replace(id=0) for each in listed]
    assert _format_list(same) == "0\t2\t2/a.jpg\n1\t1\t0.5\tb.jpg\n"


@pytest.mark.parametrize(
    "layout", [TFRecord(), WebDataset(metadata=True)], ids=["tfrecord", "webdataset"]
)
def test_a_folder_comes_back_from_shards_byte_for_byte(tmp_path: Path, layout: Format) -> None:
    image_folder(tmp_path / "images", ("cat", "dog", "pets/owl"))
    (tmp_path / "images/cat/b.x.JPEG").write_bytes(jpeg(9))
    (tmp_path / "images/dog/misnamed.jpg").write_bytes(png(1))
    before = files(tmp_path / "images")
    schema = Schema(FIELDS[:1], "image")
    arranged, _ = layout.arranged(schema)
    assert arranged.schema is not None
    samples = [
        Sample(key_of(path), {"image": data}, number, path)
        for number, (path, data) in enumerate(before.items())
    ]
    data = b"".join(part for each in samples for part in arranged.encode(each))
    data += arranged.trailer(len(data))
    raw = [entry.sample for entry in layout.read(ShardStream("shard", io.BytesIO(data)))]
    reading = Reading(arranged.schema, layout)
    write_folder(tmp_path, [reading(each) for each in raw], schema=schema)
    assert files(tmp_path / "back") == before


def test_only_what_was_written_is_removed(tmp_path: Path) -> None:
    samples = [sample(f"{name}/a") for name in ("x", "y", "z")]
    write_folder(tmp_path, samples)
    target = target_of(Destination(tmp_path, "back"))
    back, listing = tmp_path / "back", tmp_path / "back.files.jsonl"
    (back / "x/mine.txt").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    (back / "z").rename(elsewhere)
    (back / "z").symlink_to(elsewhere)
    remove_folder(target, [listing.name])
    assert [path.name for path in sorted(back.rglob("*"))] == ["x", "mine.txt", "z"]
    assert files(elsewhere) == {"a.jpg": IMAGE}
    listing.write_text('{"id":0,"key":"","stem":"","files":[{"path":"../x","bytes":0,"crc32c":0}]}')
    with pytest.raises(DestinationError, match="elsewhere"):
        remove_folder(target, [listing.name])


parts = st.sampled_from(["", ".", "..", "a", "b", "a.jpg", "_", "a_1", "x" * 300, "ね" * 99, "\0"])
paths = st.lists(parts, min_size=1, max_size=4).map("/".join) | st.text(max_size=20)
samples_of = st.builds(
    Sample,
    paths,
    st.fixed_dictionaries(
        {"image": st.binary(max_size=4)},
        optional={
            "label": st.integers(-1, 3),
            "json": st.binary(max_size=4),
            "text": st.text(),
            "image/object/mask": st.just(b"evil"),
        },
    ),
    st.integers(0, 9),
    paths | st.just(""),
    class_name=st.none() | parts,
)


@given(st.lists(samples_of, max_size=8))
def test_every_sample_is_rejected_refused_or_there(
    tmp_path_factory: pytest.TempPathFactory, samples: list[Sample]
) -> None:
    root = tmp_path_factory.mktemp("any")
    kept: list[list[Sample]] = []
    for made in samples:
        try:
            folder().lay_out(made)
        except BadSample:
            continue
        kept.append([made])
    try:
        size = write_folder(root, *kept)
    except SourceError:  # two have one name
        assert {path.name for path in root.iterdir()} == set()
        return
    found = files(root / "back")
    listed = list(read_listing(root / "back.files.jsonl"))
    assert {file.path for each in listed for file in each.files} == set(found)
    assert size == sum(map(len, found.values()))
    assert {path.name for path in root.iterdir()} == {"back", "back.files.jsonl"}
    for (made,), each in zip(kept, listed, strict=True):
        data = [value for value in made.fields.values() if isinstance(value, bytes)]
        own = [found[file.path] for file in each.files if not file.path.endswith(METADATA)]
        assert sorted(own) == sorted(data)


@given(st.text())
def test_harmless_paths_stay_what_they_are(path: str) -> None:
    try:
        plain = harmless_path(path)
    except BadSample:
        return
    assert harmless_path(plain) == plain
    assert not {"", ".", ".."}.intersection(plain.split("/"))
    plain.encode()
