"""The schema: what a look finds, how types join, what becomes of samples that do not fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import Misfit, OptionError, SourceError
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Blobs, Floats, Ints, Sample
from dsprep.schema import (
    TYPES,
    Choice,
    Field,
    Reading,
    Schema,
    SettledSchema,
    impose,
    join,
    observe,
    select,
    settle,
)
from dsprep.schema.fields import parse_label
from dsprep.schema.look import type_of
from tests.images import jpeg, png

TABLE = WebDataset()


def settled(*samples: dict[str, object], choice: Choice | None = None) -> SettledSchema:
    """The schema of some raw samples of a WebDataset."""
    choice = choice or Choice()
    raw = [Sample(str(number), dict(fields)) for number, fields in enumerate(samples)]
    return settle(observe(raw, TABLE, choice), TABLE, choice, "set")


def typed(found: SettledSchema, fields: dict[str, object]) -> Sample:
    """A raw sample as the schema has it."""
    return Reading(found.schema, TABLE, found.ignored)(Sample("k", dict(fields)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"3\n", 3),
        (b" 3 ", 3),
        (b"[3]", [3]),
        (b"3.5", 3.5),
        (b"-1", -1),
        (b"[0.5, 1]", [0.5, 1]),
        (b"cat\n", "cat"),
        (b"-", "-"),
        (b"[cat]", "[cat]"),
        (b"3 4", "3 4"),
    ],
)
def test_the_text_of_a_label(text: bytes, value: object) -> None:
    assert parse_label(text) == value


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ("int", "float32", "float32"),
        ("class", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("class", "list<int>", "list<int>"),
        ("text", "list<text>", "list<text>"),
        ("int", "list<float32>", "list<float32>"),
        ("text", "bytes", "bytes"),
        ("class", "text", None),
        ("image", "int", None),
        ("json", "list<int>", None),
    ],
)
def test_types_join(one: str, other: str, joined: str | None) -> None:
    assert join(one, other) == joined == join(other, one)


@given(st.sampled_from(list(TYPES)), st.sampled_from(list(TYPES)), st.sampled_from(list(TYPES)))
def test_what_joins_does_so_in_any_order(one: str, two: str, three: str) -> None:
    def all_of(first: str, *others: str) -> str | None:
        joined: str | None = first
        for other in others:
            joined = None if joined is None else join(joined, other)
        return joined

    left, right = all_of(one, two, three), all_of(three, two, one)
    assert left == right or None in (left, right)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Ints((3,)), "int"),
        (Ints((3, 4)), "list<int>"),
        (Floats((0.5,)), "float32"),
        (Blobs((b"a bird",)), "text"),
        (Blobs((b"\xff",)), "bytes"),
        (Blobs((jpeg(),)), "image"),
        (Blobs((b"a", b"b")), "list<text>"),
        (Ints(), ""),
        (None, ""),
        (True, "bool"),
        (0.5, "float64"),
        ([1, 2.5], "list<float64>"),
        ({"a": 1}, "json"),
    ],
)
def test_the_type_of_a_raw_value(value: object, kind: str) -> None:
    assert type_of(value) == kind


@pytest.mark.parametrize("name", ["jpg", "jpeg", "png", "image.jpg", "rgb.png", "0.jpg"])
def test_one_image_field_is_the_image(name: str) -> None:
    found = settled({name: jpeg(), "cls": b"3"})
    assert found.schema.image_field is not None
    sample = typed(found, {name: jpeg(), "cls": b"4\n"})
    assert sample.image == found.schema.image
    assert sample.fields[str(found.schema.label)] == 4


def test_extensions_of_images_are_one_field_unless_a_sample_has_two() -> None:
    one = settled({"jpg": b"x"}, {"jpeg": b"y"}, {"png": b"z"})
    assert [each.name for each in one.schema.fields] == ["image"]
    assert not one.schema.fields[0].missing
    two = settled({"jpg": jpeg(), "png": png()})
    assert len([each for each in two.schema.fields if each.type == "image"]) == 2


def test_a_second_image_is_no_label() -> None:
    mask = png()
    found = settled({"image": mask, "label": mask}).schema
    assert (found.image, found.label) == ("image", None)
    assert found.by_name["label"].type == "image"


def test_several_images_without_a_usual_name_are_a_question() -> None:
    fields = {"left.png": png(), "right.png": png()}
    with pytest.raises(SourceError, match="--image-field left or --image-field right"):
        settled(fields)
    assert settled(fields, choice=Choice(image="right")).schema.image == "right"


def test_a_label_in_json_is_copied_and_the_json_stays() -> None:
    found = settled(
        {"jpg": jpeg(), "json": b'{"a": {"label": 3}}'}, choice=Choice(label="json.a.label")
    )
    sample = typed(found, {"jpg": b"x", "json": b'{"a": {"label": 5}}'})
    assert sample.fields["label"] == 5
    assert json.loads(sample.fields["json"]) == {"a": {"label": 5}}


def test_any_member_may_be_named_as_the_label() -> None:
    found = settled({"jpg": jpeg(), "target": b"7\n"}, choice=Choice(label="target"))
    assert found.schema.label_field is not None
    assert found.schema.label_field.type == "class"
    assert typed(found, {"jpg": b"x", "target": b"8"}).fields["target"] == 8
    with pytest.raises(OptionError, match="no sample of set has this field"):
        settled({"jpg": jpeg()}, choice=Choice(label="nothing"))


def test_labels_of_two_types_show_both_samples() -> None:
    with pytest.raises(SourceError, match=r"'cls' is b'3' in the sample '0' and b'cat' in '1'"):
        settled({"jpg": b"x", "cls": b"3"}, {"jpg": b"x", "cls": b"cat"})


@pytest.mark.parametrize(
    ("first", "then", "what"),
    [
        ({"jpg": b"x", "cls": b"3"}, {"jpg": b"x", "cls": b"cat"}, "which is not a class number"),
        ({"jpg": b"x", "cls": b"3"}, {"jpg": b"x"}, "lacks the field 'label'.*--look all"),
        ({"jpg": b"x"}, {"jpg": b"x", "new": b"y"}, "has a field 'new'.*--drop new"),
        ({"jpg": b"x", "txt": b"a"}, {"jpg": b"x", "txt": b"\xff"}, "not UTF-8 text"),
        ({"jpg": b"x", "json": b"{}"}, {"jpg": b"x", "json": b"{"}, "not JSON"),
    ],
)
def test_what_does_not_fit_is_a_reject(
    first: dict[str, object], then: dict[str, object], what: str
) -> None:
    with pytest.raises(Misfit, match=what):
        typed(settled(first), then)


def test_a_field_that_some_lack_may_be_missing() -> None:
    found = settled({"jpg": b"x", "txt": b"a"}, {"jpg": b"x"})
    assert found.schema.by_name["text"].missing
    assert typed(found, {"jpg": b"x"}).fields == {"image": b"x"}


def test_only_and_drop_know_roles_and_places() -> None:
    found = settled({"jpg": b"x", "cls": b"3", "txt": b"a", "json": b"{}"})
    kept, idle = select(found, Choice(only=("image", "label")))
    assert [each.name for each in kept.schema.fields] == ["image", "label"]
    assert not idle
    kept, idle = select(found, Choice(drop=("cls", "nothing")))
    assert kept.schema.label is None
    assert idle == ["--drop nothing: no sample has this field"]
    fields = {"jpg": b"x", "cls": b"9", "txt": b"a", "json": b"{}"}
    assert typed(kept, fields).fields == {"image": b"x", "text": "a", "json": b"{}"}


def test_a_renamed_field_keeps_its_role() -> None:
    kept, _ = select(settled({"jpg": b"x", "cls": b"3"}), Choice(rename={"label": "y"}))
    assert kept.schema.label == "y"
    assert kept.schema.by_name["y"].given


def test_a_schema_comes_back_from_json() -> None:
    schema = Schema(
        (
            Field("image", "image", places=(("*",),)),
            Field("label", "class", names=("a", "b"), places=(("json", "label"),)),
            Field("caption", "text", missing=True),
        ),
        "image",
        "label",
        "webdataset",
    )
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@pytest.mark.parametrize(
    "values",
    [
        [],
        {},
        {"fields": [{}]},
        {"fields": [{"name": "a", "type": "tensor"}]},
        {"fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]},
        {"fields": [{"name": "a", "type": "int"}], "image": "a"},
        {"fields": [{"name": "a", "type": "int"}], "label": "b"},
        {"fields": [{"name": 3, "type": "int"}]},
        {"fields": [{"name": "a", "type": "int", "places": [[]]}]},
        {"fields": [{"name": "a", "type": "class", "names": ["x", "x"]}]},
    ],
)
def test_what_is_no_schema_is_refused(values: object) -> None:
    with pytest.raises(ValueError):
        Schema.from_json(values)


def test_a_schema_that_names_what_is_not_there_is_refused() -> None:
    schema = Schema((Field("image", "image"), Field("score", "int")), "image")
    with pytest.raises(SourceError, match="no sample has the field 'score' that --schema names"):
        settled({"jpg": b"x"}, choice=Choice(schema=schema))


def test_a_given_schema_leaves_the_rest_out_and_says_so() -> None:
    schema = Schema((Field("image", "image"), Field("label", "float32")), "image", "label")
    found = settled({"jpg": b"x", "cls": b"3", "txt": b"a"}, choice=Choice(schema=schema))
    assert typed(found, {"jpg": b"x", "cls": b"4", "txt": b"b"}).fields == {
        "image": b"x",
        "label": 4.0,
    }
    assert found.notes == ("left out, because --schema does not name it: txt",)


def test_what_is_appended_gets_the_types_of_what_is_there() -> None:
    base = Schema((Field("image", "image"), Field("label", "float32")), "image", "label")
    found = impose(settled({"jpg": b"x", "cls": b"3"}), base, "shards")
    assert typed(found, {"jpg": b"x", "cls": b"3"}).fields["label"] == 3.0
    with pytest.raises(SourceError, match=r"lack text, which the new ones have: give --drop text"):
        impose(settled({"jpg": b"x", "cls": b"3", "txt": b"a"}), base, "shards")
    with pytest.raises(SourceError, match=r"have the field 'label' \(float32\)"):
        impose(settled({"jpg": b"x"}), base, "shards")


def test_a_label_member_that_is_an_object_is_no_name_of_a_class() -> None:
    found = settled({"jpg": jpeg(), "label.json": b'{"boxes": []}'}).schema
    assert (found.label, found.by_name["label"].type) == (None, "json")


@pytest.mark.parametrize("label", ["json", "json.box", "npy"])
def test_an_object_and_bytes_are_no_label(label: str) -> None:
    sample = {"jpg": jpeg(), "json": b'{"box": {"x": 1}}', "npy": b"\x93NUMPY"}
    with pytest.raises(OptionError, match=f"--label-field {label}: is .*, which is no label"):
        settled(sample, choice=Choice(label=label))


def test_a_label_that_is_wanted_as_text_has_no_other_type() -> None:
    found = settled({"jpg": b"x", "cls": b"3"}, {"cls": b"cat"}, choice=Choice(label_type="text"))
    assert found.schema.label_field is not None
    assert found.schema.label_field.type == "text"


def test_a_given_schema_reaches_into_json() -> None:
    samples = {"jpg": jpeg(), "json": b'{"a": {"b": 0.5}, "c": 1}'}
    first = settled(samples, choice=Choice(label="json.a.b")).schema
    given = Schema.from_json(json.loads(json.dumps(first.to_json())))
    again = settled(samples, choice=Choice(schema=given))
    assert again.schema.label == first.label == "b"
    assert typed(again, samples).fields["b"] == 0.5
    alone = Schema(tuple(each for each in given.fields if each.name != "json"), "image", "b")
    found = settled(samples, choice=Choice(schema=alone))
    assert typed(found, samples).fields.keys() == {"image", "b"}


def test_keeping_a_role_that_no_field_has_needs_no_word() -> None:
    found = settled({"jpg": jpeg(), "txt": b"x"})
    assert select(found, Choice(only=("image", "label")))[1] == []
    with pytest.raises(OptionError, match="--only score: no sample has this field; fields are"):
        select(found, Choice(only=("image", "score")))


def test_json_of_many_fields_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[object] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: texts.append(text) or loads(text))
    fields = tuple(Field(name, "int", places=(("json", name),)) for name in "abc")
    sample = Sample("k", {"json": b'{"a":1,"b":2,"c":3}'})
    assert Reading(Schema(fields), TABLE)(sample).fields == {"a": 1, "b": 2, "c": 3}
    assert len(texts) == 1
