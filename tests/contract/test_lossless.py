"""Samples with any fields: through one format into another and back, without loss."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsprep.errors import BadSample
from dsprep.formats import Format
from dsprep.formats.example import Feature, decode_example, encode_entry, example_head
from dsprep.formats.features import BOXES, PRESETS, TYPES, Preset
from dsprep.formats.from_features import sample_of, usual_sample
from dsprep.formats.recordio import RecordIO
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.to_features import features_of
from dsprep.formats.typed_json import decode_typed, encode_typed
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from tests.contract.layouts import JPEG, PNG, read
from tests.contract.test_contract import MAGIC, any_bytes, properties
from tests.contract.test_tfrecord import record

WHOLE = TFRecord(whole=True)
TAR = WebDataset()
REC = RecordIO()

# Names that formats give a meaning, and any others.
FEATURES = sorted(
    {name for preset in PRESETS.values() for name, _ in preset.in_order()}
    | {"jpg", "png", "bin", "cls", "label", "class", "filename", "width", "id", "json"}
    | {"label.json", "features.json", "__key__", "__url__", "image/source_id", ""}
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
any_name = st.sampled_from(FEATURES) | text
floats = st.floats(width=32)
ints = st.integers(-(1 << 63), (1 << 63) - 1)
label_texts = st.sampled_from([b"3", b"[1,2]", b"[0.1,-0.0]", b"[0.1]", b"-7", b"nan", b"[nan]"])
data = (
    st.binary(max_size=9)
    | st.sampled_from([JPEG, PNG, b"jpeg", b"JPEG", b"a.jpg", b"d/a.b.jpg", b"5", b"cat", b"0.jpg"])
    | st.sampled_from([b'{"class":"a"}', b'{"a/b":[1]}', b'{"cls":"3"}', b'{"id":5}', b"{}"])
    | label_texts
)
any_list: st.SearchStrategy[Feature] = st.one_of(
    st.lists(data, max_size=3).map(Blobs),
    st.lists(floats, max_size=3).map(Floats),
    st.lists(ints, max_size=3).map(Ints),
)
any_example = st.dictionaries(any_name, any_list, max_size=6)


def bits(features: Mapping[str, Feature]) -> dict[str, tuple[str, object]]:
    """Features so that what differs in a bit differs: NaN is itself, and 0.0 is not -0.0."""
    return {
        name: (
            type(each).__name__,
            struct.pack(f"<{len(each)}f", *each) if isinstance(each, Floats) else each,
        )
        for name, each in features.items()
    }


def serialized(features: Mapping[str, Feature]) -> bytes:
    body = b"".join(encode_entry(name, features[name]) for name in sorted(features))
    return example_head(len(body)) + body


def example_of(layout: TFRecord, sample: Sample) -> dict[str, Feature]:
    return decode_example(b"".join(layout.encode(sample))[12:-4])


def through(layout: Format, sample: Sample) -> Sample:
    """The sample as it is read from a shard of its own."""
    content = b"".join(layout.encode(sample))
    (entry,) = read(layout, content + layout.trailer(len(content)))
    return entry.sample


def shard_of(layout: Format, samples: list[Sample]) -> bytes:
    content = b"".join(b"".join(layout.encode(each)) for each in samples)
    return content + layout.trailer(len(content))


def renamed(preset: Preset, features: Mapping[str, Feature]) -> bool:
    """Whether some feature has a name that another preset gives to what this one names."""
    return any(name in features for names in preset.candidates.values() for name in names[1:])


def added(preset: Preset) -> set[str]:
    """The features that may be there although they were not."""
    derived = ("format", "synset", "source_id")
    names = {preset.names[field] for field in derived if field in preset.names}
    boxes = set(preset.box_names) if "boxes" in preset.names else set()
    return names | boxes | {"__key__", preset.name_of("filename")}


class TestExamples:
    """An Example is the same after it was a sample."""

    @pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
    def test_any_features(self, preset: Preset) -> None:
        @properties
        @given(any_example)
        @example({"image/encoded": Blobs([JPEG]), "image/format": Blobs([b"JPEG"])})
        @example({"image/encoded": Blobs([JPEG]), "jpg": Blobs([b"x"])})
        @example({"image/encoded": Blobs([b"x"]), "jpg": Blobs([b"x"])})
        @example({"jpg": Blobs([JPEG])})
        @example({"label": Floats([1.0]), "labels": Floats([2.0]), "cls": Ints([3])})
        @example({"image/label": Floats([-0.0, float("nan")])})
        @example({"image/label": Floats([0.1]), "label.json": Blobs([b"[0.5]"])})
        @example({"image/filename": Blobs([b"a.jpg"]), "image/encoded": Blobs([JPEG])})
        @example({"__key__": Blobs([b"a"]), "image/filename": Blobs([b"a.jpg"])})
        @example({"__key__": Blobs([b"a.b"]), "image/encoded": Blobs([JPEG])})
        @example({"image/source_id": Blobs([b"5"]), "__key__": Blobs([b"5"])})
        def check(features: dict[str, Feature]) -> None:
            if renamed(preset, features):
                return
            sample = sample_of(features, 0, preset, whole=True)
            again = features_of(sample, preset, whole=True)
            more = {name for name in again if name not in features}
            assert more <= added(preset)
            assert bits({name: each for name, each in again.items() if name not in more}) == bits(
                features
            )
            # Once it has them, it stays as it is.
            layout = TFRecord(preset, whole=True)
            assert bits(example_of(layout, through(layout, sample))) == bits(again)

        check()

    @properties
    @given(any_example)
    def test_through_a_tar(self, features: dict[str, Feature]) -> None:
        sample = sample_of(features, 0, WHOLE.preset, whole=True)
        try:
            found = through(TAR, sample)
        except BadSample as error:
            assert str(error)
            return
        assert found.key == sample.key
        assert bits(example_of(WHOLE, found)) == bits(example_of(WHOLE, sample))


usual_field = st.one_of(
    st.tuples(st.sampled_from(["jpg", "png", "bin"]), st.sampled_from([JPEG, PNG, b""])),
    st.tuples(st.just("cls"), st.sampled_from([0, 3, -1, (1 << 63) - 1, 1 << 63])),
    st.tuples(st.just("label"), st.sampled_from([(0.5,), (0.1,), (2.0, 5.0, 1.0, 0.0, 0.0, 1.0)])),
    st.tuples(st.just("class"), st.sampled_from(["cat", ""])),
    st.tuples(
        st.just("filename"), st.sampled_from(["a.jpg", "d/a.b.jpg", "a.png", "d/a.JPEG", "", "a"])
    ),
    st.tuples(st.sampled_from(["width", "height", "id"]), st.integers(0, 1 << 64)),
    st.tuples(st.sampled_from([*TYPES, "txt", "__key__"]), st.sampled_from([b"x", Ints([1])])),
)
usual_key = st.sampled_from(["a", "d/a", "d/a_b", "5", "d/", ".a", "a.b"])


class TestUsualSamples:
    """Those that are laid out in less time are laid out the same."""

    @pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
    def test_as_their_features(self, preset: Preset) -> None:
        @properties
        @given(usual_key, st.lists(usual_field, max_size=5).map(dict))
        @example("a", {"jpg": JPEG, "cls": 3})
        @example("a", {"jpg": JPEG, "cls": 3, "filename": "a.jpg"})
        @example("d/a_b", {"jpg": JPEG, "filename": "d/a.b.jpg"})
        @example("a", {"jpg": JPEG, "filename": b"a.jpg"})
        def check(key: str, fields: dict[str, Value]) -> None:
            sample = Sample(key, fields, 7)
            layout = TFRecord(preset, whole=True)
            try:
                features = features_of(sample, preset, whole=True)
            except BadSample as error:
                with pytest.raises(BadSample, match=re.escape(str(error))):
                    layout.encode(sample)
            else:
                assert b"".join(layout.encode(sample))[12:-4] == serialized(features)

        check()

    @pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
    def test_as_any_features(self, preset: Preset) -> None:
        names = st.sampled_from(["image/encoded", "image/format", "image/filename", *FEATURES])
        values = st.sampled_from([JPEG, PNG, b"jpeg", b"png", b"", b"a.jpg", b"d/a.b.jpg", b"\xff"])
        usual = {"image/encoded": Blobs([JPEG]), "image/format": Blobs([b"jpeg"])}

        @properties
        @given(st.dictionaries(names, values.map(lambda value: Blobs([value])) | any_list))
        @example({"image/filename": Blobs([b"a.jpg"]), "image/class/label": Ints([3])})
        @example({"image/filename": Blobs([b"d/a.b.jpg"]), "image/class/text": Blobs([b"cat"])})
        @example({"image/filename": Blobs([b"a.png"]), "image/class/text": Blobs([b"\xff"])})
        @example({"image/filename": Blobs([b""])})
        def check(more: dict[str, Feature]) -> None:
            for features in (more, usual | more):
                found = usual_sample(features, 7, preset)
                assert found is None or found == sample_of(features, 7, preset, whole=True)

        check()

    def test_is_what_dsprep_writes(self) -> None:
        sample = Sample("d/a_b", {"jpg": JPEG, "cls": 3, "filename": "d/a.b.jpg"})
        features = example_of(WHOLE, sample)
        assert usual_sample(features, 0, WHOLE.preset) == sample


NAMED = {name for preset in PRESETS.values() for name, _ in preset.in_order()}
NAMED = NAMED - {"label", "image"} | {"__key__"}
any_key = st.from_regex(r"([a-z_]{1,3}/)?[a-z0-9_]{1,4}", fullmatch=True)
extension = st.sampled_from(
    ["jpg", "png", "webp", "bin", "cls", "json", "txt", "npy", "pyd", "mask.png", "wav", "label"]
    + ["label.json", "features.json", "class", "filename", "id", "a%2fb", "a%252fb", "%41", "ä b"]
    + ["image%2fformat", "image%2fencoded", "image%2ffilename", "image%2fclass%2flabel"]
) | st.from_regex(r"[a-z0-9_-]{1,3}(\.[a-z0-9]{1,2})?", fullmatch=True)
member = (
    data
    | st.builds(encode_typed, st.dictionaries(any_name, any_list, min_size=1, max_size=3))
    | st.sampled_from(
        [
            b'{"class":"cat","filename":"a.jpg","height":1,"width":2}',
            b'{"filename":"x/y.jpg"}',
            b'{"id":18446744073709551615}',
            b'{"class":1}',
            b'{"width":true}',
            b'{"height":-1}',
            b'{"a":[1],"b":[0.5,NaN],"c":["x"],"d":{"base64":"/w=="}}',
        ]
    )
)
any_members = st.dictionaries(extension, member, min_size=1, max_size=6)


def in_order(sample: Sample) -> Sample:
    """A sample with its fields in the order that formats without one give them."""
    image = sample.image()
    told = [name for name, kind in TYPES.items() if type(sample.fields.get(name)) is kind]
    first = [*([image[0]] if image else []), *(name for name in ("cls", "label") if name in told)]
    order = [*first, *sorted(sample.fields.keys() - set(first))]
    return Sample(sample.key, {name: sample.fields[name] for name in order}, sample.id)


class TestTars:
    """A tar is the same after its samples were Examples."""

    @properties
    @given(any_key, any_members)
    @example("a", {"jpg": PNG, "cls": b"3"})
    @example("a", {"png": JPEG, "jpg": PNG})
    @example("a", {"bin": JPEG})
    @example("a", {"jpg": JPEG, "json": b'{"filename":"a.jpg"}'})
    @example("a", {"jpg": JPEG, "label.json": b"[0.1,-0.0,1e-07]"})
    @example("a", {"cls": b"99999999999999999999"})
    @example("a", {"label": b"x", "label.json": b"[1,2]"})
    def test_any_members(self, key: str, members: dict[str, bytes]) -> None:
        fields = TAR.fields_of(members)
        if fields.keys() & NAMED:  # They are what presets mean by these names.
            return
        sample = in_order(Sample(key, fields))
        made = TAR._members(sample, (sample.image() or ("",))[0] or None, set())
        if sorted(made.items()) != sorted(members.items()):
            # Members that mean something other than bytes, but not in this company.
            return
        shard = shard_of(TAR, [sample])
        try:
            again = through(WHOLE, through(TAR, sample))
        except BadSample as error:
            assert str(error)
            return
        assert again.key == key
        assert shard_of(TAR, [again]) == shard

    @properties
    @given(any_members)
    def test_fields_are_written_as_they_were_read(self, members: dict[str, bytes]) -> None:
        found = TAR.fields_of(members)
        sample = Sample("k", found)
        assert repr(through(TAR, sample).fields) == repr(found) or sorted(
            map(repr, through(TAR, sample).fields.items())
        ) == sorted(map(repr, found.items()))


class TestRecords:
    """A record of RecordIO is the same after it was in a tar or an Example."""

    @properties
    @given(
        st.integers(0, 2**64 - 1) | st.just(int.from_bytes(MAGIC, "little")),
        st.integers(0, 1) | st.integers(0, 2**64 - 1),
        st.lists(floats | st.just(3.0), max_size=3),
        floats | st.integers(0, 9).map(float),
        any_bytes,
    )
    @example(7, 0, [4.0], 0.0, JPEG)
    @example(7, 3, [], 2.0, JPEG)
    @example(7, 0, [], -0.0, JPEG)
    @example(7, 0, [-0.0, 1.0], 0.0, b"")
    @example(7, 0, [float("nan"), 1.0], 0.0, JPEG)
    @example(7, 0, [], 1e20, JPEG)
    @example(7, 0, [], struct.unpack("<f", b"\x01\x00\xc0\xff")[0], JPEG)
    def test_any_record(
        self, id: int, id2: int, labels: list[float], label: float, image: bytes
    ) -> None:
        from dsprep.formats.recordio import _split

        head = struct.pack("<IfQQ", len(labels), label, id, id2)
        head += struct.pack(f"<{len(labels)}f", *labels)
        record = b"".join(_split(head + image))
        (entry,) = read(REC, record)
        for layout in (TAR, WHOLE):
            found = through(layout, entry.sample)
            found.id = int(found.key)
            assert b"".join(REC.encode(found)) == record


class TestTypedJson:
    @properties
    @given(st.dictionaries(any_name, any_list | data, min_size=1))
    def test_gives_back_every_value(self, fields: dict[str, Feature | bytes]) -> None:
        text = encode_typed(fields)
        found = decode_typed(text)
        assert found is not None
        assert encode_typed(found) == text
        lists = {name: each for name, each in fields.items() if not isinstance(each, bytes)}
        assert bits({name: found[name] for name in lists}) == bits(lists)  # type: ignore[misc]
        assert all(found[name] == each for name, each in fields.items() if name not in lists)


class TestPeers:
    """What the formats' own libraries write goes through every format and back."""

    def test_features_of_tfds_and_of_object_detection(self, tensorflow: ModuleType) -> None:
        train = tensorflow.train

        def feature(values: Sequence[Any]) -> Any:
            if all(isinstance(each, bytes) for each in values):
                return train.Feature(bytes_list=train.BytesList(value=values))
            if all(isinstance(each, float) for each in values):
                return train.Feature(float_list=train.FloatList(value=values))
            return train.Feature(int64_list=train.Int64List(value=values))

        tfds = {"image": [JPEG], "label": [3], "file_name": [b"n01/a.JPEG"], "objects/area": [7, 8]}
        detection = {
            "image/encoded": [PNG],
            "image/format": [b"jpg"],
            "image/filename": [b"2007_000032.png"],
            "image/source_id": [b"2007_000032.jpg"],
            "image/key/sha256": [b"0" * 64],
            "image/height": [12],
            "image/width": [16],
            **{f"image/object/bbox/{side}": [0.25, 0.1] for side in BOXES},
            "image/object/class/text": [b"cat", b"dog"],
            "image/object/class/label": [1, 2],
            "image/object/difficult": [0, -1],
            "image/object/view": [b"", b"\xff"],
        }
        lists = {"": [1], "Upper Case": [b"x"], "many": [float(i) / 7 for i in range(300)]}
        for preset, values in (("tfds", tfds), ("detection", detection), ("dsprep", lists)):
            message = train.Example()
            for name, each in values.items():
                message.features.feature[name].CopyFrom(feature(each))  # type: ignore[arg-type]
            message.features.feature["empty/ints"].int64_list.SetInParent()
            message.features.feature["empty/floats"].float_list.SetInParent()
            message.features.feature["empty/bytes"].bytes_list.SetInParent()
            for layout in (TFRecord(PRESETS[preset], whole=True), WHOLE):
                found = read(layout, record(message.SerializeToString()))[0].sample
                again = b"".join(layout.encode(through(TAR, found)))
                written = train.Example.FromString(again[12:-4])
                if layout.preset == PRESETS[preset]:
                    # What tells the key is all that may be new.
                    for name in set(written.features.feature) - set(message.features.feature):
                        assert name in ("__key__", "image/filename")
                        del written.features.feature[name]
                    assert written == message

    def test_lists_that_are_not_packed_and_features_without_a_kind(
        self, tensorflow: ModuleType
    ) -> None:
        unpacked = bytes.fromhex(
            "0a1b 0a0b 0a0166 1206 1a04 0801 0802 0a07 0a0167 1202 1200 0a03 0a016e"
        )
        message = tensorflow.train.Example.FromString(unpacked)
        (entry,) = read(WHOLE, record(unpacked))
        assert entry.sample.fields == {"f": Ints([1, 2]), "g": Floats(), "n": Blobs()}
        again = example_of(WHOLE, through(TAR, entry.sample))
        assert again == {**decode_example(message.SerializeToString()), "__key__": Blobs([b"0"])}

    def test_webdataset_shard_writer(self, tmp_path: Path, webdataset: ModuleType) -> None:
        import numpy

        path = tmp_path / "train-000000.tar"
        sample = {
            "__key__": "dir/a",
            "jpg": JPEG,
            "cls": 3,
            "json": {"boxes": [[1, 2]], "name": "ä"},
            "mask.png": PNG,
            "npy": numpy.arange(6, dtype="float32"),
            "pyd": {"a": (1, 2)},
            "txt": "text",
            "wav": b"RIFF\x04\x00\x00\x00WAVE",
        }
        with webdataset.ShardWriter(str(tmp_path / "train-%06d.tar"), verbose=False) as sink:
            sink.write(sample)
            sink.write({**sample, "__key__": "dir/" + "b" * 120, "cls": 4})
        theirs = list(webdataset.WebDataset(str(path), shardshuffle=False))
        samples = [entry.sample for entry in read(TAR, path.read_bytes())]
        (tmp_path / "ours.tar").write_bytes(
            shard_of(TAR, [through(WHOLE, each) for each in samples])
        )
        ours = list(webdataset.WebDataset(str(tmp_path / "ours.tar"), shardshuffle=False))
        own = ("__url__", "__local_path__")
        assert [{k: v for k, v in each.items() if k not in own} for each in ours] == [
            {k: v for k, v in each.items() if k not in own} for each in theirs
        ]
        decoded = next(
            iter(webdataset.WebDataset(str(tmp_path / "ours.tar"), shardshuffle=False).decode())
        )
        assert decoded["cls"] == 3
        assert decoded["json"] == {"boxes": [[1, 2]], "name": "ä"}
        assert (decoded["npy"] == numpy.arange(6)).all()

    def test_webdataset_reads_lists_and_escaped_names(
        self, tmp_path: Path, webdataset: ModuleType
    ) -> None:
        fields: dict[str, Value] = {
            "jpg": JPEG,
            "image/mask": PNG,
            "boxes": Floats([0.5, 1.0]),
            "ids": Ints([7]),
        }
        path = tmp_path / "train.tar"
        path.write_bytes(shard_of(TAR, [Sample("a", fields)]))
        (found,) = webdataset.WebDataset(str(path), shardshuffle=False).decode()
        assert found["image%2fmask"] == PNG
        assert found["features.json"] == {"boxes": [0.5, 1.0], "ids": [7]}

    def test_mxnet_records(self, tmp_path: Path, mxnet: ModuleType) -> None:
        path = tmp_path / "theirs.rec"
        pack, header = mxnet.recordio.pack, mxnet.recordio.IRHeader
        magic = int.from_bytes(MAGIC, "little")
        writer = mxnet.recordio.MXRecordIO(str(path), "w")
        writer.write(pack(header(0, 4.0, 7, 0), JPEG))
        writer.write(pack(header(0, [4.0], 8, 0), JPEG + MAGIC * 2))
        writer.write(pack(header(0, 0.5, magic, 5), MAGIC + PNG))
        writer.write(pack(header(0, [1.0, -0.0, 0.1], magic << 32 | magic, 0), PNG))
        writer.write(pack(header(0, [1.0, 2.0], 0, 0), b""))
        writer.close()
        samples = [entry.sample for entry in read(REC, path.read_bytes())]
        for layout in (TAR, WHOLE):
            again = [through(layout, each) for each in samples]
            for each in again:
                each.id = int(each.key)
            assert shard_of(REC, again) == path.read_bytes()


