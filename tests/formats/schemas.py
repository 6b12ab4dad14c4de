"""Any schema, and samples of it: what formats have to hold, or to refuse with a reason."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from dsprep.sample import Sample, Value
from dsprep.schema import Field, Schema
from tests.images import jpeg, png

IMAGES = (jpeg(seed=1, size=(16, 12)), png(seed=2, size=(16, 12)))

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
_INT = st.integers(-(2**63), 2**63 - 1)
_SCALARS: dict[str, st.SearchStrategy[Value]] = {
    "image": st.sampled_from([*IMAGES, b"unknown"]),
    "class": _INT,
    "bool": st.booleans(),
    "int": _INT,
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "text": _TEXT,
    "json": st.sampled_from([b'{"a": 1}', b"[1,2]", b"3", '{"ä":"ね"}'.encode()]),
    "bytes": st.binary(max_size=9),
}
VALUES: dict[str, st.SearchStrategy[Value]] = _SCALARS | {
    f"list<{name}>": st.lists(_SCALARS[name], max_size=4).map(tuple)
    for name in ("int", "float32", "float64", "text")
}
"""Values of every type but lists of bytes."""

_NAMES = (
    *("image", "label", "text", "json", "bin", "txt", "cls", "npy", "a.npy", "x.bin", "width"),
    *(
        "format",
        "filename",
        "class",
        "a/b",
        "A",
        "img.png",
        "label.json",
        "a.",
        "*",
        "mask.*",
        "id",
    ),
)
names = st.sampled_from(_NAMES) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5
)


@st.composite
def data_sets(draw: st.DrawFn, kinds: Sequence[str] = tuple(VALUES)) -> tuple[Schema, list[Sample]]:
    """Draw a schema without places, and some samples of it."""
    fields = [
        Field(name, draw(st.sampled_from(kinds)), draw(st.booleans()), given=draw(st.booleans()))
        for name in draw(st.lists(names, min_size=1, max_size=6, unique=True))
    ]
    images = [each.name for each in fields if each.type == "image"]
    others = [each.name for each in fields if each.type != "image"]
    schema = Schema(
        tuple(fields),
        draw(st.sampled_from(images)) if images else None,
        draw(st.sampled_from([None, *others])),
    )
    samples = []
    for number in range(draw(st.integers(1, 3))):
        values = {
            each.name: draw(VALUES[each.type])
            for each in fields
            if not each.missing or draw(st.booleans())
        }
        if values:
            image = schema.image if schema.image in values else None
            samples.append(Sample(f"k{number}", values, number, image=image))
    return schema, samples
