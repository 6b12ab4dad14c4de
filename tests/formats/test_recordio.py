"""RecordIO: MXNet and im2rec read what dsprep writes, and dsprep what they write."""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats.recordio import LARGEST_CLASS, MAX_RECORD, RecordIO, _split
from dsprep.formats.stream import ShardStream
from dsprep.plan.cut import ShardSize, plan_shards
from dsprep.rows import Rows
from dsprep.sample import Floats, Sample
from dsprep.schema import Choice, Field, Reading, Schema, observe, settle
from tests.formats.layouts import (
    HEIGHT,
    JPEG,
    LABELS,
    PATHS,
    WIDTH,
    Label,
    Picture,
    catalog_rows,
    encode,
    pictures,
    read,
    shard,
    write,
)
from tests.formats.test_contract import MAGIC, any_bytes, properties

LAYOUT = RecordIO()
IM2REC = Path(__file__).parents[2] / "scripts" / "bench" / "peers" / "im2rec.py"


def rows_of(samples: Sequence[Picture]) -> Rows:
    labels = [each.label for each in samples]
    return Rows(
        [each.index for each in samples],
        [each.path for each in samples],
        [len(each.data) for each in samples],
        None if labels[0] is None else labels,  # type: ignore[arg-type]
    )


def write_all(samples: Sequence[Picture], directory: Path) -> Path:
    """Write a shard and its sidecars; returns the shard's path."""
    path = write(LAYOUT, samples, directory / "train.rec")
    sizes = [len(encode(LAYOUT, each)) for each in samples]
    for suffix, data in LAYOUT.sidecars(rows_of(samples), sizes).items():
        path.with_suffix(suffix).write_bytes(data)
    return path


def numbers(label: Label) -> list[float]:
    return [0.0] if label is None else list(label) if isinstance(label, tuple) else [float(label)]


