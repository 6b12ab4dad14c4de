"""Any schema and values: written to a format of records and read again, they are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import BadSample, OptionError
from dsprep.formats.base import Format
from dsprep.formats.recordio import RecordIO
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.tfrecord import PRESETS, TFRecord
from dsprep.sample import Sample, Value
from dsprep.schema import FACTS, TYPES, Choice, Field, Reading, Schema, observe, settle
from tests.formats.layouts import read

GIF = b"GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"

LAYOUTS: dict[str, Format] = {
    **{name: TFRecord(name) for name in PRESETS},
    "recordio": RecordIO(),
    "recordio-protobuf": RecordIOProtobuf(),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
properties = settings(max_examples=60, deadline=None)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
key_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="./"), min_size=1)
any_name = st.sampled_from(
    ["label", "image", "y", "metadata", "uid", "label.x", "features.a", "filename", "values"]
    + ["source_id", "image/class/text", *FACTS]
) | text.filter(bool)
SCALARS: dict[str, st.SearchStrategy[Value]] = {
    "image": st.just(GIF),
    "class": st.integers(-1, 2**24),
    "bool": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(width=32, allow_nan=False),
    "text": text,
    "json": st.sampled_from([b"{}", b'{"a": [1]}', b"3"]),
    "bytes": st.binary(max_size=9),
}
LABEL_TYPES = ["class", "float32", "float64", "list<float32>", "list<int>", "bool", "text"]


def values(kind: str) -> st.SearchStrategy[Value]:
    """Any values of a type; those of floats are held by 32 bits, so that nothing is rounded."""
    items = SCALARS[TYPES[kind].item.name]
    return st.lists(items, max_size=3).map(tuple) if TYPES[kind].is_list else items


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[Schema, list[Sample]]:
    """A schema with an image and perhaps a label, and samples of it."""
    names = draw(st.lists(any_name, min_size=2, max_size=6, unique=True))
    kinds = ["image", draw(st.sampled_from(LABEL_TYPES))]
    kinds += [
        draw(st.sampled_from(sorted(kind for kind in TYPES if TYPES[kind].item.name in SCALARS)))
        for _ in names[2:]
    ]
    fields = tuple(
        Field(name, kind, missing=number > 1 and draw(st.booleans()))
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )
    has_label = draw(st.booleans())
    schema = Schema(fields, names[0], names[1] if has_label else None, "other")
    samples = []
    for number in range(draw(st.integers(1, 3))):
        kept = {
            each.name: draw(values(each.type))
            for each in fields
            if not each.missing or draw(st.booleans())
        }
        if isinstance(label := kept.get(names[1]), str):
            kept[names[1]] = label.strip()  # the text of a label is read without blanks at its ends
        key = draw(key_text)
        path = draw(st.sampled_from(["", f"{key}.jpg", "d/other.x.png"]))
        samples.append(Sample(key, kept, number, path, names[0]))
    return schema, samples


def with_facts(sample: Sample, added: list[Field]) -> Sample:
    """A sample with the facts that the format writes by itself."""
    return replace(sample, fields=sample.fields | {each.name: 7 for each in added})


def through(layout: Format, samples: list[Sample]) -> tuple[bytes, list[Sample]]:
    """The bytes of a shard, and the raw samples in it."""
    data = b"".join(
        b"".join(layout.encode(replace(each, fields=dict(each.fields)))) for each in samples
    )
    return data, [entry.sample for entry in read(layout, data)]


def bits(fields: dict[str, Value]) -> dict[str, str]:
    """Values so that types count, and the sign of a zero."""
    return {name: repr(value) for name, value in sorted(fields.items())}


class TestEveryLayout:
    @every_layout
    def test_what_is_written_comes_back(self, layout: Format) -> None:
        @properties
        @given(data_sets())
        def check(made: tuple[Schema, list[Sample]]) -> None:
            schema, samples = made
            if isinstance(layout, RecordIO):
                schema, samples = only_image_and_label(schema, samples)
            try:
                arranged, _ = layout.arranged(schema)
                assert arranged.schema is not None
                added = [each for each in arranged.schema.fields if each.name not in schema.by_name]
                written = [with_facts(each, added) for each in samples]
                data, found = through(arranged, written)
            except (OptionError, BadSample) as error:
                assert str(error)
                return
            assert arranged.schema is not None
            assert {each.name for each in arranged.schema.fields} >= {
                each.name for each in schema.fields
            }
            reading = Reading(arranged.schema, layout, placeholders(arranged.schema, layout))
            for before, raw in zip(written, found, strict=True):
                if not isinstance(layout, RecordIO):
                    assert raw.key == before.key
                after = reading(raw)
                assert bits(after.fields) == bits(before.fields)
                assert after.image == schema.image

        check()

    @every_layout
    def test_raw_samples_are_laid_out_as_they_were(self, layout: Format) -> None:
        @properties
        @given(data_sets())
        def check(made: tuple[Schema, list[Sample]]) -> None:
            schema, samples = made
            if isinstance(layout, RecordIO):
                schema, samples = only_image_and_label(schema, samples)
            try:
                arranged, _ = layout.arranged(schema)
                data, found = through(arranged, samples)
            except (OptionError, BadSample):
                return
            assert arranged.schema is not None
            reading = Reading(arranged.schema, layout, placeholders(arranged.schema, layout), True)
            assert through(layout, list(map(reading, found)))[0] == data
            # Nothing but the shard tells what is in it.
            samples = through(arranged, samples)[1]
            settled = settle(observe(samples, layout, Choice()), layout, Choice(), "set")
            assert settled.schema.image is not None
            for each in samples:
                assert Reading(settled.schema, layout, settled.ignored)(each).image

        check()


@pytest.mark.parametrize(("label", "kind"), [(2.0**62, "class"), (2.0**63, "float32")])
def test_what_no_integer_holds_is_no_class(label: float, kind: str) -> None:
    fields = Field("image", "image"), Field("label", "float32")
    layout, _ = RecordIO().arranged(Schema(fields, "image", "label", "other"))
    _, samples = through(layout, [Sample("a", {"image": GIF, "label": label}, 0, "", "image")])
    settled = settle(observe(samples, layout, Choice()), layout, Choice(), "set")
    found = settled.schema.label_field
    assert found is not None
    assert found.type == kind
    assert Reading(settled.schema, layout, settled.ignored)(samples[0]).fields["label"] == label


def placeholders(schema: Schema, layout: Format) -> frozenset[str]:
    """What is in a record even if the schema does not have it."""
    return layout.placeholders(schema)


def only_image_and_label(schema: Schema, samples: list[Sample]) -> tuple[Schema, list[Sample]]:
    """The same without other fields."""
    names = {schema.image, schema.label}
    fields = tuple(each for each in schema.fields if each.name in names)
    for each in samples:
        each.fields = {name: value for name, value in each.fields.items() if name in names}
    return replace(schema, fields=fields), samples
