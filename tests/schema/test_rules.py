"""The rules that settle a schema: each of them, its reason, and the tables of them in the docs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import SourceError
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Sample
from dsprep.schema import Choice, Field, Schema, SettledSchema, observe, settle
from dsprep.schema.rules import FIELD_RULES, IMAGE_RULES, LABEL_RULES
from tests.images import jpeg, png

DOCS = Path(__file__).parents[2] / "docs" / "formats.md"
JPG, PNG, JSON = jpeg(), png(), b'{"a": 1}'
BOXES = {"image_id": 7, "objects": [{"bbox": [1, 2, 3, 4], "category": 0}]}
GIVEN = Schema((Field("image", "image"), Field("label", "class")), "image", "label")
SOURCE = Schema((Field("image", "image"), Field("class", "class", places=(("txt",),))), "image")


def settled(
    *samples: dict[str, object], choice: Choice | None = None, told: Schema | None = None
) -> SettledSchema:
    choice, table = choice or Choice(), WebDataset()
    raw = [Sample(str(number), dict(fields)) for number, fields in enumerate(samples)]
    return settle(observe(raw, table, choice), table, choice, "set", told)


# fmt: off
@pytest.mark.parametrize(
    ("samples", "choice", "told", "reasons"),
    [
        ([{"jpg": JPG, "cls": b"3", "npy": b"x"}], {"schema": GIVEN}, None, "--schema|--schema"),
        ([{"jpg": JPG, "txt": b"3"}], {}, SOURCE, "the source says so|a usual name"),
        ([{"jpg": JPG, "cls": b"3", "txt": b"hi"}], {}, None, "its name|its name|its name"),
        ([{"seg.png": PNG, "a.cls": b"3"}], {}, None, "the only image|the only class"),
        ([{"a.png": PNG, "image.png": PNG, "y": 3}], {}, None,
         "a usual name|a usual name|its name"),
        ([{"count": 3}, {"count": 0.5}], {}, None, "its values"),
        ([{"json": json.dumps(BOXES).encode()}], {}, None, "its values|its name"),
        ([{"a.png": PNG, "b": PNG, "txt": b"3"}], {"image": "b", "label": "text"}, None,
         "--image-field|--label-field|its name"),
        ([{"json": JSON}], {"label": "json.a"}, None, "--label-field|its name"),
    ],
)
# fmt: on
def test_each_field_has_the_reason_of_the_rule_that_found_it(
    samples: Sequence[dict[str, object]],
    choice: dict[str, object],
    told: Schema | None,
    reasons: str,
) -> None:
    found = settled(*samples, choice=Choice(**choice), told=told)  # type: ignore[arg-type]
    assert "|".join(each.why for each in found.schema.fields) == reasons


SAMPLES = st.lists(
    st.dictionaries(
        st.sampled_from(
            ["jpg", "png", "jpeg", "seg.png", "cls", "label", "json", "a.json", "objects", "x.y"]
        ),
        st.sampled_from([JPG, b"3", b"cat", JSON, b"\xff", json.dumps(BOXES).encode(), 3, 0.5]),
        max_size=6,
    ),
    max_size=3,
)


@given(SAMPLES)
def test_each_raw_name_is_a_field_or_left_out(samples: list[dict[str, object]]) -> None:
    try:
        found = settled(*samples)
    except SourceError:
        return
    kept = {place[0] for each in found.schema.fields for place in each.places} | found.ignored
    table = WebDataset()
    assert all(raw in kept or table.place_of(raw) in kept for raw in set().union(*samples))
    assert all(each.why for each in found.schema.fields)
    assert len(found.schema.by_name) == len(found.schema.fields)


RULES = {"field": FIELD_RULES, "label": LABEL_RULES, "image": IMAGE_RULES}


@pytest.mark.parametrize("what", RULES)
def test_the_docs_list_the_rules_in_their_order(what: str) -> None:
    rows = re.findall(rf"^\| {what} \| ([A-Z].*) \| `(.+)` \|$", DOCS.read_text("utf-8"), re.M)
    assert rows == [(rule.__doc__, why) for rule, why in RULES[what]]
