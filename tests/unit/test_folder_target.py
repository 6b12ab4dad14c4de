"""Files in class folders again: what they are called, where they lie, and what the listing says."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadSample, DestinationError, RunStopped
from dsprep.formats.base import Format
from dsprep.formats.filenames import harmless_path
from dsprep.formats.folder import Folder, lay_out
from dsprep.formats.listing import LISTING, File, Listed, read_listing
from dsprep.formats.recordio import RecordIO
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.running.names import Names, format_list
from dsprep.running.tree import Joined, is_whole, join_tree, publish_tree, remove_tree
from dsprep.sample import Blobs, Floats, Ints, Sample
from tests.images import image_folder, jpeg, png


def write_units(scratch: Path, units: Sequence[Sequence[Sample]]) -> list[tuple[Path, int]]:
    """Write each run of samples as a worker does."""
    scratch.mkdir(exist_ok=True)
    written = []
    for number, samples in enumerate(units):
        writer = Folder().open_writer(str(scratch / f"unit-{number}"))
        for sample in samples:
            writer.add(sample)
        writer.finish()
        writer.close()
        written.append((scratch / f"unit-{number}", writer.crc32c))
    return written


def write_folder(root: Path, *units: Sequence[Sample]) -> Joined:
    """Write samples to `root/back`, with a listing `root/back.files.jsonl`."""
    written = write_units(root / "scratch", units)
    joined = join_tree(written, root / "scratch" / "tree", root / "back.files.jsonl")
    publish_tree(root / "scratch" / "tree", root / "back")
    return joined


def files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if not path.is_dir())
    assert not any(path.is_symlink() for path in paths)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def names(root: Path, *samples: Sample) -> list[str]:
    write_folder(root, samples)
    return list(files(root / "back"))


IMAGE = jpeg()


@pytest.mark.parametrize(
    ("key", "fields", "path"),
    [
        ("0", {}, "0.jpg"),
        ("cat/a", {}, "cat/a.jpg"),
        ("cat/a", {"class": "dog", "cls": 1}, "cat/a.jpg"),
        ("a", {"class": "dog", "cls": 1}, "dog/a.jpg"),
        ("a", {"cls": 1}, "1/a.jpg"),
        ("a", {"label": (1.0, 2.0)}, "a.jpg"),
        ("a", {"filename": "b.JPEG"}, "b.JPEG"),
        ("a", {"filename": "b.JPEG", "cls": 3}, "3/b.JPEG"),
        ("a", {"filename": "cat/b.JPEG", "class": "dog", "cls": 1}, "cat/b.JPEG"),
        ("a", {"filename": "", "class": "dog"}, "dog/a.jpg"),
        ("a", {"filename": "x/b"}, "x/b"),
        ("a", {"filename": "x/.jpg"}, "x/.jpg"),
        ("a", {"filename": "x/b.c.png"}, "x/b.c.png"),
        ("Ünï/ねこ", {}, "Ünï/ねこ.jpg"),
        ("a b\n\tc", {}, "a b\n\tc.jpg"),
    ],
)
def test_names_come_from_file_names_keys_and_classes(
    tmp_path: Path, key: str, fields: dict[str, int], path: str
) -> None:
    assert names(tmp_path, Sample(key, {"jpg": IMAGE, **fields})) == [path]
    (listed,) = read_listing(tmp_path / "back.files.jsonl")
    assert listed.wanted is None


@pytest.mark.parametrize(
    ("key", "fields", "path"),
    [
        ("../../x", {}, "_/_/x.jpg"),
        ("..", {}, "_.jpg"),
        ("/etc/passwd", {}, "etc/passwd.jpg"),
        ("a//b/./c/", {}, "a/b/c.jpg"),
        ("a\0b", {}, "a_b.jpg"),
        ("a\udc80b", {}, "a_b.jpg"),
        ("a", {"filename": "../b.jpg"}, "_/b.jpg"),
        ("a", {"filename": "/b.jpg"}, "b.jpg"),
        ("a", {"filename": "cat/.."}, "cat/_"),
        ("a", {"class": ".."}, "_/a.jpg"),
        ("a", {"class": "."}, "_/a.jpg"),
        ("a", {"class": ""}, "_/a.jpg"),
        ("a", {"class": "../etc"}, ".._etc/a.jpg"),
        ("a", {"class": "x\0"}, "x_/a.jpg"),
        ("n" * 300, {}, "n" * 251 + ".jpg"),
        ("ね" * 100, {}, "ね" * 83 + ".jpg"),
        ("d" * 300 + "/a", {}, "d" * 255 + "/a.jpg"),
        ("a", {"class": "c" * 300}, "c" * 255 + "/a.jpg"),
    ],
)
def test_hostile_names_are_made_harmless_and_told(
    tmp_path: Path, key: str, fields: dict[str, str], path: str
) -> None:
    joined = write_folder(tmp_path, [Sample(key, {"jpg": IMAGE, **fields})])
    assert list(files(tmp_path / "back")) == [path]
    assert joined.renamed == 1
    assert joined.examples == [(fields.get("filename", key), path)]


@pytest.mark.parametrize(
    "key", ["", "/", ".", "./.", "a/" * 65 + "b", ("d" * 200 + "/") * 16 + "b"]
)
def test_names_that_no_file_can_have_are_rejected(tmp_path: Path, key: str) -> None:
    writer = Folder().open_writer(str(tmp_path / "unit"))
    with pytest.raises(BadSample):
        writer.add(Sample(key, {"jpg": IMAGE}))
    writer.finish()
    writer.close()
    assert files(tmp_path / "unit") == {LISTING: b""}


def test_other_parts_lie_beside_the_image() -> None:
    fields = {"jpg": IMAGE, "txt": b"a cat", "mask.png": b"m", "image/object/mask": b"o", "cls": 1}
    layout = lay_out(Sample("k", {**fields, "filename": "cat/a.b.JPG", "class": "cat"}))
    assert [layout.stem + ending for ending, _ in layout.files] == [
        "cat/a.b.JPG",
        "cat/a.b.txt",
        "cat/a.b.mask.png",
        "cat/a.b.image%2fobject%2fmask",
    ]
    assert [data for _, data in layout.files] == [IMAGE, b"a cat", b"m", b"o"]


def test_samples_without_an_image() -> None:
    layout = lay_out(Sample("a", {"flac": b"f", "txt": b"t", "cls": 0}))
    assert (layout.stem, layout.files) == ("0/a", [(".flac", b"f"), (".txt", b"t")])
    layout = lay_out(Sample("a", {"flac": b"f", "txt": b"t", "filename": "x/a.FLAC"}))
    assert (layout.stem, layout.files) == ("x/a", [(".FLAC", b"f"), (".txt", b"t")])


def test_what_is_no_file_and_told_nowhere_else_stands_in_a_file_of_its_own() -> None:
    fields = {"jpg": IMAGE, "cls": 1, "label": (0.5,), "n": Ints((1, 2)), "f": Floats((0.1, 2.0))}
    layout = lay_out(Sample("a", {**fields, "e": Floats(), "b": Blobs((b"x", b"\xff"))}))
    assert layout.files[1] == (".label.json", b"[0.5]")
    assert layout.files[2][0] == ".features.json"
    assert json.loads(layout.files[2][1]) == {
        "b": {"base64": ["eA==", "/w=="]},
        "e": {"floats": []},
        "f": [0.1, 2.0],
        "n": [1, 2],
    }


def test_width_and_height_are_told_by_the_image() -> None:
    right = {"jpg": jpeg(size=(20, 10)), "width": 20, "height": 10}
    assert len(lay_out(Sample("a", right)).files) == 1
    wrong = lay_out(Sample("a", {**right, "width": 40}))
    assert wrong.files[1] == (".features.json", b'{"width":[40]}')


def test_no_part_has_a_name_that_means_a_directory() -> None:
    with pytest.raises(BadSample, match="no file's"):
        lay_out(Sample("a", {"jpg": IMAGE, "": b"no name", "filename": "cat/..jpg"}))


def test_nothing_to_write_is_a_reject() -> None:
    with pytest.raises(BadSample, match="nothing that could be a file"):
        lay_out(Sample("a", {"cls": 1}))


def test_two_images_of_which_one_has_the_name_of_the_other() -> None:
    layout = lay_out(Sample("a", {"jpg": IMAGE, "png": b"p", "filename": "b.png"}))
    assert layout.files == [(".jpg", IMAGE), (".png", b"p")]


def test_parts_of_one_name_are_a_reject() -> None:
    fields = {"jpg": IMAGE, "features.json": b"{}", "n": Ints((1,))}
    with pytest.raises(BadSample, match="one name"):
        lay_out(Sample("a", fields))
    with pytest.raises(BadSample, match="longer than"):
        lay_out(Sample("a", {"x" * 300: b""}))


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
    sample = Sample("k", {"jpg": IMAGE, "filename": filename})
    layout = lay_out(sample, reencoded=True)
    assert layout.stem + layout.files[0][0] == path
    kept = lay_out(sample)
    assert kept.stem + kept.files[0][0] == filename


def test_equal_names_get_numbers_and_are_told(tmp_path: Path) -> None:
    def sample(number: int, **fields: bytes) -> Sample:
        return Sample("a", {"jpg": bytes([number]), **fields}, number)

    first = [sample(0, txt=b"zero"), sample(1), Sample("a_1", {"jpg": b"mine"})]
    joined = write_folder(tmp_path, first, [sample(2, txt=b"two")])
    assert files(tmp_path / "back") == {
        "a.jpg": b"\0",
        "a.txt": b"zero",
        "a_1.jpg": b"\1",
        "a_1_1.jpg": b"mine",
        "a_2.jpg": b"\2",
        "a_2.txt": b"two",
    }
    assert joined.examples == [("a.jpg", "a_1.jpg"), ("a_1.jpg", "a_1_1.jpg"), ("a.jpg", "a_2.jpg")]
    assert (joined.samples, joined.files, joined.renamed) == (4, 6, 3)


def test_names_that_differ_only_in_case_are_two(tmp_path: Path) -> None:
    assert names(tmp_path, Sample("a", {"jpg": b"1"}), Sample("A", {"jpg": b"2"})) == [
        "A.jpg",
        "a.jpg",
    ]


def test_long_names_have_room_for_a_number(tmp_path: Path) -> None:
    same = [Sample("n" * 300, {"jpg": bytes([n])}) for n in range(12)]
    found = names(tmp_path, *same)
    assert len(found) == 12
    assert max(map(len, found)) == 255


@pytest.mark.parametrize("file_first", [True, False])
def test_a_file_and_a_directory_of_one_name(tmp_path: Path, file_first: bool) -> None:
    file = Sample("0", {"jpg": b"file", "filename": "a"})
    inside = [Sample("0", {"jpg": b"in", "filename": f"a/{n}.jpg"}) for n in range(2)]
    write_folder(tmp_path, [file, *inside] if file_first else [*inside, file])
    if file_first:
        assert list(files(tmp_path / "back")) == ["a", "a_1/0.jpg", "a_1/1.jpg"]
    else:
        assert list(files(tmp_path / "back")) == ["a/0.jpg", "a/1.jpg", "a_1"]


def test_the_listing_tells_sizes_checksums_and_labels(tmp_path: Path) -> None:
    samples = [
        Sample("a", {"jpg": b"123456789", "cls": 2, "class": "cat"}, 7),
        Sample("b", {"jpg": b"", "label": (1.0, 0.5)}, 8),
    ]
    write_folder(tmp_path, samples)
    assert list(read_listing(tmp_path / "back.files.jsonl")) == [
        Listed(7, "a", 2, "cat", "cat/a", (File("cat/a.jpg", 9, 0xE3069283),), None),
        Listed(8, "b", (1.0, 0.5), None, "b", (File("b.jpg", 0, 0),), None),
    ]


def test_the_list_of_a_folder(tmp_path: Path) -> None:
    samples = [
        Sample("a", {"jpg": b"1", "cls": 2}, 7),
        Sample("b", {"jpg": b"2", "label": (1.0, 0.5)}, 5),
        Sample("c", {"jpg": b"3"}, 6),
        Sample("d\te", {"jpg": b"4", "cls": 0}, 9),
    ]
    write_folder(tmp_path, samples)
    listed = list(read_listing(tmp_path / "back.files.jsonl"))
    assert format_list(listed) == ("7\t2\t2/a.jpg\n5\t1\t0.5\tb.jpg\n", 2)
    assert format_list(listed[2:3]) == ("", 0)
    same = [each._replace(id=0) for each in listed]
    assert format_list(same) == ("0\t2\t2/a.jpg\n1\t1\t0.5\tb.jpg\n", 2)


def read_back(layout: Format, samples: Iterable[Sample]) -> list[Sample]:
    data = b"".join(part for sample in samples for part in layout.encode(sample))
    data += layout.trailer(len(data))
    return [entry.sample for entry in layout.read(ShardStream("shard", io.BytesIO(data)))]


@pytest.mark.parametrize(
    "layout", [TFRecord(), WebDataset(metadata=True)], ids=["tfrecord", "webdataset"]
)
def test_a_folder_comes_back_from_shards_byte_for_byte(tmp_path: Path, layout: Format) -> None:
    image_folder(tmp_path / "images", ("cat", "dog", "pets/owl"))
    (tmp_path / "images/cat/b.x.JPEG").write_bytes(jpeg(9))
    (tmp_path / "images/dog/misnamed.jpg").write_bytes(png(1))
    before = files(tmp_path / "images")
    samples = [
        Sample(f"key{number}", {"png" if "mis" in path else "jpg": data, "filename": path}, number)
        for number, (path, data) in enumerate(before.items())
    ]
    write_folder(tmp_path, read_back(layout, samples))
    assert files(tmp_path / "back") == before


def test_a_webdataset_without_metadata_has_keys_for_names(tmp_path: Path) -> None:
    samples = [Sample("cat/a", {"jpg": IMAGE, "cls": 0, "filename": "cat/a.JPEG"})]
    del samples[0].fields["filename"]
    write_folder(tmp_path, read_back(WebDataset(), samples))
    assert files(tmp_path / "back") == {"cat/a.jpg": IMAGE}


def test_a_recordio_has_ids_for_names(tmp_path: Path) -> None:
    samples = [Sample("cat/a", {"jpg": IMAGE, "cls": 4}, 17)]
    write_folder(tmp_path, read_back(RecordIO(), samples))
    assert files(tmp_path / "back") == {"4/17.jpg": IMAGE}


def test_an_empty_directory_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    write_folder(tmp_path, [Sample("a", {"jpg": IMAGE})])
    assert list(files(tmp_path / "back")) == ["a.jpg"]
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(DestinationError, match="holds files already"):
        publish_tree(other, tmp_path / "back")
    with pytest.raises(DestinationError, match="no directory"):
        publish_tree(other, tmp_path / "back.files.jsonl")
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(DestinationError, match="is a link"):
        publish_tree(other, tmp_path / "link")
    assert list(files(tmp_path / "back")) == ["a.jpg"]


def test_a_unit_directory_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    with pytest.raises(FileExistsError):
        Folder().open_writer(str(tmp_path / "unit"))


def test_only_what_was_written_is_removed(tmp_path: Path) -> None:
    samples = [Sample(f"{name}/a", {"jpg": IMAGE}) for name in ("x", "y", "z")]
    write_folder(tmp_path, samples)
    back, listing = tmp_path / "back", tmp_path / "back.files.jsonl"
    (back / "x/mine.txt").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    (back / "z").rename(elsewhere)
    (back / "z").symlink_to(elsewhere)
    remove_tree(back, listing)
    assert [path.name for path in sorted(back.rglob("*"))] == ["x", "mine.txt", "z"]
    assert files(elsewhere) == {"a.jpg": IMAGE}
    listing.write_text('{"id":0,"key":"","stem":"","files":[{"path":"../x","bytes":0,"crc32c":0}]}')
    with pytest.raises(DestinationError, match="elsewhere"):
        remove_tree(back, listing)


def test_a_unit_that_changed_is_written_again(tmp_path: Path) -> None:
    units = write_units(tmp_path / "scratch", [[Sample("a", {"jpg": IMAGE})], []])
    tree, listing = tmp_path / "scratch/tree", tmp_path / "files.jsonl"
    assert all(is_whole(*unit) for unit in units)
    with (units[0][0] / "0").open("ab") as file:
        file.write(b"!")
    with pytest.raises(RunStopped):
        join_tree(units, tree, listing)
    assert not any(is_whole(*unit) for unit in units)
    assert not tree.exists()
    assert not listing.exists()


parts = st.sampled_from(["", ".", "..", "a", "b", "a.jpg", "_", "a_1", "x" * 300, "ね" * 99, "\0"])
paths = st.lists(parts, min_size=1, max_size=4).map("/".join) | st.text(max_size=20)
samples_of = st.builds(
    Sample,
    paths,
    st.fixed_dictionaries(
        {"jpg": st.binary(max_size=4)},
        optional={
            "filename": paths,
            "class": parts,
            "txt": st.binary(max_size=4),
            "": st.just(b"no name"),
            "../evil": st.just(b"evil"),
            "cls": st.integers(-1, 3),
        },
    ),
    st.integers(0, 9),
)


@given(st.lists(st.lists(samples_of, max_size=8), max_size=3))
def test_every_sample_is_rejected_or_there(
    tmp_path_factory: pytest.TempPathFactory, units: list[list[Sample]]
) -> None:
    root = tmp_path_factory.mktemp("any")
    kept: list[list[Sample]] = []
    for unit in units:
        kept.append([])
        for sample in unit:
            try:
                lay_out(sample)
            except BadSample:
                continue
            kept[-1].append(sample)
    joined = write_folder(root, *kept)
    found = files(root / "back")
    listed = list(read_listing(root / "back.files.jsonl"))
    assert {file.path for each in listed for file in each.files} == set(found)
    assert joined.files == len(found)
    assert {path.name for path in root.iterdir()} == {"back", "back.files.jsonl", "scratch"}
    for sample, each in zip((one for unit in kept for one in unit), listed, strict=True):
        data = [value for value in sample.fields.values() if isinstance(value, bytes)]
        assert sorted(found[file.path] for file in each.files) == sorted(data)


@given(st.text())
def test_harmless_paths_stay_what_they_are(path: str) -> None:
    try:
        plain = harmless_path(path)
    except BadSample:
        return
    assert harmless_path(plain) == plain
    assert not {"", ".", ".."}.intersection(plain.split("/"))
    plain.encode()


def test_many_equal_names_take_no_longer_than_others() -> None:
    chosen = Names()
    sample = Listed(0, "a", None, None, "a", (File("a.jpg", 0, 0),), None)
    last = [chosen.choose(sample) for _ in range(50_000)][-1]
    assert last.stem == "a_49999"
