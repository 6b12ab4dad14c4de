"""RecordIO-protobuf: SageMaker's SDK reads what dsprep writes, and dsprep what it writes."""

from __future__ import annotations

import importlib.util
import io
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats.protobuf import framed
from dsprep.formats.recordio import MAX_RECORD
from dsprep.formats.recordio_protobuf import RecordIOProtobuf, TypedBlobs, decode_record
from dsprep.formats.stream import ShardStream
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from dsprep.schema import Choice, Field, Reading, Schema, observe, settle
from tests.formats.layouts import JPEG, LABELS, PNG, encode, pictures, read, shard
from tests.formats.record_messages import record_messages
from tests.formats.test_contract import MAGIC, properties

LAYOUT = RecordIOProtobuf()

# What sagemaker 2.257.7 writes: `write_numpy_to_dense_tensor` and `write_spmatrix_to_sparse_tensor`
# on the arrays [[1, 2, 3], [0.1, -4, 0]] (with labels 0 and 7; 0.5 and -1), [[1, -2, 3],
# [0, 300, -2147483648]] (2 and 1), [[0, 0, 3], [0, 0, 0]] (1 and 0), [[0, 0.1, 3]] (1) and
# [[0, -1, 0, ... 0, 5]] of 303 columns (1.5).
FLOAT32 = (
    "0a23d7ce300000000a1a0a0676616c7565731210120e0a0c0000803f000000400000404012120a0676616c7565731208"
    "12060a04000000000a23d7ce300000000a1a0a0676616c7565731210120e0a0ccdcccc3d000080c00000000012120a06"
    "76616c756573120812060a040000e040"
)
UNLABELED = (
    "0a23d7ce1c0000000a1a0a0676616c7565731210120e0a0c0000803f00000040000040400a23d7ce1c0000000a1a0a06"
    "76616c7565731210120e0a0ccdcccc3d000080c000000000"
)
INT = (
    "0a23d7ce2d0000000a1a0a0676616c75657312103a0e0a0c01feffffffffffffffff0103120f0a0676616c7565731205"
    "3a030a01020000000a23d7ce2e0000000a1b0a0676616c75657312113a0f0a0d00ac0280808080f8ffffffff01120f0a"
    "0676616c75657312053a030a01010000"
)
FLOAT64 = (
    "0a23d7ce400000000a260a0676616c756573121c1a1a0a18000000000000f03f00000000000000400000000000000840"
    "12160a0676616c756573120c1a0a0a08000000000000e03f0a23d7ce400000000a260a0676616c756573121c1a1a0a18"
    "9a9999999999b93f00000000000010c0000000000000000012160a0676616c756573120c1a0a0a08000000000000f0bf"
)
SPARSE32 = (
    "0a23d7ce2e0000000a180a0676616c756573120e120c0a04000040401201021a010312120a0676616c75657312081206"
    "0a040000803f00000a23d7ce250000000a0f0a0676616c756573120512031a010312120a0676616c756573120812060a"
    "0400000000000000"
)
SPARSE64 = (
    "0a23d7ce3b0000000a250a0676616c756573121b1a190a109a9999999999b93f0000000000000840120201021a010312"
    "120a0676616c756573120812060a040000803f00"
)
SPARSE_INT = (
    "0a23d7ce3c0000000a220a0676616c75657312183a160a0bffffffffffffffffff0105120301ae021a02af0212160a06"
    "76616c756573120c1a0a0a08000000000000f83f"
)
THEIRS = {
    "float32": FLOAT32,
    "unlabeled": UNLABELED,
    "int": INT,
    "float64": FLOAT64,
    "sparse32": SPARSE32,
    "sparse64": SPARSE64,
    "sparse int": SPARSE_INT,
}
POINT_ONE = struct.unpack("<f", struct.pack("<f", 0.1))[0]


@pytest.fixture(scope="module")
def messages() -> dict[str, Any]:
    """Protobuf's own classes of the messages in record.proto, by name."""
    return record_messages()


