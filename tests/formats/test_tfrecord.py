"""TFRecord: TensorFlow reads what dsprep writes, and dsprep what TensorFlow writes."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from google_crc32c import value as crc32c

from dsprep.annotations.mxnet import is_detection_label
from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats.tfrecord import PRESETS, TFRecord
from dsprep.sample import Blobs, Floats, Ints, Sample, Value, key_of
from dsprep.schema import Choice, Field, Reading, Schema, SettledSchema, observe, settle
from tests.formats.layouts import (
    CLASSES,
    JPEG,
    LABELS,
    LAYOUTS,
    PATHS,
    PNG,
    Picture,
    encode,
    pictures,
    read,
    shard,
    write,
)

PLAIN = TFRecord()
TFRECORDS = {name: layout for name, layout in LAYOUTS.items() if isinstance(layout, TFRecord)}

every_tfrecord = pytest.mark.parametrize("layout", TFRECORDS.values(), ids=TFRECORDS)


def masked(crc: int) -> bytes:
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(crc32c(length)) + data + masked(crc32c(data))


def features(message: Any) -> dict[str, Any]:
    """The features of a tf.train.Example, those of one value without their list."""
    found = {}
    for name, feature in message.features.feature.items():
        values = list(getattr(feature, feature.WhichOneof("kind")).value)
        found[name] = values[0] if len(values) == 1 else values
    return found


class TestTensorFlowReads:
    @every_tfrecord
    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    def test_every_record(
        self, layout: TFRecord, labels: Any, tmp_path: Path, tensorflow: ModuleType
    ) -> None:
        samples = pictures(labels)
        path = write(layout, samples, tmp_path / f"train{layout.file_suffix}")
        kind = "GZIP" if layout.compressed else ""
        data_set = tensorflow.data.TFRecordDataset(str(path), compression_type=kind)
        messages = [tensorflow.train.Example.FromString(each.numpy()) for each in data_set]
        image = layout.names.image
        assert [features(each)[image] for each in messages] == [each.data for each in samples]
        for message, picture in zip(messages, samples, strict=True):
            # What protobuf calls deterministic is, byte for byte, what dsprep wrote.
            serialized = message.SerializeToString(deterministic=True)
            assert record(serialized) == encode(layout, picture)

    @pytest.mark.parametrize(
        ("preset", "label", "expected"),
        [
            (
                "dsprep",
                1,
                {
                    "image/encoded": JPEG,
                    "image/format": b"jpeg",
                    "image/class/label": 1,
                    "image/class/text": CLASSES[1].encode(),
                    "image/filename": b"d/a.jpg",
                },
            ),
            (
                "dsprep",
                (0.5, -1.0),
                {
                    "image/encoded": JPEG,
                    "image/format": b"jpeg",
                    "image/filename": b"d/a.jpg",
                    "image/label": [0.5, -1.0],
                },
            ),
            (
                "slim",
                1,
                {
                    "image/encoded": JPEG,
                    "image/format": b"jpeg",
                    "image/class/label": 1,
                    "image/filename": b"d/a.jpg",
                    "image/height": 12,
                    "image/width": 16,
                },
            ),
            (
                "inception",
                1,
                {
                    "image/encoded": JPEG,
                    "image/format": b"jpeg",
                    "image/class/label": 2,
                    "image/class/text": CLASSES[1].encode(),
                    "image/class/synset": CLASSES[1].encode(),
                    "image/filename": b"d/a.jpg",
                    "image/height": 12,
                    "image/width": 16,
                },
            ),
            ("tfds", 1, {"image": JPEG, "label": 1, "file_name": b"d/a.jpg"}),
        ],
    )
    def test_the_features_of_every_preset(
        self, preset: str, label: Any, expected: dict[str, Any], tensorflow: ModuleType
    ) -> None:
        data = encode(TFRecord(preset), Picture(41, "d/a.jpg", JPEG, label))
        assert features(tensorflow.train.Example.FromString(data[12:-4])) == expected

    @every_tfrecord
    def test_parsed_and_decoded(
        self, layout: TFRecord, tmp_path: Path, tensorflow: ModuleType
    ) -> None:
        tf = tensorflow
        samples = pictures(LABELS["class"])
        path = write(layout, samples, tmp_path / "train")
        names = layout.names
        wanted = {
            names.image: tf.io.FixedLenFeature((), tf.string),
            names.label: tf.io.FixedLenFeature((), tf.int64),
        }

        def parse(serialized: Any) -> Any:
            found = tf.io.parse_single_example(serialized, wanted)
            return tf.io.decode_image(found[names.image]), found

        kind = "GZIP" if layout.compressed else ""
        parsed = list(tf.data.TFRecordDataset(str(path), compression_type=kind).map(parse))
        assert len(parsed) == len(samples)
        for (image, found), picture in zip(parsed, samples, strict=True):
            assert image.shape == (12, 16, 3)
            assert isinstance(picture.label, int)
            assert found[names.label] == picture.label + names.first_class


class TestReadsWhatTensorFlowWrites:
    @pytest.mark.parametrize("compression", ["", "GZIP"])
    def test_records(self, compression: str, tmp_path: Path, tensorflow: ModuleType) -> None:
        train = tensorflow.train
        path = tmp_path / "train.tfrecord"
        with tensorflow.io.TFRecordWriter(str(path), options=compression) as writer:
            for number, data in enumerate((JPEG, PNG)):
                lists: dict[str, Any] = {
                    "image/encoded": train.Feature(bytes_list=train.BytesList(value=[data])),
                    "image/class/label": train.Feature(int64_list=train.Int64List(value=[number])),
                    "image/filename": train.Feature(
                        bytes_list=train.BytesList(value=[f"ü/{number}.x.jpg".encode()])
                    ),
                    "else": train.Feature(float_list=train.FloatList(value=[1, 2, 3])),
                    "nothing": train.Feature(),
                }
                message = train.Example(features=train.Features(feature=lists))
                writer.write(message.SerializeToString())
        for number, data in enumerate((JPEG, PNG)):
            sample = read(PLAIN, path.read_bytes())[number].sample
            name = f"ü/{number}.x.jpg"
            assert sample == Sample(
                f"ü/{number}_x",
                {
                    "image/encoded": Blobs((data,)),
                    "image/class/label": Ints((number,)),
                    "image/filename": Blobs((name.encode(),)),
                    "else": Floats((1, 2, 3)),
                    "nothing": Blobs(),
                },
                number,
                name,
            )
            # A parser that wants them finds all that were there, in the order of their names.
            (again,) = read(PLAIN, b"".join(PLAIN.encode(sample)))
            assert (again.sample.fields, list(again.sample.fields)) == (
                sample.fields,
                sorted(sample.fields),
            )

    def test_its_file_is_the_same(self, tmp_path: Path, tensorflow: ModuleType) -> None:
        samples = pictures(LABELS["class"])
        path = tmp_path / "train.tfrecord"
        with tensorflow.io.TFRecordWriter(str(path)) as writer:
            for each in samples:
                writer.write(encode(PLAIN, each)[12:-4])
        assert path.read_bytes() == shard(PLAIN, samples)

    def test_zlib_is_read(self, tmp_path: Path, tensorflow: ModuleType) -> None:
        samples = pictures(LABELS["class"])
        path = tmp_path / "train.tfrecord"
        with tensorflow.io.TFRecordWriter(str(path), options="ZLIB") as writer:
            for each in samples:
                writer.write(encode(PLAIN, each)[12:-4])
        assert read(PLAIN, path.read_bytes()) == read(PLAIN, shard(PLAIN, samples))
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DamagedShard, match="the compressed data is cut short"):
            read(PLAIN, path.read_bytes())


class TestGoldenBytes:
    def test_a_record(self) -> None:
        golden = bytes.fromhex("0300000000000000 b099490e 616263 6e57f121")
        assert record(b"abc") == golden
        with pytest.raises(DamagedShard, match=r"not a tf\.train\.Example") as caught:
            read(PLAIN, golden)
        assert caught.value.offset == 0

    def test_the_empty_record(self) -> None:
        golden = bytes.fromhex("0000000000000000 29039807 d8ea82a2")
        assert record(b"") == golden
        (entry,) = read(PLAIN, golden)
        assert entry == (0, 16, Sample("", {}))

    def test_an_example(self) -> None:
        data = encode(TFRecord("tfds"), Picture(0, "k.jpg", b"\xff\xd8\xff", -1))
        assert data[12:-4] == bytes.fromhex(
            "0a43"
            "0a16 0a09 66696c655f6e616d65 1209 0a07 0a05 6b2e6a7067"
            "0a10 0a05 696d616765 1207 0a05 0a03 ffd8ff"
            "0a17 0a05 6c6162656c 120e 1a0c 0a0a ffffffffffffffffff01"
        )


class TestGzip:
    LAYOUT = TFRecord(gzip=True)

    def test_has_no_time_and_no_name(self, tmp_path: Path) -> None:
        samples = pictures(LABELS["class"])
        data = write(self.LAYOUT, samples, tmp_path / "a.tfrecord.gz").read_bytes()
        assert data[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\x03"
        assert write(self.LAYOUT, samples, tmp_path / "b.tfrecord.gz").read_bytes() == data
        assert gzip.decompress(data) == shard(self.LAYOUT, samples)

    def test_names(self) -> None:
        assert self.LAYOUT.shard_name("train", 3, 128) == "train-00003-of-00128.tfrecord.gz"
        assert PLAIN.shard_name("train", 3, 128) == "train-00003-of-00128.tfrecord"


class TestDamage:
    def test_every_flipped_bit_is_found(self) -> None:
        data = encode(PLAIN, Picture(0, "a.jpg", JPEG[:3], 1))
        for position in range(len(data)):
            for bit in range(8):
                flipped = bytearray(data)
                flipped[position] ^= 1 << bit
                with pytest.raises(DamagedShard, match="checksum") as caught:
                    read(PLAIN, bytes(flipped))
                assert caught.value.offset == 0

    @pytest.mark.parametrize("length", [1, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
    def test_memory_does_not_follow_the_length(self, length: int) -> None:
        head = struct.pack("<Q", length)
        tracemalloc.start()
        try:
            with pytest.raises(DamagedShard, match=f"a record needs {length} bytes"):
                read(PLAIN, head + masked(crc32c(head)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000

    @pytest.mark.parametrize("size", [35_615, 559_903])
    def test_a_length_that_begins_as_gzip_does(self, size: int) -> None:
        image = JPEG[:3] + bytes(size)
        overhead = len(encode(PLAIN, Picture(0, "a.jpg", image))) - 16 - len(image)
        picture = Picture(0, "a.jpg", image[: size - overhead])
        data = encode(PLAIN, picture)
        assert struct.unpack("<Q", data[:8]) == (size,)
        assert data.startswith(b"\x1f\x8b")
        (entry,) = read(PLAIN, data)
        assert entry.sample.fields["image/encoded"] == (picture.data,)


class TestFeatures:
    def test_zeros_of_either_sign_keep_it(self) -> None:
        def encoded(*labels: float) -> bytes:
            return encode(PLAIN, Picture(0, "a.jpg", JPEG, labels))

        plus, minus = encoded(0.0, 1.0), encoded(-0.0, 1.0)
        assert struct.pack("<2f", -0.0, 1.0) in minus
        assert struct.pack("<2f", 0.0, 1.0) in plus

    @pytest.mark.parametrize("label", [(1e39,), (0.0, -1e300)])
    def test_labels_beyond_floats_are_refused(self, label: tuple[float, ...]) -> None:
        with pytest.raises(BadSample, match="beyond 32-bit floats"):
            encode(PLAIN, Picture(0, "a.jpg", JPEG, label))

    @pytest.mark.parametrize(
        ("label", "is_one"),
        [
            ((2.0, 5.0, 1.0, 0.0, 0.0, 1.0, 1.0), True),
            ((4.0, 6.0, 9.0, 9.0, 1.0, 0.0, 0.0, 1.0, 1.0, 7.0), True),
            ((2.0, 5.0, *[0.0] * 15), True),
            ((2.0, 5.0), False),
            ((1.0, 5.0, *[0.0] * 9), False),
            ((2.0, 4.0, *[0.0] * 8), False),
            ((2.0, 5.5, 1.0, 0.0, 0.0, 1.0, 1.0), False),
            ((2.0, 5.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0), False),
            ((7.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0), False),
            ((float("nan"), 5.0, 1.0, 0.0, 0.0, 1.0, 1.0), False),
            ((float("inf"), 5.0, 1.0, 0.0, 0.0, 1.0, 1.0), False),
            ((2.0, 1e300, 1.0, 0.0, 0.0, 1.0, 1.0), False),
        ],
    )
    def test_what_is_a_detection_label(self, label: tuple[float, ...], is_one: bool) -> None:
        assert is_detection_label(label) == is_one

    def test_a_preset_that_there_is_not(self) -> None:
        with pytest.raises(OptionError, match="--features imagenet: unknown; choose one of dsprep"):
            TFRecord("imagenet")


def settled(*samples: dict[str, Value]) -> SettledSchema:
    """The schema of records that others wrote."""
    raw = [PLAIN.raw(dict(each), number) for number, each in enumerate(samples)]
    return settle(observe(raw, PLAIN, Choice()), PLAIN, Choice(), "set")


def typed(found: SettledSchema, fields: dict[str, Value]) -> dict[str, Value]:
    sample = PLAIN.raw(dict(fields), 0)
    return Reading(found.schema, PLAIN, found.ignored)(sample).fields


class TestMeaning:
    IMAGE: ClassVar[dict[str, Value]] = {"image/encoded": Blobs((JPEG,))}

    @pytest.mark.parametrize(
        ("features", "kind", "value"),
        [
            ({"image/class/label": Ints((3,))}, "class", 3),
            ({"image/class/label": Floats((3.5,))}, "float32", 3.5),
            ({"image/class/label": Ints((3, 4))}, "list<int>", (3, 4)),
            ({"image/class/text": Blobs((b"cat",))}, "text", "cat"),
            ({"image/label": Floats((3.0,))}, "float32", 3.0),
            ({"image/label": Floats((0.5, 1.0))}, "list<float32>", (0.5, 1.0)),
            ({"label": Ints((3,))}, "class", 3),
        ],
    )
    def test_of_labels(self, features: dict[str, Value], kind: str, value: Value) -> None:
        found = settled(self.IMAGE | features)
        label = found.schema.label_field
        assert label is not None
        assert (label.name, label.type) == ("label", kind)
        assert typed(found, self.IMAGE | features) == {"image": JPEG, "label": value}

    def test_the_name_of_a_class_is_no_field(self) -> None:
        named: dict[str, Value] = {
            "image/class/label": Ints((3,)),
            "image/class/text": Blobs((b"cat",)),
            "image/class/synset": Blobs((b"n01",)),
        }
        found = settled(self.IMAGE | named)
        assert typed(found, self.IMAGE | named) == {
            "image": JPEG,
            "label": 3,
            "image/class/synset": "n01",
        }
        assert PLAIN.raw(named, 0).class_name == "cat"

    def test_facts_and_fields_of_any_name(self) -> None:
        features: dict[str, Value] = {
            **self.IMAGE,
            "image/height": Ints((4,)),
            "image/colorspace": Blobs((b"RGB",)),
            "image/format": Blobs((b"JPEG",)),
            "image/key/sha256": Blobs((b"ab",)),
            "image/object/bbox/xmin": Floats((0.5, 0.25)),
            "image/source_id": Blobs((b"17",)),
        }
        assert typed(settled(features), features) == {
            "image": JPEG,
            "height": 4,
            "colorspace": "RGB",
            "sha256": "ab",
            "image/object/bbox/xmin": (0.5, 0.25),
            "source_id": "17",
        }

    def test_one_object_in_some_samples_and_several_or_none_in_others(self) -> None:
        samples: list[dict[str, Value]] = [
            self.IMAGE | {"xmin": Floats(values), "text": Blobs((b"a",) * len(values))}
            for values in ((0.5,), (), (0.5, 0.25))
        ]
        found = settled(*samples)
        assert [typed(found, each)["xmin"] for each in samples] == [(0.5,), (), (0.5, 0.25)]
        assert [typed(found, each)["text"] for each in samples] == [("a",), (), ("a", "a")]

    def test_two_features_of_one_name_are_two_fields(self) -> None:
        features: dict[str, Value] = self.IMAGE | {"image": Ints((5,)), "width": Floats((0.5,))}
        features["image/width"] = Ints((16,))
        assert typed(settled(features), features) == {
            "image/encoded": JPEG,
            "image": 5,
            "width": 0.5,
            "image/width": 16,
        }

    @pytest.mark.parametrize("name", ["image/filename", "file_name", "filename"])
    def test_the_name_of_the_file_tells_the_key(self, name: str) -> None:
        sample = PLAIN.raw({name: Blobs((b"d/a.b.jpg",))}, 0)
        assert (sample.key, sample.path) == ("d/a_b", "d/a.b.jpg")
        assert list(settled(self.IMAGE | sample.fields).schema.by_name) == ["image"]

    def test_a_name_without_an_extension_is_the_key(self) -> None:
        sample = PLAIN.raw({"image/filename": Blobs((b"2007_000027",))}, 0)
        assert (sample.key, sample.path) == ("2007_000027", "")

    @pytest.mark.parametrize("value", [Blobs((b"\xff.jpg",)), Blobs(()), Ints((3,))])
    def test_what_is_no_name_tells_none(self, value: Value) -> None:
        assert PLAIN.raw({"image/filename": value}, 0).key == ""

    def test_another_name_is_a_field(self) -> None:
        names: dict[str, Value] = {
            "image/filename": Blobs((b"a.jpg",)),
            "filename": Blobs((b"b.jpg",)),
        }
        assert typed(settled(self.IMAGE | names), self.IMAGE | names) == {
            "image": JPEG,
            "filename": "b.jpg",
        }

    def test_classes_that_a_preset_counts_from_one(self) -> None:
        picture = Picture(0, "a.jpg", JPEG, 2)
        layout = TFRecord("inception")
        data = encode(layout, picture)
        (theirs,), (ours,) = read(PLAIN, data), read(layout, data)
        assert theirs.sample.fields["image/class/label"] == (3,)
        assert ours.sample.fields["image/class/label"] == (2,)
        assert b"".join(layout.encode(ours.sample)) == data
        assert b"".join(PLAIN.like(layout).encode(ours.sample)) == data

    def test_shards_of_every_preset_are_read_without_knowing_it(self) -> None:
        for preset in PRESETS:
            samples = pictures(LABELS["detection"])
            found = [entry.sample for entry in read(PLAIN, shard(TFRecord(preset), samples))]
            assert [sample.key for sample in found] == [key_of(path) for path in PATHS]
            fields = [
                typed(settled(*(each.fields for each in found)), each.fields) for each in found
            ]
            assert [each["image"] for each in fields] == [each.data for each in samples]


class TestArranged:
    def layout(self, *fields: Field, preset: str = "dsprep", source: str = "other") -> TFRecord:
        schema = Schema((Field("img", "image", places=(("img",),)), *fields), "img", None, source)
        label = next((each.name for each in fields if each.name == "y"), None)
        return TFRecord(preset).arranged(replace(schema, label=label))[0]

    def features(self, layout: TFRecord, **fields: Value) -> dict[str, Value]:
        sample = Sample("k", {"img": JPEG, **fields}, 3, image="img")
        (entry,) = read(PLAIN, b"".join(layout.encode(sample)))
        return entry.sample.fields

    def test_a_name_that_the_user_gave_is_the_feature(self) -> None:
        label = Field("y", "class", names=("a", "b"), given=True)
        found = self.features(self.layout(label), y=1)
        assert (found["y"], "image/class/text" in found) == ((1,), False)

    def test_the_synset_is_the_name_of_the_class_or_a_field(self) -> None:
        label, synset = Field("y", "class", names=("a", "b")), "image/class/synset"
        layout = self.layout(label, preset="inception")
        assert self.features(layout, y=1)[synset] == (b"b",)
        sample = Sample("k", {"img": JPEG, "y": 1, "width": 1, "height": 1})
        (again,) = read(layout, b"".join(layout.encode(sample)))
        assert layout.schema is not None
        assert Reading(layout.schema, layout)(again.sample).fields[synset] == "b"
        layout = self.layout(label, Field(synset, "text"), preset="inception")
        assert self.features(layout, y=1, **{synset: "n01"})[synset] == (b"n01",)

    def test_names_of_classes_are_in_all_records_or_in_none(self) -> None:
        named = self.layout(Field("y", "class", names=("a", "b")))
        assert self.features(named, y=1)["image/class/text"] == (b"b",)
        assert self.features(named, y=-1)["image/class/text"] == (b"",)
        assert "image/class/text" not in self.features(self.layout(Field("y", "class")), y=1)

    def test_a_missing_value_is_no_feature(self) -> None:
        layout = self.layout(Field("a", "int", missing=True), Field("b", "list<int>"))
        assert {"a", "b"} & self.features(layout, b=()).keys() == {"b"}
        assert self.features(layout, b=())["b"] == Ints()

    def test_the_features_of_another_tfrecord_stay(self) -> None:
        places = {"y": "image/class/*", "n": "n", "text": "caption/string"}
        kinds = {"y": "class", "n": "int", "text": "text"}
        fields = [Field(name, kinds[name], places=((each,),)) for name, each in places.items()]
        found = self.features(self.layout(*fields, source="tfrecord"), y=1, n=2, text="a")
        assert found == {
            "img": Blobs((JPEG,)),
            "image/class/label": Ints((1,)),
            "image/filename": Blobs((b"k.jpg",)),
            "image/format": Blobs((b"jpeg",)),
            "n": Ints((2,)),
            "caption/string": Blobs((b"a",)),
        }

    def test_a_label_that_a_list_gives_another_tfrecord(self) -> None:
        layout = self.layout(Field("y", "class", names=("a", "b")), source="tfrecord")
        found = self.features(layout, y=1)
        assert (found["image/class/label"], found["image/class/text"]) == ((1,), (b"b",))

    @pytest.mark.parametrize("preset", ["dsprep", "tfds"])
    def test_two_fields_that_would_be_one_feature(self, preset: str) -> None:
        name = PRESETS[preset].image
        with pytest.raises(OptionError, match=rf"the feature '{name}', which is the field 'img'"):
            self.layout(Field(name, "bytes"), preset=preset)
        with pytest.raises(OptionError, match="which is another feature: give --drop"):
            self.layout(Field("image/filename", "text"))

    def test_floats_of_64_bits_are_rounded_with_a_note(self) -> None:
        schema = Schema((Field("x", "float64"), Field("z", "list<float64>")))
        layout, notes = PLAIN.arranged(schema)
        assert [each.partition(":")[0] for each in notes] == ["x, z"]
        (entry,) = read(PLAIN, b"".join(layout.encode(Sample("k", {"x": 0.1, "z": (0.5,)}))))
        assert entry.sample.fields["x"] == struct.unpack("f", struct.pack("f", 0.1))
        with pytest.raises(BadSample, match="the field 'x' is 16777217, which 32-bit floats"):
            layout.encode(Sample("k", {"x": 16777217.0, "z": ()}))

    def test_a_class_beyond_64_bits(self) -> None:
        layout = self.layout(Field("y", "class"), preset="inception")
        with pytest.raises(BadSample, match=r"9223372036854775808 is not .* from -2\^63 to"):
            self.features(layout, y=2**63 - 1)

    def test_the_name_of_the_file_follows_the_key(self) -> None:
        layout = self.layout()
        for path, name in (("", b"k.jpg"), ("k.x", b"k.x"), ("other.jpg", b"k.jpg")):
            sample = Sample("k", {"img": JPEG}, path=path, image="img")
            (entry,) = read(PLAIN, b"".join(layout.encode(sample)))
            assert entry.sample.fields["image/filename"] == (name,)

    def test_raw_samples_have_the_key_that_they_got(self) -> None:
        fields: dict[str, Value] = {"file_name": Blobs((b"a.png",)), "x": JPEG}
        (entry,) = read(PLAIN, b"".join(PLAIN.encode(Sample("0007", fields, image="x"))))
        assert entry.sample.fields == {"file_name": (b"0007.jpg",), "x": (JPEG,)}
