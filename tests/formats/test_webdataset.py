"""WebDataset: read by webdataset, wids, Python and GNU tar; and what others write."""

from __future__ import annotations

import io
import json
import math
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsprep.errors import ApartMembers, BadSample, DamagedShard, OptionError
from dsprep.formats.base import Entry, ShardFacts
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Sample, Value, image_kind_of, key_of
from dsprep.schema import LABEL_TEXT, Choice, Field, Reading, Schema, observe, settle
from tests.formats.layouts import (
    CLASSES,
    JPEG,
    LABELS,
    PATHS,
    PNG,
    Label,
    Picture,
    encode,
    pictures,
    read,
    read_into,
    shard,
    write,
)
from tests.formats.schemas import data_sets
from tests.formats.test_contract import admits, any_path, properties

PLAIN = WebDataset()
METADATA = WebDataset(metadata=True)


def arranged(*fields: Field, image: str | None = None, label: str | None = None) -> WebDataset:
    """The layout of samples that come from elsewhere."""
    return PLAIN.arranged(Schema(fields, image, label))[0]


def members(layout: WebDataset, sample: Sample) -> dict[str, bytes]:
    """The members that a sample becomes, by extension."""
    data = b"".join(layout.encode(sample))
    (entry,) = read(layout, data + layout.trailer(len(data)))
    return entry.sample.fields


def keys_and_fields(entries: Sequence[Entry]) -> list[tuple[str, dict[str, Value]]]:
    return [(entry.sample.key, entry.sample.fields) for entry in entries]


class TestWebdatasetReads:
    """What dsprep writes, with webdataset as the judge."""

    @pytest.mark.parametrize("layout", [PLAIN, METADATA], ids=["plain", "metadata"])
    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    def test_every_member(
        self, layout: WebDataset, labels: Sequence[Label], tmp_path: Path, webdataset: ModuleType
    ) -> None:
        samples = pictures(labels)
        path = write(layout, samples, tmp_path / "train-000000.tar")
        found = list(webdataset.WebDataset(str(path), shardshuffle=False))
        assert [each["__key__"] for each in found] == [key_of(each.path) for each in samples]
        for each, picture in zip(found, samples, strict=True):
            assert each[image_kind_of(picture.path)] == picture.data
            label = picture.label
            assert each.get("cls") == (b"%d" % label if isinstance(label, int) else None)
            if isinstance(picture.label, tuple):
                assert json.loads(each["label.json"]) == pytest.approx(picture.label, rel=1e-7)
            assert ("json" in each) == layout.metadata

    def test_decoded(self, tmp_path: Path, webdataset: ModuleType) -> None:
        samples = pictures((0, 1, 2), [f"{i}.jpg" for i in range(3)])
        path = write(METADATA, samples, tmp_path / "train-000000.tar")
        pipeline = webdataset.WebDataset(str(path), shardshuffle=False).decode("pil")
        for number, (image, cls, more) in enumerate(pipeline.to_tuple("jpg", "cls", "json")):
            assert image.size == (16, 12)
            assert cls == number
            assert more == {
                "class": CLASSES[number],
                "filename": f"{number}.jpg",
                "width": 16,
                "height": 12,
            }

    def test_several_labels_decoded(self, tmp_path: Path, webdataset: ModuleType) -> None:
        samples = pictures(((1.0, 0.5, -3.0), (1e22, 1e-7, 0.125)), ["a.jpg", "b.jpg"])
        path = write(PLAIN, samples, tmp_path / "train-000000.tar")
        pipeline = webdataset.WebDataset(str(path), shardshuffle=False).decode("pil")
        labels = [label for _, label in pipeline.to_tuple("jpg", "label.json")]
        assert labels == [[1, 0.5, -3], [1e22, 1e-7, 0.125]]

    def test_shards_expanded_from_braces(self, tmp_path: Path, webdataset: ModuleType) -> None:
        for number in range(11):
            name = PLAIN.shard_name("train", number, 11)
            write(PLAIN, [Picture(number, f"{number}.jpg", JPEG)], tmp_path / name)
        urls = str(tmp_path / "train-{000000..000010}.tar")
        found = [each["__key__"] for each in webdataset.WebDataset(urls, shardshuffle=False)]
        assert found == [str(number) for number in range(11)]

    @properties
    @given(any_path, st.sampled_from(["jpg", "label.json"]))
    @example("__x__.jpg", "jpg")
    @example("__x__/a.jpg", "jpg")
    @example("____.jpg", "jpg")
    @example("a.b/c\nd/e.jpg", "jpg")
    @example(".jpg", "jpg")
    @example("a/.jpg", "jpg")
    @example("...jpg", "jpg")
    def test_any_name_that_is_not_refused(self, path: str, extension: str) -> None:
        from webdataset.tariterators import group_by_keys, tar_file_expander

        picture = Picture(0, path, JPEG, (0.5, 1.5))
        if not admits(PLAIN, picture):
            return
        (entry,) = read(PLAIN, shard(PLAIN, [picture]))
        stream = io.BytesIO(shard(PLAIN, [picture]))
        (found,) = group_by_keys(tar_file_expander([{"url": "", "stream": stream}]))
        assert found["__key__"] == entry.sample.key
        assert extension in found

    @pytest.mark.parametrize(
        "path", ["__x__.jpg", "____.jpg", "__x/a.jpg", "a/__x__/b.jpg", *PATHS]
    )
    def test_names_that_it_reads_are_not_refused(self, path: str) -> None:
        assert admits(PLAIN, Picture(0, path, JPEG))

    @pytest.mark.parametrize("path", ["__x__/a.jpg", "____/a.jpg", "a.b/c\nd/e.jpg"])
    def test_names_that_it_would_not_read_are_refused(self, path: str) -> None:
        with pytest.raises(BadSample, match="webdataset"):
            encode(PLAIN, Picture(0, path, JPEG))