@pytest.fixture(scope="module")
def sagemaker() -> ModuleType:
    """The SDK's module that reads and writes records, without all that its package loads."""
    root = Path(sys.prefix) / "judges" / "sagemaker"
    assert root.is_dir(), f"{root} is missing: `make setup` installs it"
    before = dict(sys.modules)
    try:
        for name in ("sagemaker", "sagemaker.amazon", "sagemaker.utils"):
            sys.modules[name] = ModuleType(name)
        sys.modules["sagemaker.utils"].DeferredError = Exception  # type: ignore[attr-defined]
        for name in ("amazon.record_pb2", "serializer_utils"):
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            found = importlib.util.spec_from_file_location(f"sagemaker.{name}", file)
            assert found is not None and found.loader is not None
            module = importlib.util.module_from_spec(found)
            sys.modules[f"sagemaker.{name}"] = module
            found.loader.exec_module(module)
        return module
    finally:
        for name in [name for name in sys.modules if name.startswith("sagemaker")]:
            del sys.modules[name]
        sys.modules.update(before)


def record_of(sample: Sample, layout: RecordIOProtobuf = LAYOUT) -> bytes:
    """The message that a sample becomes, without its frame."""
    framed = b"".join(layout.encode(sample))
    magic, length = struct.unpack("<4sI", framed[:8])
    assert (magic, len(framed) % 4, len(framed) - 8 - length < 4) == (MAGIC, 0, True)
    assert not any(framed[8 + length :])
    return framed[8 : 8 + length]


def frame(message: bytes) -> bytes:
    return MAGIC + struct.pack("<I", len(message)) + message + bytes(-len(message) % 4)


def read_one(message: bytes) -> Sample:
    (entry,) = read(LAYOUT, frame(message))
    return entry.sample


class TestSageMakerReads:
    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    def test_images(self, labels: Any, sagemaker: ModuleType) -> None:
        samples = pictures(labels)
        records = sagemaker.read_records(io.BytesIO(shard(LAYOUT, samples)))
        assert [list(each.features["image"].bytes.value) for each in records] == [
            [each.data] for each in samples
        ]
        for record, picture in zip(records, samples, strict=True):
            label = picture.label
            if label is None:
                assert not record.label
            else:
                numbers = list(label) if isinstance(label, tuple) else [label]
                assert list(record.label["values"].float32_tensor.values) == numbers

    def test_numbers_as_its_own(self, sagemaker: ModuleType) -> None:
        fields = (Field("y", "class"), Field("values", "list<float32>"))
        layout, _ = LAYOUT.arranged(Schema(fields, None, "y"))
        sample = Sample("a", {"y": 7, "values": (POINT_ONE, -4.0, 0.0)})
        data = b"".join(layout.encode(sample))
        record = sagemaker.read_records(io.BytesIO(data))[0]
        theirs = sagemaker.read_records(io.BytesIO(bytes.fromhex(FLOAT32)))[1]
        theirs.uid = "a"
        assert record == theirs

    def test_the_bytes_kept_here_are_those_it_writes(self, sagemaker: ModuleType) -> None:
        import numpy as np
        from scipy.sparse import csr_matrix

        matrix, numbers = [[1, 2, 3], [0.1, -4, 0]], [[1, -2, 3], [0, 300, -(2**31)]]
        wide = [[0, -1, *[0] * 300, 5]]
        dense, sparse = "write_numpy_to_dense_tensor", "write_spmatrix_to_sparse_tensor"
        single, double = np.float32, np.float64

        def written(how: str, array: Any, labels: Any = None) -> str:
            file = io.BytesIO()
            getattr(sagemaker, how)(file, array, labels)
            return file.getvalue().hex()

        assert {
            "float32": written(dense, np.array(matrix, single), np.array([0, 7], single)),
            "unlabeled": written(dense, np.array(matrix, single)),
            "int": written(dense, np.array(numbers), np.array([2, 1])),
            "float64": written(dense, np.array(matrix, double), np.array([0.5, -1], double)),
            "sparse32": written(
                sparse,
                csr_matrix(np.array([[0, 0, 3], [0, 0, 0]], single)),
                np.array([1, 0], single),
            ),
            "sparse64": written(
                sparse, csr_matrix(np.array([[0, 0.1, 3]], double)), np.array([1], single)
            ),
            "sparse int": written(sparse, csr_matrix(np.array(wide)), np.array([1.5])),
        } == THEIRS