class TestRefused:
    """What a format cannot hold is told, and nothing of it is written."""

    @pytest.mark.parametrize(
        ("layout", "key", "fields", "problem"),
        [
            (TAR, "a\0b", {"jpg": JPEG}, "holds no zero byte"),
            (TAR, "a.b", {"jpg": JPEG}, "would find another key"),
            (TAR, "a.b/", {"jpg": JPEG}, "would find another key"),
            (TAR, "", {"jpg": JPEG}, "would find another key"),
            (TAR, "k" * 70_000, {"jpg": JPEG}, "a key of 70000 bytes"),
            (TAR, "k", {"n" * 70_000: b""}, "a field whose name has 70000 bytes"),
            (TAR, "k", {}, "a sample without fields"),
            (TAR, "k", {"n": Ints([1 << 63])}, "9223372036854775808 is no 64-bit integer"),
            (TAR, "k", {"n": Floats([0.1])}, "0.1 is no 32-bit float"),
            (WHOLE, "k", {"n": Floats([1e300])}, "beyond 32-bit floats"),
            (WHOLE, "k", {"n": Ints([-(1 << 63) - 1])}, "is no 64-bit integer"),
            (WHOLE, "k", {"cls": 1 << 63}, "is no 64-bit integer"),
            (TFRecord(), "k", {"jpg": JPEG, "cls": 1 << 63}, "is no 64-bit integer"),
            (WHOLE, "k", {"label": (16777217.0,)}, "cannot be held exactly"),
            (REC, "k", {"jpg": JPEG, "png": PNG}, "cannot hold its field 'png' as well"),
            (REC, "k", {"jpg": JPEG, "mask.png": PNG}, "cannot hold its field 'mask.png'"),
            (REC, "k", {"jpg": JPEG, "cls": 1, "label": (1.0,)}, "cannot hold its field 'label'"),
            (REC, "k", {"jpg": JPEG, "cls": 1, "id": -1}, "the id -1 is not a number from 0"),
            (REC, "k", {"jpg": JPEG, "irheader": b"x"}, "is not the header of a record"),
        ],
    )
    def test_with_a_reason(
        self, layout: Format, key: str, fields: dict[str, Value], problem: str
    ) -> None:
        with pytest.raises(BadSample, match=problem):
            layout.encode(Sample(key, fields))

    def test_what_records_do_not_hold_is_known_before(self) -> None:
        fields = {"jpg": bytes, "cls": int, "filename": str, "id": int, "irheader": bytes}
        assert REC.unheld(fields) == []
        assert REC.unheld({**fields, "mask.png": bytes, "width": int}) == ["mask.png", "width"]
        assert TAR.unheld({"a/b": Ints}) == WHOLE.unheld({"a/b": Ints}) == []
