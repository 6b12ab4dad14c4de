"""TFRecord: TensorFlow reads what dsprep writes, and dsprep what TensorFlow writes."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google_crc32c import value as crc32c

from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats.features import PRESETS, choose_features, is_detection_label
from dsprep.formats.tfrecord import TFRecord
from dsprep.sample import Blobs, Floats, Sample, Value, key_of
from tests.contract.layouts import (
    CLASSES,
    JPEG,
    LABELS,
    LAYOUTS,
    PATHS,
    PNG,
    Picture,
    encode,
    is_for_detection,
    pictures,
    read,
    sample_of,
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
        if is_for_detection(layout) and labels != LABELS["detection"]:
            with pytest.raises(BadSample, match="needs a detection label"):
                encode(layout, samples[0])
            return
        path = write(layout, samples, tmp_path / f"train{layout.file_suffix}")
        kind = "GZIP" if layout.compressed else ""
        data_set = tensorflow.data.TFRecordDataset(str(path), compression_type=kind)
        messages = [tensorflow.train.Example.FromString(each.numpy()) for each in data_set]
        image = layout.preset.names["image"]
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
            (
                "detection",
                (4.0, 6.0, 16.0, 12.0, 2.0, 0.0, 0.25, 0.5, 1.0, 9.0, 0.0, 0.0, 0.0, 1.0, 1.0, 9.0),
                {
                    "image/encoded": JPEG,
                    "image/format": b"jpeg",
                    "image/filename": b"d/a.jpg",
                    "image/source_id": b"41",
                    "image/height": 12,
                    "image/width": 16,
                    "image/object/class/label": [3, 1],
                    "image/object/bbox/xmin": [0.0, 0.0],
                    "image/object/bbox/ymin": [0.25, 0.0],
                    "image/object/bbox/xmax": [0.5, 1.0],
                    "image/object/bbox/ymax": [1.0, 1.0],
                },
            ),
        ],
    )
    def test_the_features_of_every_preset(
        self, preset: str, label: Any, expected: dict[str, Any], tensorflow: ModuleType
    ) -> None:
        data = encode(TFRecord(PRESETS[preset]), Picture(41, "d/a.jpg", JPEG, label))
        assert features(tensorflow.train.Example.FromString(data[12:-4])) == expected

    @every_tfrecord
    def test_parsed_and_decoded(
        self, layout: TFRecord, tmp_path: Path, tensorflow: ModuleType
    ) -> None:
        tf = tensorflow
        label = LABELS["detection"] if is_for_detection(layout) else LABELS["class"]
        samples = pictures(label)
        path = write(layout, samples, tmp_path / "train")
        names = layout.preset.names
        wanted = {names["image"]: tf.io.FixedLenFeature((), tf.string)}
        if is_for_detection(layout):
            wanted[names["classes"]] = tf.io.VarLenFeature(tf.int64)
            wanted[f"{names['boxes']}/xmin"] = tf.io.VarLenFeature(tf.float32)
        else:
            wanted[names["cls"]] = tf.io.FixedLenFeature((), tf.int64)

        def parse(serialized: Any) -> Any:
            found = tf.io.parse_single_example(serialized, wanted)
            return tf.io.decode_image(found[names["image"]]), found

        kind = "GZIP" if layout.compressed else ""
        parsed = list(tf.data.TFRecordDataset(str(path), compression_type=kind).map(parse))
        assert len(parsed) == len(samples)
        for (image, found), picture in zip(parsed, samples, strict=True):
            assert image.shape == (12, 16, 3)
            if isinstance(picture.label, int):
                assert found[names["cls"]] == picture.label + layout.preset.first_class
            else:
                boxes = found[f"{names['boxes']}/xmin"].values
                assert len(boxes) == len(found[names["classes"]].values) >= 1


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
        found = [entry.sample for entry in read(PLAIN, path.read_bytes())]
        more: dict[str, Value] = {"else": Floats((1, 2, 3)), "nothing": Blobs()}
        assert found == [
            Sample("ü/0_x", {"jpg": JPEG, "cls": 0, "filename": "ü/0.x.jpg", **more}, 0),
            Sample("ü/1_x", {"png": PNG, "cls": 1, "filename": "ü/1.x.jpg", **more}, 1),
        ]

    def test_its_file_is_the_same(self, tmp_path: Path, tensorflow: ModuleType) -> None:
        samples = pictures(LABELS["class"])
        path = tmp_path / "train.tfrecord"
        with tensorflow.io.TFRecordWriter(str(path)) as writer:
            for each in samples:
                writer.write(encode(PLAIN, each)[12:-4])
        assert path.read_bytes() == shard(PLAIN, samples)

    @pytest.mark.parametrize("name", ["image/encoded", "image"])
    def test_images_under_any_preset_s_name(self, name: str, tensorflow: ModuleType) -> None:
        train = tensorflow.train
        lists = {name: train.Feature(bytes_list=train.BytesList(value=[PNG]))}
        message = train.Example(features=train.Features(feature=lists))
        (entry,) = read(PLAIN, record(message.SerializeToString()))
        assert entry.sample == Sample("0", {"png": PNG}, 0)

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
        assert entry == (0, 16, Sample("0", {}, 0))

    def test_an_example(self) -> None:
        sample = Sample("k", {"jpg": b"\xff\xd8\xff", "cls": -1, "filename": "k.jpg"})
        data = b"".join(TFRecord(PRESETS["tfds"]).encode(sample))
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
        assert entry.sample.image() == ("jpg", picture.data)


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

    @pytest.mark.parametrize("number", [0.5, float("nan"), float("inf"), 1e300])
    def test_a_class_that_is_no_whole_number_is_refused(self, number: float) -> None:
        label = (2.0, 5.0, number, 0.0, 0.0, 1.0, 1.0)
        with pytest.raises(BadSample, match="is not a whole number"):
            encode(TFRecord(PRESETS["detection"]), Picture(0, "a.jpg", JPEG, label))

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

    def test_an_image_of_an_unknown_kind_is_kept(self) -> None:
        sample = Sample("k", {"bin": b"what?", "filename": "k.dat"})
        (entry,) = read(PLAIN, b"".join(PLAIN.encode(sample)))
        assert entry.sample.image() == ("bin", b"what?")

    def test_a_name_that_is_no_text_does_not_end_the_reading(self, tensorflow: ModuleType) -> None:
        train = tensorflow.train
        lists = {"image/filename": train.Feature(bytes_list=train.BytesList(value=[b"\xff.jpg"]))}
        message = train.Example(features=train.Features(feature=lists))
        (entry,) = read(PLAIN, record(message.SerializeToString()))
        assert entry.sample.key == "\ufffd"

    def test_presets_find_their_own_features_first(self) -> None:
        layout = TFRecord(choose_features("tfds", {"image": "image/encoded", "cls": "image"}))
        sample = sample_of(layout, Picture(0, "a.jpg", JPEG, 3))
        (entry,) = read(layout, b"".join(layout.encode(sample)))
        expected: dict[str, Value] = {"jpg": JPEG, "cls": 3, "filename": "a.jpg"}
        assert entry.sample == Sample("a", expected, 0)

    def test_shards_of_every_preset_are_read_without_knowing_it(self) -> None:
        for preset in PRESETS.values():
            samples = pictures(LABELS["detection"])
            found = [entry.sample for entry in read(PLAIN, shard(TFRecord(preset), samples))]
            assert [sample.image() for sample in found] == [
                ("png" if each.data == PNG else "jpg", each.data) for each in samples
            ]
            if "filename" in preset.names:
                assert [sample.key for sample in found] == [key_of(path) for path in PATHS]

    @pytest.mark.parametrize(
        ("preset", "renamed", "problem"),
        [
            ("imagenet", {}, "--features imagenet: unknown; choose one of dsprep, slim"),
            ("slim", {"size": "x"}, "--map size=…: no such field; there are boxes, class"),
            ("slim", {"cls": "image/encoded"}, "two fields the same feature name"),
            ("slim", {"cls": "x", "image": "x"}, "two fields the same feature name"),
            ("detection", {"filename": "image/object/bbox/xmin"}, "the same feature name"),
            ("detection", {"boxes": "b", "classes": "b/ymax"}, "the same feature name"),
        ],
    )
    def test_names_that_make_no_sense(
        self, preset: str, renamed: dict[str, str], problem: str
    ) -> None:
        with pytest.raises(OptionError, match=problem):
            choose_features(preset, renamed)