class TestReadsSageMakers:
    @pytest.mark.parametrize(
        ("written", "fields"),
        [
            (
                FLOAT32,
                [
                    {"values": Floats((1.0, 2.0, 3.0)), "label": Floats((0.0,))},
                    {"values": Floats((POINT_ONE, -4.0, 0.0)), "label": Floats((7.0,))},
                ],
            ),
            (
                UNLABELED,
                [{"values": Floats((1.0, 2.0, 3.0))}, {"values": Floats((POINT_ONE, -4.0, 0.0))}],
            ),
            (
                INT,
                [
                    {"values": Ints((1, -2, 3)), "label": Ints((2,))},
                    {"values": Ints((0, 300, -(2**31))), "label": Ints((1,))},
                ],
            ),
            (
                FLOAT64,
                [
                    {"values": (1.0, 2.0, 3.0), "label": 0.5},
                    {"values": (0.1, -4.0, 0.0), "label": -1.0},
                ],
            ),
            (
                SPARSE_INT,
                [
                    {
                        "values": {
                            "type": "int32",
                            "values": [-1, 5],
                            "keys": [1, 302],
                            "shape": [303],
                        },
                        "label": 1.5,
                    }
                ],
            ),
        ],
        ids=["float32", "unlabeled", "int", "float64", "sparse int"],
    )
    def test_tensors(self, written: str, fields: list[dict[str, Value]]) -> None:
        samples = [entry.sample for entry in read(LAYOUT, bytes.fromhex(written))]
        assert [each.fields | {"uid": ""} for each in samples] == [
            each | {"uid": ""} for each in fields
        ]
        assert [list(map(type, each.fields.values()))[: len(fields[0])] for each in samples] == [
            list(map(type, each.values())) for each in fields
        ]
        assert [(each.key, each.id) for each in samples] == [
            ("", number) for number in range(len(fields))
        ]

    @pytest.mark.parametrize("written", THEIRS.values(), ids=THEIRS)
    def test_raw_samples_are_written_as_they_were(self, written: str) -> None:
        data = bytes.fromhex(written)
        samples = [entry.sample for entry in read(LAYOUT, data)]
        assert b"".join(b"".join(LAYOUT.encode(each)) for each in samples) == data

    @pytest.mark.parametrize(
        ("written", "types"),
        [
            (FLOAT32, {"values": "list<float32>", "label": "class"}),
            (UNLABELED, {"values": "list<float32>"}),
            (INT, {"values": "list<int>", "label": "class"}),
            (FLOAT64, {"values": "list<float64>", "label": "float32"}),
            (SPARSE_INT, {"values": "json", "label": "float32"}),
        ],
        ids=["float32", "unlabeled", "int", "float64", "sparse int"],
    )
    def test_types(self, written: str, types: dict[str, str]) -> None:
        raw = [entry.sample for entry in read(LAYOUT, bytes.fromhex(written))]
        found = settle(observe(raw, LAYOUT, Choice()), LAYOUT, Choice(no_image=True), "set")
        assert {each.name: each.type for each in found.schema.fields} == types
        assert found.schema.label == ("label" if "label" in types else None)
        for each in raw:
            assert Reading(found.schema, LAYOUT, found.ignored)(each).fields.keys() == types.keys()


names = st.sampled_from(["a", "values", "label", "label.b", "features.a", "image", "uid"]) | (
    st.sampled_from(["metadata", "configuration", "é", ""])
)
singles = st.floats(width=32, allow_nan=False)
int32s = st.integers(-(2**31), 2**31 - 1)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1)
values: st.SearchStrategy[Value] = st.one_of(
    st.just(Blobs((JPEG,))),
    st.lists(singles, max_size=3).map(Floats),
    st.lists(int32s, max_size=3).map(Ints),
    st.lists(st.binary(max_size=3), max_size=3).map(Blobs),
    st.floats(allow_nan=False),
    st.lists(st.floats(allow_nan=False), max_size=3).filter(lambda each: len(each) != 1).map(tuple),
    st.none(),
)
entries = st.dictionaries(
    names.map(lambda name: "features." + name if name in ("uid", "metadata") else name).filter(
        lambda name: name != "configuration"
    ),
    values,
    max_size=5,
)
samples = st.builds(Sample, keys, entries)