class TestOtherReaders:
    @pytest.mark.parametrize("layout", [PLAIN, METADATA])
    def test_tarfile(self, layout: WebDataset, tmp_path: Path) -> None:
        samples = pictures(LABELS["class"])
        path = write(layout, samples, tmp_path / "train.tar")
        with tarfile.open(path, "r:") as archive:
            members = archive.getmembers()
            files = [archive.extractfile(each) for each in members]
            contents = [file.read() for file in files if file is not None]
        assert [each.name for each in members] == [
            f"{key_of(each.path)}.{extension}"
            for each in samples
            for extension in (image_kind_of(each.path), "cls", *["json"] * layout.metadata)
        ]
        assert contents[:: 3 if layout.metadata else 2] == [each.data for each in samples]
        for each in members:
            assert (each.mode, each.uid, each.gid, each.mtime) == (0o644, 0, 0, 0)
            assert each.type == tarfile.REGTYPE
            assert each.uname == each.gname == ""

    def test_gnu_tar(self, tmp_path: Path) -> None:
        samples = pictures(LABELS["class"])
        path = write(PLAIN, samples, tmp_path / "train.tar")
        listed = subprocess.run(
            ["tar", "--quoting-style=literal", "-tf", path], capture_output=True, check=True
        )
        assert listed.stderr == b""
        with tarfile.open(path) as archive:
            assert listed.stdout.decode().splitlines() == archive.getnames()
        subprocess.run(["tar", "-xf", path, "-C", tmp_path], check=True, capture_output=True)
        key = read(PLAIN, path.read_bytes())[-1].sample.key
        assert (tmp_path / f"{key}.png").read_bytes() == PNG

    def test_names_of_up_to_100_bytes_need_no_extension_of_ustar(self) -> None:
        for length in range(1, 97):
            (name, *_), data = split_headers(encode(PLAIN, Picture(0, f"{'n' * length}.jpg", JPEG)))
            assert name == f"{'n' * length}.jpg"
            assert data[:1] == b"0"
        _, kinds = split_headers(encode(PLAIN, Picture(0, f"{'n' * 97}.jpg", JPEG)))
        assert kinds == b"x0"

    def test_wids_reads_the_index(self, tmp_path: Path) -> None:
        paths = [path for path in PATHS if len(path.encode()) < 96 and path[0] != "."]
        samples = pictures((0, 1, 2), paths)
        facts = []
        for number, some in enumerate((samples[:2], samples[2:])):
            path = write(PLAIN, some, tmp_path / PLAIN.shard_name("train", number, 2))
            facts.append(ShardFacts(path.name, len(some), path.stat().st_size))
        ((name, index),) = PLAIN.dataset_index("train", facts).items()
        (tmp_path / name).write_bytes(index)
        reader = Path(__file__).with_name("read_with_wids.py")
        done = subprocess.run(
            [sys.executable, reader, tmp_path / name, tmp_path / "cache"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        entries = [
            entry for fact in facts for entry in read(PLAIN, (tmp_path / fact.name).read_bytes())
        ]
        expected = [
            {"key": entry.sample.key, "image": each.data.hex(), "cls": str(each.label)}
            for entry, each in zip(entries, samples, strict=True)
        ]
        assert json.loads(done.stdout) == expected


def split_headers(data: bytes) -> tuple[list[str], bytes]:
    """The names and the types of the headers in a tar whose members each take whole blocks."""
    names, kinds, at = [], b"", 0
    while at < len(data):
        header = data[at : at + 512]
        names.append(header[:100].rstrip(b"\0").decode())
        kinds += header[156:157]
        at += 512 + -(-int(header[124:135], 8) // 512) * 512
    return names, kinds


class TestGoldenBytes:
    def test_a_header_is_portable_ustar(self) -> None:
        header = encode(PLAIN, Picture(0, "cat/a b.jpg", JPEG))[:512]
        with io.BytesIO() as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
                member = tarfile.TarInfo("cat/a b.jpg")
                member.size = len(JPEG)
                archive.addfile(member, io.BytesIO(JPEG))
            assert header == file.getvalue()[:512]

    def test_a_shard_ends_with_two_zero_blocks_and_whole_records(self) -> None:
        for size in range(0, 60_000, 512):
            trailer = PLAIN.trailer(size)
            assert len(trailer) >= 1024
            assert (size + len(trailer)) % 10240 == 0
            assert len(trailer) < 1024 + 10240
            assert not any(trailer)

    def test_numbers_and_text(self) -> None:
        layout = arranged(
            Field("photo", "image"),
            Field("y", "class"),
            Field("w", "class"),
            Field("text", "text"),
            Field("alt", "text"),
            Field("seg", "image"),
            Field("n", "int"),
            Field("f", "float32"),
            Field("d", "float64"),
            Field("on", "bool"),
            Field("l", "list<float32>"),
            Field("tags", "list<text>"),
            Field("emb.npy", "bytes"),
            Field("blob", "bytes"),
            image="photo",
            label="y",
        )
        fields: dict[str, Value] = {"photo": JPEG, "y": -7, "w": 3, "text": "ä", "alt": "b\n"}
        fields |= {"seg": PNG, "n": 2**60, "f": 0.10000000149011612, "d": 0.1, "on": True}
        fields |= {"l": (1.0, math.nan, -math.inf), "tags": ("a", "b")}
        assert members(layout, Sample("k", fields | {"emb.npy": b"1", "blob": b"2"})) == {
            "jpg": JPEG,
            "cls": b"-7",
            "w.cls": b"3",
            "txt": "ä".encode(),
            "alt.txt": b"b\n",
            "seg.png": PNG,
            "emb.npy": b"1",
            "blob.bin": b"2",
            "json": b'{"n":1152921504606846976,"f":0.1,"d":0.1,"on":true,'
            b'"l":[1.0,NaN,-Infinity],"tags":["a","b"]}',
        }

    @pytest.mark.parametrize(
        ("kind", "value", "found"),
        [
            ("class", -7, ("cls", b"-7")),
            ("float32", 2.0, ("label.json", b"2.0")),
            ("list<float32>", (2.0, -1e-7, 1e30), ("label.json", b"[2.0,-1e-07,1e+30]")),
            ("list<int>", (0, 1), ("label.json", b"[0,1]")),
            ("text", "cat", ("label.txt", b"cat")),
        ],
    )
    def test_labels(self, kind: str, value: Value, found: tuple[str, bytes]) -> None:
        layout = arranged(Field("y", kind), label="y")
        assert members(layout, Sample("k", {"y": value})) == dict([found])
        named = arranged(Field("y", kind, given=True), label="y")
        extensions = {"class": "y.cls", "text": "y.txt"}
        assert list(members(named, Sample("k", {"y": value}))) == [extensions.get(kind, "json")]

    def test_what_the_user_calls_like_its_role_has_the_place_of_that(self) -> None:
        layout = arranged(
            Field("image", "image", given=True),
            Field("label", "class", given=True),
            image="image",
            label="label",
        )
        assert list(members(layout, Sample("k", {"image": JPEG, "label": 1}))) == ["jpg", "cls"]

    def test_metadata(self) -> None:
        fields = (Field("image", "image"), Field("label", "class", names=('ä"', "b")))
        layout, _ = METADATA.arranged(Schema(fields, "image", "label"))
        values: dict[str, Value] = {"image": JPEG, "label": 0, "width": 2, "height": 3}
        found = members(layout, Sample("k", values, path="K.JPEG"))
        assert json.loads(found["json"]) == {
            "width": 2,
            "height": 3,
            "filename": "K.JPEG",
            "class": 'ä"',
        }
        found = members(layout, Sample("k", values | {"label": -1}))
        assert json.loads(found["json"]) == {"width": 2, "height": 3, "filename": "k.jpg"}

    def test_a_text_that_is_no_unicode_is_a_reject(self) -> None:
        layout = arranged(Field("text", "text"), Field("t", "list<text>", missing=True))
        for fields in ({"text": "\ud800"}, {"text": "", "t": ("\udfff",)}):
            with pytest.raises(BadSample, match="surrogate"):
                layout.encode(Sample("k", fields))

    def test_the_index_is_that_of_wids(self) -> None:
        index = PLAIN.dataset_index("train", [ShardFacts("train-000000.tar", 3, 10240)])
        assert list(index) == ["train.json"]
        assert json.loads(index["train.json"]) == {
            "__kind__": "wids-shard-index-v1",
            "wids_version": 1,
            "name": "train",
            "shardlist": [{"url": "train-000000.tar", "nsamples": 3, "filesize": 10240}],
        }


class TestPlaces:
    @pytest.mark.parametrize(
        ("extensions", "meaning"),
        [
            (
                "jpg jpeg jpe jfif png apng webp gif bmp tif tiff ppm jp2 avif tga",
                "image image image",
            ),
            ("mask.png mask.jpeg", "mask image"),
            ("a.b.png", "a.b image"),
            ("cls label.json", f"label {LABEL_TEXT} label"),
            ("seg.cls", "seg class"),
            ("txt text transcript", "text text"),
            ("alt.txt", "alt text"),
            ("json jsn", "json json"),
            ("info.json", "info json"),
            ("id index inx", "{} int"),
            ("npy pth pkl mp bin a.npy", "{} bytes"),
            ("blob.bin", "blob bytes"),
            ("image foo a.foo .png", "{}"),
            ("image%2fmask.png", "image/mask image"),
        ],
    )
    def test_what_extensions_mean(self, extensions: str, meaning: str) -> None:
        for extension in extensions.split():
            found = PLAIN.meaning(PLAIN.place_of(extension))
            if extension != ".png":
                assert PLAIN.meaning(extension) == found
            told = " ".join(each for each in found if each)
            assert told == meaning.format(extension) or extension == ".png"

    def test_an_image_that_becomes_another_kind(self) -> None:
        kinds = {"jpeg": "jpeg", "png": "jpg", "a.png": "a.jpg", "img": "img"}
        assert {raw: PLAIN.renamed_image(raw, "jpg") for raw in kinds} == kinds

    def test_within_webdataset_fields_stay_where_they_are(self) -> None:
        raw = {"jpeg": JPEG, "mask.png": PNG, "cls": b"3\n", "x.id": b"7", "transcript": b"t"}
        raw |= {"label.json": b"[1]", "foo": b"\xff"}
        observed = observe([Sample("k", raw)], PLAIN, Choice())
        schema = settle(observed, PLAIN, Choice(), "source").schema
        layout, notes = PLAIN.arranged(schema)
        sample = Reading(schema, PLAIN)(Sample("k", raw, path="k.JPEG"))
        assert notes == []
        assert members(layout, sample) == raw | {"cls": b"3", "label.json": b"1"}

    def test_users_call_images_by_their_extensions(self) -> None:
        raw = Sample("k", {"jpeg": JPEG, "mask.png": PNG})
        schema = settle(observe([raw], PLAIN, Choice()), PLAIN, Choice(), "source").schema
        names = {"jpg": "image", "JPEG": "image", "*": "image", "mask.png": "mask", "cls": None}
        for name, found in names.items():
            assert getattr(schema.named(name), "name", None) == found

    def test_a_label_in_json_that_is_kept_is_copied(self) -> None:
        raw = Sample("k", {"jpg": JPEG, "json": b'{"y": 3}'})
        choice = Choice(label="json.y")
        schema = settle(observe([raw], PLAIN, choice), PLAIN, choice, "source").schema
        layout, _ = PLAIN.arranged(schema)
        sample = Reading(schema, PLAIN)(raw)
        assert members(layout, sample) == {"jpg": JPEG, "json": b'{"y": 3}', "cls": b"3"}

    def test_the_parts_of_an_object_are_fields_again_if_a_schema_says_so(self) -> None:
        layout = arranged(Field("image", "image"), Field("score", "float32"), image="image")
        data = b"".join(layout.encode(Sample("k", {"image": JPEG, "score": 0.5})))
        raw = [entry.sample for entry in read(PLAIN, data + PLAIN.trailer(len(data)))]
        settled = settle(observe(raw, PLAIN, Choice()), PLAIN, Choice(), "source", layout.schema)
        assert settled.ignored == {"json"}
        sample = Reading(settled.schema, PLAIN, settled.ignored)(raw[0])
        assert sample.fields == {"image": JPEG, "score": 0.5}

    def test_json_and_numbers_have_one_place(self) -> None:
        fields = Field("json", "json"), Field("n", "int")
        with pytest.raises(OptionError, match=r"such as n .* give --rename json=meta"):
            arranged(*fields)
        with pytest.raises(OptionError, match=r"--metadata .* give --rename json=meta"):
            METADATA.arranged(Schema(fields[:1]))
        layout, notes = PLAIN.arranged(Schema((fields[0], Field("width", "int"))))
        assert layout.schema is not None
        assert list(layout.schema.by_name) == ["json"]
        assert notes == ["left out, because the field 'json' takes their place: width"]

    def test_a_list_of_bytes_has_none(self) -> None:
        with pytest.raises(OptionError, match="give --drop parts"):
            arranged(Field("parts", "list<bytes>"))

    @settings(max_examples=300, deadline=None)
    @given(data_sets(), st.booleans())
    def test_any_schema(self, drawn: tuple[Schema, list[Sample]], metadata: bool) -> None:
        schema, samples = drawn
        try:
            layout, _ = WebDataset(metadata).arranged(schema)
        except OptionError as error:
            assert "--rename" in str(error)
            return
        assert layout.schema is not None
        kept = layout.schema.by_name
        for _ in range(2):
            encoded = b"".join(b"".join(layout.encode(each)) for each in samples)
            raw = read(layout, encoded + layout.trailer(len(encoded)))
            reading = Reading(layout.schema, layout)
            found = [reading(each.sample) for each in raw]
            expected = [
                {name: value for name, value in each.fields.items() if name in kept}
                for each in samples
            ]
            expected = expected if metadata else [each for each in expected if each]
            assert [each.fields for each in found] == expected
            again, _ = WebDataset(metadata).arranged(layout.schema)
            assert again.schema == layout.schema
            samples = found


TarMember = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> TarMember:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    for attribute, value in more.items():
        setattr(info, attribute, value)
    return info, data


def tar_of(*members: TarMember, format: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar that Python's tarfile writes."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w", format=format) as archive:
            for info, data in members:
                archive.addfile(info, io.BytesIO(data))
        return file.getvalue()


class TestReadsWhatOthersWrite:
    def test_webdataset_shard_writer(self, tmp_path: Path, webdataset: ModuleType) -> None:
        path = tmp_path / "train-000000.tar"
        with webdataset.TarWriter(str(path)) as sink:
            for number, key in enumerate(["a", "dir/" + "b" * 120, "ü/" + "ねこ" * 60]):
                sink.write({"__key__": key, "jpg": JPEG, "cls": number, "json": {"n": number}})
        found = keys_and_fields(read(PLAIN, path.read_bytes()))
        assert [key for key, _ in found] == ["a", "dir/" + "b" * 120, "ü/" + "ねこ" * 60]
        assert [fields["jpg"] for _, fields in found] == [JPEG] * 3
        assert [fields["cls"] for _, fields in found] == [b"0", b"1", b"2"]
        assert [fields["json"] for _, fields in found] == [b'{"n": %d}' % n for n in range(3)]

    def test_webdataset_shard_writer_compressed(
        self, tmp_path: Path, webdataset: ModuleType
    ) -> None:
        path = tmp_path / "train-000000.tar.gz"
        with webdataset.TarWriter(str(path), compress=True) as sink:
            sink.write({"__key__": "a", "jpg": JPEG})
        assert keys_and_fields(read(PLAIN, path.read_bytes())) == [("a", {"jpg": JPEG})]

    @pytest.mark.parametrize(
        "format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
    )
    @pytest.mark.parametrize(
        "name",
        [
            "a.jpg",
            "n" * 96 + ".jpg",
            "d" * 90 + "/" + "n" * 60 + ".jpg",
            "d" * 154 + "/" + "n" * 90 + ".jpg",
            "ねこ/" + "é" * 40 + ".jpg",
        ],
    )
    def test_tarfile_in_every_format(self, format: int, name: str) -> None:
        data = tar_of(member(name, JPEG), format=format)
        (entry,) = read(PLAIN, data)
        assert entry.sample == Sample(name.removesuffix(".jpg"), {"jpg": JPEG}, 0, name)
        assert entry.offset == 0

    @pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    def test_names_longer_than_ustar_holds(self, format: int) -> None:
        name = "é" * 400
        data = tar_of(member(f"{name}.jpg", JPEG), member(f"{name}.cls", b"3"), format=format)
        (entry,) = read(PLAIN, data)
        assert entry.sample == Sample(name, {"jpg": JPEG, "cls": b"3"}, 0, f"{name}.jpg")

    def test_gnu_tar_of_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "cat.1").mkdir()
        for name in ("a.jpg", "b.jpg"):
            (tmp_path / "cat.1" / name).write_bytes(JPEG)
        (tmp_path / "cat.1" / "b.txt").symlink_to("nowhere")
        for option in ("gnu", "pax", "ustar", "v7"):
            command = [
                "tar",
                "-C",
                tmp_path,
                f"--format={option}",
                "--sort=name",
                "-cf",
                "-",
                "./cat.1",
            ]
            data = subprocess.run(command, check=True, capture_output=True).stdout
            assert keys_and_fields(read(PLAIN, data)) == [
                ("cat.1/a", {"jpg": JPEG}),
                ("cat.1/b", {"jpg": JPEG}),
            ]

    def test_what_is_no_sample_is_passed_over(self) -> None:
        data = tar_of(
            member("./", kind=tarfile.DIRTYPE),
            member("dir.x", kind=tarfile.DIRTYPE),
            member("a.jpg", JPEG),
            member("README", b"text"),
            member("a.link", kind=tarfile.SYMTYPE, linkname="a.jpg"),
            member("a.hard", kind=tarfile.LNKTYPE, linkname="a.jpg"),
            member("a.dev", kind=tarfile.CHRTYPE, devmajor=1, devminor=3),
            member("a.block", kind=tarfile.BLKTYPE),
            member("a.fifo", kind=tarfile.FIFOTYPE),
            member("__meta__/a.jpg", b"passed over"),
            member("a.cls", b"1"),
        )
        assert keys_and_fields(read(PLAIN, data)) == [("a", {"jpg": JPEG, "cls": b"1"})]

    def test_the_extension_is_all_after_the_first_dot_in_lower_case(self) -> None:
        data = tar_of(member("d.x/a.Left.JPG", JPEG), member("d.x/a.right.jpg", PNG))
        assert keys_and_fields(read(PLAIN, data)) == [
            ("d.x/a", {"left.jpg": JPEG, "right.jpg": PNG})
        ]

    @settings(max_examples=300, deadline=None)
    @given(*[st.text("_a./\n", max_size=5)] * 3)
    @example("__a", "a", "__")
    def test_a_name_means_the_same_after_any_that_begins_like_it(
        self, begin: str, one: str, other: str
    ) -> None:
        before, name = f"{begin}.{one}", f"{begin}.{other}"
        alone = [keys_and_fields(read(PLAIN, tar_of(member(each)))) for each in (before, name)]
        both = tar_of(member(before), member(name))
        if alone[0] == alone[1] != []:
            with pytest.raises(DamagedShard, match="two members"):
                read(PLAIN, both)
            return
        expected = dict[str, dict[str, Value]]()
        for key, fields in chain(*alone):
            expected.setdefault(key, {}).update(fields)
        assert dict(keys_and_fields(read(PLAIN, both))) == expected

    def test_equal_keys_that_are_apart_are_refused(self) -> None:
        data = tar_of(member("a.jpg", JPEG), member("b.jpg", PNG), member("a.cls", b"1"))
        found: list[Entry] = []
        with pytest.raises(ApartMembers, match=r"'a' are not adjacent.*--from parts") as error:
            read_into(found, PLAIN, data)
        assert isinstance(pickle.loads(pickle.dumps(error.value)), ApartMembers)
        assert [key for key, _ in keys_and_fields(found)] == ["a", "b"]

    @pytest.mark.parametrize(
        ("members", "path"),
        [
            ({"a.JPEG": JPEG}, "a.JPEG"),
            ({"a.jpg": JPEG, "a.mask.png": PNG}, "a.jpg"),
            ({"a.jpg": JPEG, "a.png": PNG}, ""),
            ({"a.rgb.png": PNG}, ""),
            ({"a.jpg": JPEG, "a.json": b'{"filename":"a.JPG"}'}, "a.JPG"),
            ({"a.jpg": JPEG, "a.json": b'{"filename":"b.JPG"}'}, "a.jpg"),
            ({"a.jpg": JPEG, "a.json": b'["filename"]'}, "a.jpg"),
        ],
    )
    def test_the_name_of_the_image(self, members: dict[str, bytes], path: str) -> None:
        (entry,) = read(PLAIN, tar_of(*(member(*each) for each in members.items())))
        assert entry.sample.path == path

    def test_two_members_of_one_name_are_damage(self) -> None:
        data = tar_of(member("a.jpg", JPEG), member("a.JPG", PNG))
        with pytest.raises(DamagedShard, match=r"'a' has two members \.jpg"):
            read(PLAIN, data)

    @properties
    @given(
        st.lists(
            st.tuples(
                st.text(
                    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
                ),
                st.binary(max_size=9),
            ),
            max_size=5,
        ),
        st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    )
    def test_any_names_as_webdataset_does(
        self, contents: list[tuple[str, bytes]], format: int
    ) -> None:
        from webdataset.tariterators import group_by_keys, tar_file_expander

        data = tar_of(*(member(name, content) for name, content in contents), format=format)
        stream = io.BytesIO(data)
        try:
            theirs = list(group_by_keys(tar_file_expander([{"url": "", "stream": stream}])))
        except ValueError:  # a duplicate
            with pytest.raises(DamagedShard, match="two members"):
                read(PLAIN, data)
            return
        keys = [each["__key__"].removeprefix("./") for each in theirs]
        if len(set(keys)) < len(keys):
            with pytest.raises(ApartMembers):
                read(PLAIN, data)
            return
        assert [entry.sample.key for entry in read(PLAIN, data)] == keys