class TestMXNetReads:
    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    def test_indexed(self, labels: Sequence[Label], tmp_path: Path, mxnet: ModuleType) -> None:
        samples = pictures(labels)
        path = write_all(samples, tmp_path)
        record = mxnet.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")
        assert record.keys == [each.index for each in samples]
        for picture in reversed(samples):
            header, data = mxnet.recordio.unpack(record.read_idx(picture.index))
            assert data == picture.data
            assert (header.id, header.id2) == (picture.index, 0)
            if header.flag:
                assert header.flag == len(header.label)
                assert list(header.label) == numbers(picture.label)
            else:
                assert [header.label] == numbers(picture.label)
        record.close()

    @pytest.mark.parametrize("kind", ["none", "class", "fraction", "several"])
    def test_image_record_iter(self, kind: str, tmp_path: Path, mxnet: ModuleType) -> None:
        samples = pictures(LABELS[kind])
        path = write_all(samples, tmp_path)
        width = len(numbers(samples[0].label))
        reader = mxnet.io.ImageRecordIter(
            path_imgrec=str(path),
            path_imgidx=str(path.with_suffix(".idx")),
            data_shape=(3, HEIGHT, WIDTH),
            batch_size=len(samples),
            label_width=width,
            preprocess_threads=1,
        )
        (batch,) = reader
        self.compare(batch, samples, mxnet)

    @pytest.mark.parametrize("kind", ["none", "class", "fraction", "several"])
    def test_image_iter(self, kind: str, tmp_path: Path, mxnet: ModuleType) -> None:
        samples = pictures(LABELS[kind])
        path = write_all(samples, tmp_path)
        reader = mxnet.image.ImageIter(
            path_imgrec=str(path),
            path_imgidx=str(path.with_suffix(".idx")),
            data_shape=(3, HEIGHT, WIDTH),
            batch_size=len(samples),
            label_width=len(numbers(samples[0].label)),
        )
        (batch,) = reader
        self.compare(batch, samples, mxnet)

    def compare(self, batch: Any, samples: Sequence[Picture], mxnet: ModuleType) -> None:
        assert batch.pad in (0, None)
        labels = batch.label[0].reshape((len(samples), -1)).asnumpy().tolist()
        assert labels == [numbers(each.label) for each in samples]
        for pixels, picture in zip(batch.data[0], samples, strict=True):
            decoded = mxnet.image.imdecode(picture.data).transpose((2, 0, 1))
            assert (pixels.asnumpy() == decoded.astype("float32").asnumpy()).all()

    def test_detection_labels(self, tmp_path: Path, mxnet: ModuleType) -> None:
        samples = pictures(LABELS["detection"])
        path = write_all(samples, tmp_path)
        reader = mxnet.image.ImageDetIter(
            path_imgrec=str(path),
            path_imgidx=str(path.with_suffix(".idx")),
            data_shape=(3, HEIGHT, WIDTH),
            batch_size=len(samples),
        )
        (batch,) = reader
        found = batch.label[0].asnumpy().tolist()
        for boxes, picture in zip(found, samples, strict=True):
            label = numbers(picture.label)
            head, size = int(label[0]), int(label[1])
            objects = [label[at : at + size] for at in range(head, len(label), size)]
            assert boxes[: len(objects)] == objects

    @properties
    @given(
        st.integers(0, 2**64 - 1) | st.just(int.from_bytes(MAGIC, "little")),
        st.sampled_from([3, (0.5,), (1.0, 2.0), (1.0, 2.0, 3.0, 4.0)]),
        any_bytes.filter(bool),
    )
    @example(0, struct.unpack("<f", MAGIC), MAGIC * 3)
    @example(0, struct.unpack("<2f", MAGIC * 2), b"a")
    def test_the_bytes_are_those_that_mxnet_writes(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        mxnet: ModuleType,
        index: int,
        label: Any,
        data: bytes,
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "theirs.rec"
        alone = isinstance(label, tuple) and len(label) == 1
        header = mxnet.recordio.IRHeader(0, label[0] if alone else label, index, 0)
        writer = mxnet.recordio.MXRecordIO(str(path), "w")
        writer.write(mxnet.recordio.pack(header, data))
        writer.close()
        ours = encode(LAYOUT, Picture(index, "a.jpg", data, label))
        assert ours == path.read_bytes()
        (entry,) = read(LAYOUT, ours)
        assert entry[:2] == (0, len(ours))
        assert entry.sample.id == index
        assert entry.sample.fields.get("image", b"") == data


@pytest.mark.usefixtures("mxnet")
class TestIm2rec:
    """im2rec packs the same images by the list that dsprep wrote: the files must be the same."""

    @pytest.mark.parametrize(("kind", "options"), [("class", []), ("several", ["--pack-label"])])
    def test_makes_the_same_shard_of_the_same_list(
        self, kind: str, options: list[str], tmp_path: Path
    ) -> None:
        samples = pictures(LABELS[kind])
        ours = tmp_path / "ours"
        ours.mkdir()
        path = write_all(samples, ours)
        for each in samples:
            image = tmp_path / "images" / each.path
            image.parent.mkdir(parents=True, exist_ok=True)
            image.write_bytes(each.data)
        (tmp_path / "train.lst").write_bytes(path.with_suffix(".lst").read_bytes())
        subprocess.run(
            [sys.executable, IM2REC, "train", "images", "--pass-through", *options],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
        assert (tmp_path / "train.rec").read_bytes() == path.read_bytes()
        assert (tmp_path / "train.idx").read_bytes() == path.with_suffix(".idx").read_bytes()
        found = [entry.sample for entry in read(LAYOUT, (tmp_path / "train.rec").read_bytes())]
        assert [sample.fields["image"] for sample in found] == [each.data for each in samples]
        assert [list(sample.fields["label"]) for sample in found] == [
            numbers(each.label) for each in samples
        ]


class TestReadsWhatMXNetWrites:
    def test_records_of_every_kind(self, tmp_path: Path, mxnet: ModuleType) -> None:
        path = tmp_path / "theirs.rec"
        pack, header = mxnet.recordio.pack, mxnet.recordio.IRHeader
        writer = mxnet.recordio.MXRecordIO(str(path), "w")
        magic = int.from_bytes(MAGIC, "little")
        writer.write(pack(header(0, 4.0, 7, 0), JPEG))
        writer.write(pack(header(0, [4.0], 8, 0), JPEG + MAGIC * 2))
        writer.write(pack(header(0, 0.5, magic, 0), JPEG))
        writer.write(pack(header(0, [1.0, 2.0], 0, 0), b""))  # as InsightFace's files begin
        writer.close()
        found = [entry.sample for entry in read(LAYOUT, path.read_bytes())]
        one = struct.pack("<IfQQf", 1, 0.0, 8, 0, 4.0)  # a header that no label tells
        assert found == [
            Sample("7", {"image": JPEG, "label": (4.0,)}, 7),
            Sample("8", {"image": JPEG + MAGIC * 2, "label": (4.0,), "header": one}, 8),
            Sample(str(magic), {"image": JPEG, "label": (0.5,)}, magic),
            Sample("0", {"label": (1.0, 2.0)}, 0),
        ]
        assert b"".join(b"".join(LAYOUT.encode(each)) for each in found) == path.read_bytes()
        with ShardStream(str(path), headers=True) as stream:
            fields = [each.fields for each in LAYOUT.spans(stream)]
        assert fields == [("image", "label")] * 3 + [("label",)]


class TestGoldenBytes:
    @pytest.mark.parametrize(
        ("payload", "file"),
        [
            ("61626364656667", "0a23d7ce 07000000 61626364 65666700"),
            ("", "0a23d7ce 00000000"),
            ("0a23d7ce", "0a23d7ce 00000020 0a23d7ce 00000060"),
            ("61626364 0a23d7ce 65", "0a23d7ce 04000020 61626364 0a23d7ce 01000060 65000000"),
            ("61 0a23d7ce 626364", "0a23d7ce 08000000 610a23d7 ce626364"),
        ],
    )
    def test_payloads(self, payload: str, file: str, tmp_path: Path, mxnet: ModuleType) -> None:
        data, golden = bytes.fromhex(payload), bytes.fromhex(file)
        assert b"".join(_split(data)) == golden
        (tmp_path / "golden.rec").write_bytes(golden)
        reader = mxnet.recordio.MXRecordIO(str(tmp_path / "golden.rec"), "r")
        assert reader.read() == data
        reader.close()

    def test_a_sample(self) -> None:
        assert encode(LAYOUT, Picture(9, "a.jpg", b"\xff\xd8\xff", 2)) == bytes.fromhex(
            "0a23d7ce 1b00000000000000 00000040 0900000000000000 0000000000000000ffd8ff 00"
        )
        assert encode(LAYOUT, Picture(9, "a.jpg", b"\xff\xd8\xff", (2.0, -1.0))) == bytes.fromhex(
            "0a23d7ce 23000000"
            "02000000 00000000 0900000000000000 0000000000000000"
            "00000040 000080bf ffd8ff 00"
        )

    def test_sidecars(self) -> None:
        rows = Rows([3, 1], ["b c.jpg", "d/a.jpg"], [5, 6], [7, -1])
        assert LAYOUT.sidecars(rows, [40, 44]) == {
            ".idx": b"3\t0\n1\t40\n",
            ".lst": b"3\t7\tb c.jpg\n1\t-1\td/a.jpg\n",
        }
        rows = Rows([3], ["ü.jpg"], [5], [(4.0, 0.1, -1e-7, 1e22)])
        assert LAYOUT.sidecars(rows, [40])[".lst"] == "3\t4\t0.1\t-1e-07\t1e+22\tü.jpg\n".encode()
        rows = Rows([3], ["a.jpg"], [5], None)
        assert LAYOUT.sidecars(rows, [40])[".lst"] == b"3\t0\ta.jpg\n"


class TestMagicInPayloads:
    def test_each_adds_four_bytes_at_most(self) -> None:
        for at in range(8):
            data = JPEG[:3] + bytes(at) + MAGIC
            (weight,) = LAYOUT.weights(catalog_rows([Picture(0, "a.jpg", data, 1)]))
            assert weight <= len(encode(LAYOUT, Picture(0, "a.jpg", data, 1))) <= weight + 4

    def test_sixteen_of_them_fit_into_a_shard_of_the_target_size(self, tmp_path: Path) -> None:
        samples = [Picture(i, f"{i}.jpg", JPEG[:4] + MAGIC * 4 + bytes(64), 1) for i in range(4)]
        weights = LAYOUT.weights(catalog_rows(samples))
        target = sum(weights) + 64
        assert len(plan_shards(weights, ShardSize(target=target), LAYOUT, "{}{}".format)) == 1
        assert len(shard(LAYOUT, samples)) == target


class TestRaw:
    """A record is laid out again as it was, but for what has changed."""

    HEADER = struct.pack("<IfQQ", 0, 1.0, 2, 3)

    def test_a_second_id_stays_until_label_or_id_change(self) -> None:
        data = part(self.HEADER + JPEG)
        (entry,) = read(LAYOUT, data)
        sample = entry.sample
        assert b"".join(LAYOUT.encode(sample)) == data
        for changed in (
            Sample("2", sample.fields | {"label": 5}, 2),
            Sample("9", sample.fields, 9),
        ):
            (again,) = read(LAYOUT, b"".join(LAYOUT.encode(changed)))
            assert "header" not in again.sample.fields

    def test_without_a_label_it_is_a_placeholder(self) -> None:
        (entry,) = read(LAYOUT, b"".join(LAYOUT.encode(Sample("4", {"image": JPEG}, 4))))
        assert entry.sample.fields == {"image": JPEG, "label": (0.0,)}

    @pytest.mark.parametrize(
        ("labels", "kind"),
        [
            ([(3.0,), (-1.0,)], "class"),
            ([(3.0,), (0.5,)], "float32"),
            ([(3.0,), (0.5, 1.0)], "list<float32>"),
        ],
    )
    def test_labels_of_all_records_have_one_type(
        self, labels: list[tuple[float, ...]], kind: str
    ) -> None:
        raw = [Sample("0", {"image": JPEG, "label": Floats(each)}) for each in labels]
        for choice in (Choice(), Choice(label="label")):
            found = settle(observe(raw, LAYOUT, choice), LAYOUT, choice, "set")
            label = found.schema.label_field
            assert label is not None
            assert (label.type, list(found.schema.by_name)) == (kind, ["image", "label"])


def arranged(kind: str | None, *others: Field) -> tuple[RecordIO, list[str]]:
    """The layout of samples with a label of a type and other fields."""
    label = (Field("y", kind),) if kind else ()
    fields = (Field("img", "image"), *label, *others)
    return LAYOUT.arranged(Schema(fields, "img", "y" if kind else None, "other"))


class TestArranged:
    @pytest.mark.parametrize(
        ("kind", "label", "written"),
        [
            ("class", 3, (3.0,)),
            ("bool", True, (1.0,)),
            ("float32", 0.5, (0.5,)),
            ("float64", 0.5, (0.5,)),
            ("list<int>", (0, 1, 0), (0.0, 1.0, 0.0)),
            ("list<float32>", (0.5,), (0.5,)),
            (None, None, (0.0,)),
        ],
    )
    def test_labels(self, kind: str | None, label: Any, written: tuple[float, ...]) -> None:
        layout, notes = arranged(kind)
        fields = {"img": JPEG} | ({"y": label} if kind else {})
        (entry,) = read(LAYOUT, b"".join(layout.encode(Sample("k", fields, 4))))
        assert entry.sample.fields == {"image": JPEG, "label": written}
        assert (entry.sample.id, entry.sample.key) == (4, "4")
        assert bool(notes) == (kind == "float64")
        assert layout.schema is not None
        reading = Reading(layout.schema, LAYOUT, frozenset() if kind else frozenset({"label"}))
        assert reading(entry.sample).fields == fields

    def test_facts_are_left_out_with_a_note(self) -> None:
        layout, notes = arranged("class", Field("width", "int"), Field("format", "text"))
        assert notes == ["left out, because a record has no place for it: width, format"]
        assert layout.schema is not None
        assert list(layout.schema.by_name) == ["img", "y"]

    def test_other_fields_are_refused_all_at_once(self) -> None:
        others = (Field("caption", "text"), Field("width", "int"), Field("mask", "image"))
        with pytest.raises(OptionError, match=r"--drop caption,mask, or --only image,label"):
            arranged("class", *others)
        with pytest.raises(OptionError, match=r"--drop caption,mask, or --only image$"):
            arranged(None, *others)

    def test_labels_that_are_text(self) -> None:
        with pytest.raises(OptionError, match="the label is text.*give --label-type class"):
            arranged("text")

    def test_a_data_set_without_an_image(self) -> None:
        with pytest.raises(OptionError, match="a record needs an image"):
            LAYOUT.arranged(Schema((Field("y", "class"),), None, "y"))

    @pytest.mark.parametrize(
        ("fields", "problem"), [({"img": JPEG}, "has no label"), ({"y": 3}, "has no image")]
    )
    def test_samples_that_lack_something(self, fields: dict[str, Any], problem: str) -> None:
        with pytest.raises(BadSample, match=f"{problem}, and a record needs one"):
            arranged("class")[0].encode(Sample("k", fields))

    @pytest.mark.parametrize("id", [-1, 2**64])
    def test_an_id_that_no_header_holds(self, id: int) -> None:
        with pytest.raises(BadSample, match=f"the id {id} is not a number from 0"):
            arranged("class")[0].encode(Sample("k", {"img": JPEG, "y": 3}, id))

    @pytest.mark.parametrize("label", [16777217.0, -16777219.0, 2.0**53 - 1, 1e20])
    def test_whole_numbers_that_would_change(self, label: float) -> None:
        for labels in [(label,), (0.5, label)]:
            with pytest.raises(BadSample, match=f"the label is {label:.0f}, which 32-bit floats"):
                arranged("list<float64>")[0].encode(Sample("k", {"img": JPEG, "y": labels}))


class TestRefuses:
    @pytest.mark.parametrize(
        "path", ["a\tb.jpg", "a\nb.jpg", "a\rb.jpg", " a.jpg", "a.jpg ", "\u3000a.jpg", "a.jpg\xa0"]
    )
    def test_names_that_a_list_cannot_hold(self, path: str) -> None:
        with pytest.raises(BadSample, match=r"a \.lst cannot hold a name with a tab"):
            encode(LAYOUT, Picture(0, path, JPEG))

    @pytest.mark.parametrize("path", ["a b.jpg", "d/ a .jpg", "a\u2028b.jpg", *PATHS])
    def test_no_others(self, path: str) -> None:
        assert encode(LAYOUT, Picture(0, path, JPEG))

    def test_class_numbers_that_floats_change(self) -> None:
        for number in (LARGEST_CLASS, -LARGEST_CLASS):
            (entry,) = read(LAYOUT, encode(LAYOUT, Picture(0, "a.jpg", JPEG, number)))
            assert entry.sample.fields["label"] == (number,)
            with pytest.raises(BadSample, match="which 32-bit floats do not hold exactly"):
                encode(LAYOUT, Picture(0, "a.jpg", JPEG, number + (1 if number > 0 else -1)))

    @pytest.mark.parametrize("label", [(1e39,), (0.0, -1e300)])
    def test_labels_beyond_floats(self, label: tuple[float, ...]) -> None:
        with pytest.raises(BadSample, match="beyond 32-bit floats"):
            encode(LAYOUT, Picture(0, "a.jpg", JPEG, label))

    def test_records_of_2_to_the_29_bytes(self) -> None:
        largest = {"image": bytes(MAX_RECORD - 24), "label": Floats((1.0,))}
        assert sum(map(len, LAYOUT.encode(Sample("a", largest)))) == 1 << 29 | 8
        with pytest.raises(BadSample, match="536870912 bytes, but a RecordIO record holds"):
            LAYOUT.encode(Sample("a", {"image": bytes(MAX_RECORD - 23)}))


def part(data: bytes, flag: int = 0, length: int | None = None) -> bytes:
    word = flag << 29 | (len(data) if length is None else length)
    return MAGIC + struct.pack("<I", word) + data + bytes(-len(data) % 4)


HEADER = struct.pack("<IfQQ", 0, 1.0, 2, 0)


class TestDamage:
    @pytest.mark.parametrize(
        ("data", "problem", "offset"),
        [
            pytest.param(b"\0" * 8, "magic number is not there", 0, id="no magic"),
            pytest.param(part(HEADER) + b"\0" * 8, "magic number", 32, id="no second magic"),
            pytest.param(part(HEADER, 2), "flag 2 does not belong here", 0, id="middle first"),
            pytest.param(part(HEADER, 3), "flag 3 does not belong here", 0, id="last first"),
            pytest.param(part(HEADER, 1) + part(b"", 0), "flag 0", 32, id="whole inside"),
            pytest.param(part(HEADER, 1) + part(b"", 1), "flag 1", 32, id="first inside"),
            pytest.param(part(HEADER, 5), "flag 5", 0, id="an unknown flag"),
            pytest.param(part(HEADER, 1), "needs 8 bytes, but", 32, id="no last"),
            pytest.param(part(HEADER, 0, 29), "needs 32 bytes", 8, id="a part past the end"),
            pytest.param(part(b"abc"), "too short for the header", 0, id="no header"),
            pytest.param(part(b""), "too short for the header", 0, id="empty"),
            pytest.param(
                part(struct.pack("<IfQQ", 3, 0.0, 2, 0) + bytes(11)), "has 3 labels", 0, id="labels"
            ),
            pytest.param(
                part(struct.pack("<IfQQ", 2**32 - 1, 0.0, 2, 0)),
                "has 4294967295 labels",
                0,
                id="many",
            ),
        ],
    )
    def test_is_found(self, data: bytes, problem: str, offset: int) -> None:
        with pytest.raises(DamagedShard, match=problem) as caught:
            read(LAYOUT, data)
        assert caught.value.offset == offset

    def test_a_flipped_bit_in_a_frame_is_found(self) -> None:
        data = shard(LAYOUT, [Picture(0, "a.jpg", JPEG[:3], 1)] * 2)
        for position in range(8):
            for bit in range(8):
                flipped = bytearray(data)
                flipped[position] ^= 1 << bit
                # A length that pads to the same size moves nothing.
                if (position, bit) in [(4, 0), (4, 1)]:
                    assert len(read(LAYOUT, bytes(flipped))) == 2
                    continue
                with pytest.raises(DamagedShard):
                    read(LAYOUT, bytes(flipped))

    @pytest.mark.parametrize("flag", [0, 1])
    def test_memory_does_not_follow_the_length(self, flag: int) -> None:
        tracemalloc.start()
        try:
            with pytest.raises(DamagedShard, match="the file ends after"):
                read(LAYOUT, part(HEADER, flag, MAX_RECORD))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000

    @pytest.mark.parametrize("label", [float("nan"), float("inf"), float("-inf")])
    def test_a_label_that_is_no_number_is_kept_as_it_is(self, label: float) -> None:
        (entry,) = read(LAYOUT, part(struct.pack("<IfQQ", 0, label, 2, 0)))
        (found,) = entry.sample.fields["label"]
        assert struct.pack("<f", found) == struct.pack("<f", label)