class TestEntries:
    @properties
    @given(samples)
    def test_come_back(self, sample: Sample) -> None:
        back = read_one(record_of(sample))
        named = {
            name.removeprefix("features.") if name == "features.a" else name: value
            for name, value in sample.fields.items()
        }
        assert back.key == sample.key
        assert {name: repr(each) for name, each in back.fields.items() if name != "uid"} == {
            name: repr(each) for name, each in named.items()
        }

    def test_a_content_type_stays(self) -> None:
        blobs = TypedBlobs((JPEG,))
        blobs.content_type = "image/jpeg"
        message = record_of(Sample("k", {"image": blobs}))
        back = read_one(message)
        assert back.fields == {"image": (JPEG,)}
        assert record_of(back) == message
        assert record_of(Sample("k", {"image": PNG})) != message

    def test_a_label_that_is_told_by_a_list(self) -> None:
        (label,) = read_one(record_of(Sample("k", {"label": 3}))).fields.values()
        assert (type(label), label) == (Floats, (3.0,))

    def test_of_a_large_record(self) -> None:
        class Huge(bytes):
            def __len__(self) -> int:
                return MAX_RECORD

        with pytest.raises(BadSample, match="but a RecordIO record holds 536870911"):
            LAYOUT.encode(Sample("k", {"image": Blobs((Huge(),))}))


class TestArranged:
    @pytest.mark.parametrize(
        ("kind", "value", "raw"),
        [
            ("int", 2**31 - 1, Ints((2**31 - 1,))),
            ("int", -(2**31) - 1, -(2.0**31) - 1),
            ("list<int>", (1, 2**40), (1.0, 2.0**40)),
            ("bool", True, Ints((1,))),
            ("class", -1, Ints((-1,))),
            ("float32", 0.5, Floats((0.5,))),
            ("float64", 0.1, 0.1),
            ("list<float64>", (0.1, 2.0), (0.1, 2.0)),
            ("text", "ü", Blobs(("ü".encode(),))),
            ("list<text>", ("a", ""), Blobs((b"a", b""))),
            ("json", b"{}", Blobs((b"{}",))),
        ],
    )
    def test_values(self, kind: str, value: Value, raw: Value) -> None:
        fields = (Field("x", kind), Field("img", "image", missing=True))
        layout, notes = LAYOUT.arranged(Schema(fields, "img", None, "other"))
        sample = read_one(record_of(Sample("k", {"x": value}), layout))
        assert (notes, repr(sample.fields)) == ([], repr({"x": raw}))
        assert layout.schema is not None
        assert Reading(layout.schema, LAYOUT)(sample).fields == {"x": value}

    def test_whole_numbers_that_no_tensor_holds(self) -> None:
        fields = (Field("x", "int"), Field("img", "image", missing=True))
        layout, _ = LAYOUT.arranged(Schema(fields, "img"))
        with pytest.raises(
            BadSample, match="the field 'x' is .*: a record holds whole numbers from"
        ):
            layout.encode(Sample("k", {"x": 2**53 + 1}))

    def test_features_that_floats_change(self) -> None:
        layout, _ = LAYOUT.arranged(Schema((Field("a", "int"), Field("time", "int")), None))
        told = "the field 'time' is 1112486027, which .* do not hold exactly: --drop time leaves it"
        with pytest.raises(BadSample, match=told):
            layout.encode(Sample("k", {"a": 1, "time": 1_112_486_027}))

    @pytest.mark.parametrize("label", [2**24 + 1, -(2**60) - 1])
    def test_classes_that_floats_change(self, label: int) -> None:
        layout, _ = LAYOUT.arranged(Schema((Field("y", "class"),), None, "y"))
        with pytest.raises(BadSample, match="which 32-bit floats do not hold exactly"):
            layout.encode(Sample("k", {"y": label}))

    def test_names(self) -> None:
        fields = (
            Field("img", "image"),
            Field("y", "class"),
            Field("label", "text"),
            Field("uid", "int", given=True),
            Field("n", "int"),
        )
        layout, _ = LAYOUT.arranged(Schema(fields, "img", "y", "other"))
        assert layout.schema is not None
        assert [each.places for each in layout.schema.fields] == [
            ((name,),) for name in ("image", "label", "features.label", "features.uid", "n")
        ]
        own = (Field("n", "int", places=(("label.x",),)),)
        layout, _ = LAYOUT.arranged(Schema(own, None, None, "recordio-protobuf"))
        assert layout.schema is not None
        assert layout.schema.fields == own
        new = (Field("y", "class"),)
        layout, _ = LAYOUT.arranged(Schema(new, None, "y", "recordio-protobuf"))
        assert layout.schema is not None
        assert layout.schema.fields[0].places == (("label",),)
        with pytest.raises(OptionError, match="'image' would be the entry 'image', which is the"):
            LAYOUT.arranged(Schema((*fields, Field("image", "text")), "img", "y", "other"))


