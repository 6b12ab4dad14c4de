"""Pictures of a few samples for a page: small, with their objects and masks painted, as SVG.

The images of a data set never get into a page: each is decoded, and encoded as a small JPEG.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

from dsprep.annotations.masks import IGNORED, numbers_of, used_in
from dsprep.annotations.objects import Objects
from dsprep.errors import BadSample
from dsprep.images.transform import Encoded, Transform, decoded, upright_size
from dsprep.moving import make_mover
from dsprep.pipeline import Pipeline, read_samples
from dsprep.printable import visible
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.schema import Field, Schema
from dsprep.tuples import NamedTuple
from dsprep.units import format_some
from dsprep.workers.executor import Executor
from dsprep.workers.worker import counted

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

EDGE = 160  # pixels: the longer edge of a picture, unless its image is smaller

_QUALITY = 70
_OBJECTS = 50  # objects that are painted on a picture
_CORNERS = 500  # the most corners of polygons on it
_AT_ONCE = 32  # samples of a task
_LONGEST = 60  # characters of the name of a class
# of classes in turn; on photographs, these can be told from each other
_COLORS = ("#ff5252", "#40c4ff", "#ffd740", "#69f0ae", "#e040fb", "#ff9100", "#b2ff59", "#f8bbd0")
_OPACITY = 140  # opacity of masks, out of 255
_NOTHING = frozenset(
    {"", "background", "_background_", "void", "unlabeled", "unlabelled", "ignore"}
)


class Picture(NamedTuple):
    """A sample, as SVG."""

    width: int  # width of the drawing, in its own units
    height: int
    svg: str  # its elements
    notes: Sequence[str]  # what else there is to say: the classes of a mask, what is not painted


def draw_pictures(
    catalog: Catalog,
    pipeline: Pipeline,
    rows: Sequence[int],
    pool: Executor,
    report: Callable[..., None],
) -> dict[int, Picture | str]:
    """Draw the samples of some rows, in workers; a text says why one cannot be drawn."""
    ordered = sorted(rows)
    parts = [ordered[at : at + _AT_ONCE] for at in range(0, len(ordered), _AT_ONCE)]
    tasks = ((pipeline, replace(catalog, table=catalog.table[part]).rows()) for part in parts)
    drawn = (each for part in pool.map(draw, tasks, report) for each in part)
    return dict(zip(ordered, drawn, strict=True))


def draw(task: tuple[Pipeline, Rows], report: Callable[..., None]) -> list[Picture | str]:
    """Draw some samples."""
    pipeline, rows = task
    return list(counted(map(_drawer(pipeline), read_samples(pipeline, rows)), report))


def _drawer(pipeline: Pipeline) -> Callable[[Sample | BadSample], Picture | str]:
    """Return a function from a sample of a pipeline to its picture."""
    schema, limit = pipeline.schema, pipeline.images.max_pixels
    painted = (each for each in schema.fields if each.type in ("objects", "mask"))
    shapes = Schema((*painted,))

    def drawn(sample: Sample | BadSample) -> Picture | str:
        if isinstance(sample, BadSample):
            return str(sample)
        data = sample.encoded
        try:
            width, height = upright_size(data)
            scale = min(1.0, EDGE / max(width, height))
            size = max(1, round(width * scale)), max(1, round(height * scale))
            transform = Transform(resize=size, encode="jpeg", quality=_QUALITY)
            image = transform.apply(data, limit)
        except BadSample as error:
            return str(error)
        elements, notes = [_image("jpeg", image.data, image)], list[str]()
        try:
            if move := make_mover(shapes, transform, limit):
                move(sample, data, image, None)
            for field in shapes.fields:
                elements += _painted(sample.fields.get(field.name), field, image, notes)
        except BadSample as error:
            notes.append(f"not painted: {error}")
        return Picture(image.width, image.height, "".join(elements), notes)

    return drawn


def _image(kind: str, data: bytes, size: Encoded) -> str:
    encoded = b64encode(data).decode()
    where = f'width="{size.width}" height="{size.height}"'
    return f'<image {where} href="data:image/{kind};base64,{encoded}"/>'


def _painted(value: object, field: Field, image: Encoded, notes: list[str]) -> Iterator[str]:
    """Yield the elements of objects or of a mask; add to the notes."""
    if isinstance(value, Objects):
        yield from _objects(value, field)
        if len(value.items) > _OBJECTS:
            notes.append(f"{_OBJECTS} of {len(value.items):,} objects painted")
    elif isinstance(value, bytes):
        overlay, numbers = _overlay(value, field, image)
        named = [_name(field, number) for number in numbers]
        yield _image("png", overlay, image)
        notes.append(f"{visible(field.name)[:_LONGEST]}: {format_some(named) or 'nothing'}")


def _objects(value: Objects, field: Field) -> Iterator[str]:
    corners = 0
    for each in value.items[:_OBJECTS]:
        x0, y0, x1, y1 = each.box
        color = _COLORS[each.number % len(_COLORS)]
        corners += sum(map(len, each.polygons)) // 2
        edges = f'width="{max(0, x1 - x0):.1f}" height="{max(0, y1 - y0):.1f}"'
        yield f'<g fill="none" stroke="{color}" pointer-events="all">'
        yield f"<title>{escape(_name(field, each.number))}</title>"
        yield f'<rect x="{x0:.1f}" y="{y0:.1f}" {edges} stroke-width="1.5"/>'
        for polygon in each.polygons if corners <= _CORNERS else ():
            points = " ".join(f"{place:.1f}" for place in polygon)
            yield f'<polygon points="{points}" fill="{color}" fill-opacity="0.35"/>'
        yield "</g>"


def _name(field: Field, number: int) -> str:
    return visible(field.class_name(number) or str(number))[:_LONGEST]


def _overlay(mask: bytes, field: Field, image: Encoded) -> tuple[bytes, list[int]]:
    """Return a mask as PNG, transparent where there is nothing, and its classes."""
    from PIL import Image

    numbers = numbers_of(decoded(mask, "its mask", image.width * image.height), None, None)
    used = used_in(numbers)
    colors, opacity = bytearray(), bytearray()
    for number in range(max(used) + 1):
        name = field.class_name(number) or ("" if number == 0 else str(number))
        is_nothing = number == IGNORED or name.lower() in _NOTHING
        colors += bytes.fromhex(_COLORS[number % len(_COLORS)][1:])
        opacity.append(0 if is_nothing else _OPACITY)
    painted = Image.frombytes("P", numbers.size, numbers.tobytes())
    painted.putpalette(bytes(colors))
    out = BytesIO()
    painted.save(out, "PNG", transparency=bytes(opacity))
    return out.getvalue(), [number for number in used if opacity[number]]