class TestProtobuf:
    @properties
    @given(samples)
    def test_the_bytes_are_those_of_protobuf(
        self, messages: dict[str, Any], sample: Sample
    ) -> None:
        message = record_of(sample)
        parsed = messages["Record"].FromString(message)
        if not one_begins_another(parsed.features):
            assert parsed.SerializeToString(deterministic=True) == message

    def test_the_bytes_of_pictures(self, messages: dict[str, Any]) -> None:
        for labels in LABELS.values():
            for picture in pictures(labels):
                message = encode(LAYOUT, picture)
                (length,) = struct.unpack_from("<I", message, 4)
                message = message[8 : 8 + length]
                parsed = messages["Record"].FromString(message)
                assert parsed.SerializeToString(deterministic=True) == message

    @properties
    @given(st.data())
    def test_any_record_is_written_back_as_it_was(
        self, messages: dict[str, Any], data: st.DataObject
    ) -> None:
        record = messages["Record"](uid=data.draw(keys))
        for name in data.draw(st.lists(names.map(lambda each: each or "z"), max_size=4)):
            fill(record.features[name], data)
        for name in data.draw(st.lists(names, max_size=2)):
            fill(record.label[f"of {name}"], data)
        for name in data.draw(st.sets(st.sampled_from(["configuration", "metadata"]))):
            setattr(record, name, data.draw(st.sampled_from(["{}", "[" * 9999, "é"])))
        after = messages["Record"].FromString(record_of(read_one(record.SerializeToString())))
        written = after.SerializeToString(deterministic=True)
        assert written == record.SerializeToString(deterministic=True)

    def test_unpacked_lists_and_any_order(self, messages: dict[str, Any]) -> None:
        def field(number: int, data: bytes) -> bytes:
            return bytes((number << 3 | 2, len(data))) + data

        unpacked = b"\x0d\0\0\x80\x3f\x10\x05\x18\x09\x0d\0\0\0\x40\x0a\x04\0\0\x40\x40\x78\x01"
        numbers = b"\x08\x01\x08" + b"\xff" * 9 + b"\x01\x0a\x02\x02\x03"
        message = (
            field(3, b"key")
            + field(2, field(2, field(7, b"\x08\x04")) + field(1, b"values"))
            + field(1, field(1, b"f") + field(2, field(2, unpacked)))
            + field(1, field(1, b"n") + field(2, field(9, b"") + field(7, numbers)))
            + field(9, b"unknown")
        )
        theirs = messages["Record"].FromString(message)
        assert list(theirs.features["n"].int32_tensor.values) == [1, -1, 2, 3]
        sample = read_one(message)
        assert list(theirs.features["f"].float32_tensor.values) == [1, 2, 3]
        assert (sample.key, sample.fields) == (
            "key",
            {
                "label": (4,),
                "f": {"type": "float32", "values": [1, 2, 3], "keys": [5], "shape": [9]},
                "n": (1, -1, 2, 3),
            },
        )

    def test_a_value_in_many_parts(self) -> None:
        """Which takes minutes if each is put to those before it by itself."""
        message = framed(b"\x12", (b"\x12\x66\x0a\x64" + bytes(100)) * 50_000)
        value = decode_record(framed(b"\x0a", message))[0][""]
        assert isinstance(value, Floats)
        assert len(value) == 1_250_000

    @properties
    @given(st.binary(max_size=40))
    def test_any_bytes_as_protobuf(self, messages: dict[str, Any], data: bytes) -> None:
        from google.protobuf.message import DecodeError

        try:
            features, labels, texts = decode_record(data)
        except ValueError:
            return
        try:
            theirs = messages["Record"].FromString(data)
        except DecodeError:
            return
        assert texts == [theirs.uid, theirs.metadata, theirs.configuration]
        assert sorted(features) == sorted(theirs.features)


def one_begins_another(keys: Any) -> bool:
    """Whether a key is the beginning of another: the only ones that upb sorts the other way round.

    C++ and Java put the shorter one first, and so does dsprep.
    """
    return any(one != two and two.startswith(one) for one in keys for two in keys)


def fill(value: Any, data: st.DataObject) -> None:
    """Put something into a message Value."""
    kind = data.draw(st.sampled_from(["none", "bytes", "float32", "float64", "int32"]))
    if kind == "none":
        value.SetInParent()
    elif kind == "bytes":
        value.bytes.SetInParent()
        value.bytes.value.extend(data.draw(st.lists(st.binary(max_size=5), max_size=2)))
        if data.draw(st.booleans()):
            value.bytes.content_type = data.draw(st.sampled_from(["image/png", "text/plain"]))
    else:
        tensor = getattr(value, f"{kind}_tensor")
        tensor.SetInParent()
        numbers = int32s if kind == "int32" else singles if kind == "float32" else st.floats()
        tensor.values.extend(data.draw(st.lists(numbers, max_size=3)))
        for places in (tensor.keys, tensor.shape):
            if data.draw(st.booleans()):
                places.extend(data.draw(st.lists(st.integers(0, 2**64 - 1), max_size=2)))


class TestKeys:
    @pytest.mark.parametrize(
        ("uid", "key", "path"),
        [
            ("a.b/c.d.e", "a.b/c_d_e", ""),
            ("d/a.b.jpg", "d/a_b", "d/a.b.jpg"),
            (".jpg", "_jpg", ".jpg"),
        ],
    )
    def test_a_uid_that_is_no_key(self, uid: str, key: str, path: str) -> None:
        message = b"\x1a" + bytes((len(uid),)) + uid.encode()
        sample = read_one(message)
        assert (sample.key, sample.path, sample.fields) == (key, path, {"uid": uid})
        assert record_of(sample) == message
        sample.key = "other"
        assert record_of(sample) == b"\x1a\x05other"

    def test_no_uid(self) -> None:
        (sample, _) = (entry.sample for entry in read(LAYOUT, frame(b"") * 2))
        sample.key = "made-0000000"
        assert record_of(sample) == b""


class TestDamage:
    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"\x0a\x23\xd7\xcf\0\0\0\0", "at byte 0: a record should begin here"),
            (frame(b"") + MAGIC + b"\0\0\0\x20", "at byte 8: a part of a record"),
            (MAGIC + b"\xff\xff\xff\x1f", r"at byte 8: a record needs 536870912 bytes"),
            (frame(b"")[:-1], "at byte 0: the head of a record needs 8 bytes"),
            (frame(b"\x0a\x05abc"), "at byte 0: the record is not a Record: a field that is long"),
            (frame(b"\x1a\x01\xff"), "at byte 0: the record is not a Record: .*utf-8"),
        ],
    )
    def test_is_told(self, data: bytes, problem: str) -> None:
        with pytest.raises(DamagedShard, match=problem):
            read(LAYOUT, data)

    def test_spans_are_the_entries(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pb"
        path.write_bytes(shard(LAYOUT, pictures(LABELS["class"])))
        with ShardStream(str(path), headers=True) as stream:
            spans = [(each.offset, each.size, each.id) for each in LAYOUT.spans(stream)]
        entries = read(LAYOUT, path.read_bytes())
        assert spans == [(each.offset, each.size, each.sample.id) for each in entries]
