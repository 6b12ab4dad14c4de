"""Boxes, polygons and masks stay on what they are on, whatever is done to their image.

A rectangle is painted into an image and its mask. After resizing, cropping and turning upright, the
paint must be inside its box, and the box at most one pixel larger than the paint.
"""

from __future__ import annotations

import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from dsprep.annotations.geometry import clip
from dsprep.annotations.masks import mask_of, png_of, runs_of
from dsprep.annotations.objects import SHARES, Object, Objects, area_of
from dsprep.errors import BadSample
from dsprep.images.transform import FILTERS, Encoded, Transform
from dsprep.moving import TURNED, make_mover
from dsprep.sample import Sample
from dsprep.schema import Field, Schema
from tests.images import EXIF_ORIENTATION, jpeg

PIXELS = 10**7
SCHEMA = Schema(
    (
        Field("image", "image"),
        Field("objects", "objects", names=("thing",)),
        Field("mask", "mask", names=("nothing", "thing")),
    ),
    "image",
)
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}  # what undoes each EXIF orientation


def painted(
    size: tuple[int, int], box: tuple[int, int, int, int], orientation: int
) -> tuple[bytes, bytes]:
    """An image that shows a red box when it is upright, and its mask."""
    image, mask = Image.new("RGB", size, "white"), Image.new("L", size)
    inside = (box[0], box[1], box[2] - 1, box[3] - 1)  # Pillow paints the last pixel, too
    ImageDraw.Draw(image).rectangle(inside, fill="red")
    ImageDraw.Draw(mask).rectangle(inside, fill=1)
    if orientation in TURNS:
        image = image.transpose(TURNS[orientation])
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    out = io.BytesIO()
    image.save(out, "PNG", exif=exif)
    return out.getvalue(), png_of(mask)


def moved(sample: Sample, transform: Transform | None) -> Encoded:
    data = sample.fields["image"]
    image = transform.apply(data, PIXELS) if transform else Encoded("png", data, 0, 0)
    if transform is None:
        with Image.open(io.BytesIO(data)) as opened:
            image = Encoded("png", data, *opened.size)
    move = make_mover(SCHEMA, transform, PIXELS)
    assert move is not None
    return move(sample, data, image, None)


edges = st.integers(24, 90)


@given(st.data(), st.tuples(edges, edges), st.integers(1, 8), st.booleans())
def test_the_paint_stays_in_its_box(
    data: st.DataObject, size: tuple[int, int], orientation: int, as_shares: bool
) -> None:
    width, height = size
    x0, y0 = data.draw(st.integers(0, width - 8)), data.draw(st.integers(0, height - 8))
    x1, y1 = data.draw(st.integers(x0 + 6, width)), data.draw(st.integers(y0 + 6, height))
    resize = data.draw(st.none() | st.integers(12, 100) | st.tuples(edges, edges))
    crop = data.draw(st.none() | st.tuples(edges, edges))
    transform = Transform(resize=resize, crop=crop, enlarge=resize is not None, encode="png")
    corners = tuple(map(float, (x0, y0, x1, y0, x1, y1, x0, y1)))
    item = Object((x0, y0, x1, y1), 0, polygons=(corners,), area=float((x1 - x0) * (y1 - y0)))
    extent = (float(width), float(height))
    if as_shares:
        box = x0 / width, y0 / height, x1 / width, y1 / height
        shares = tuple(each / extent[at % 2] for at, each in enumerate(corners))
        item, extent = item._replace(box=box, polygons=(shares,), area=None), SHARES
    image, mask = painted(size, (x0, y0, x1, y1), orientation)
    fields = {"image": image, "objects": Objects((item,), extent), "mask": mask}
    sample = Sample("k", fields, image="image")
    written = moved(sample, transform)
    with Image.open(io.BytesIO(written.data)) as opened:
        assert opened.size == (written.width, written.height)
        assert opened.getexif().get(EXIF_ORIENTATION, 1) == 1
        green = opened.convert("RGB").getchannel("G").point(lambda level: 255 * (level < 128))
    paint = green.getbbox()
    with Image.open(io.BytesIO(sample.fields["mask"])) as opened:
        assert opened.size == (written.width, written.height)
        of_mask = opened.getbbox()
    items = sample.fields["objects"].items
    assert sample.fields["objects"].extent == (written.width, written.height)
    if not items:
        assert sample.effects and sum(sample.effects.values())
        return
    box = items[0].box
    assert paint is not None
    for found in (paint, of_mask):
        assert found is not None
        assert all(abs(edge - own) <= 1 for edge, own in zip(found, box, strict=True))
    assert box == pytest.approx(
        (min(items[0].polygons[0][::2]), min(items[0].polygons[0][1::2]))
        + (max(items[0].polygons[0][::2]), max(items[0].polygons[0][1::2]))
    )
    if items[0].area is not None:
        assert items[0].area == pytest.approx(sum(map(area_of, items[0].polygons)), rel=1e-6)


def test_areas_are_pixels_where_boxes_are_shares() -> None:
    image, _ = painted((40, 30), (10, 3, 20, 15), 1)
    objects = Objects((Object((0.25, 0.1, 0.5, 0.5), 0, area=90.0),), SHARES)
    sample = Sample("k", {"image": image, "objects": objects}, image="image")
    moved(sample, None)
    assert sample.fields["objects"].items[0].area == 90
    moved(sample, Transform(resize=(20, 30)))
    assert sample.fields["objects"].items[0].area == 45


def test_an_image_that_was_turned_leaves_upright_without_any_option() -> None:
    image, mask = painted((40, 30), (2, 3, 20, 12), 6)
    objects = Objects((Object((2, 3, 20, 12), 0),))
    sample = Sample("k", {"image": image, "objects": objects, "mask": mask}, image="image")
    written = moved(sample, None)
    assert (written.width, written.height) == (40, 30)
    assert sample.fields["objects"].items[0].box == (2, 3, 20, 12)
    assert sample.fields["mask"] == mask
    assert sample.effects == Counter({TURNED: 1})


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("crop", [None, (32, 24)])
def test_boxes_move_by_any_filter(filter: str, crop: tuple[int, int] | None) -> None:
    sample = Sample("k", {"image": jpeg(size=(64, 48))}, image="image")
    sample.fields["objects"] = Objects((Object((8, 8, 32, 24), 0),))
    written = moved(sample, Transform(resize=(48, 36), crop=crop, filter=filter))
    left, top = (8, 6) if crop else (0, 0)
    assert (written.width, written.height) == (crop or (48, 36))
    assert sample.fields["objects"].items[0].box == (
        max(6 - left, 0),
        max(6 - top, 0),
        24 - left,
        18 - top,
    )


def test_annotations_of_another_size_are_refused_by_name() -> None:
    image, mask = painted((40, 30), (2, 3, 20, 12), 1)
    objects = Objects((Object((2, 3, 20, 12), 0),), (80.0, 60.0))
    sample = Sample("k", {"image": image, "objects": objects, "mask": mask}, image="image")
    with pytest.raises(BadSample, match="80x60 pixels, .*--annotation-size listed"):
        moved(sample, None)


def test_a_mask_of_another_size_is_refused() -> None:
    image, _ = painted((40, 30), (2, 3, 20, 12), 1)
    _, mask = painted((30, 40), (2, 3, 20, 12), 1)
    sample = Sample("k", {"image": image, "mask": mask}, image="image")
    with pytest.raises(BadSample, match="30x40 pixels, and its image 40x30"):
        moved(sample, None)


@given(st.lists(st.tuples(st.floats(-50, 150), st.floats(-50, 150)), min_size=3, max_size=9))
def test_a_clipped_polygon_lies_in_its_image(corners: list[tuple[float, float]]) -> None:
    polygon = tuple(value for corner in corners for value in corner)
    cut = clip(polygon, 100, 80)
    assert all(-1e-9 <= x <= 100 + 1e-9 for x in cut[::2])
    assert all(-1e-9 <= y <= 80 + 1e-9 for y in cut[1::2])
    inside = all(0 <= x <= 100 and 0 <= y <= 80 for x, y in corners)
    if inside and area_of(polygon) > 0:
        assert cut == polygon


@given(st.integers(1, 12), st.integers(1, 12), st.randoms(use_true_random=False))
def test_runs_and_masks_are_the_same(width: int, height: int, random: object) -> None:
    pixels = bytes(random.randint(0, 1) for _ in range(width * height))  # type: ignore[attr-defined]
    mask = Image.frombytes("L", (width, height), pixels)
    runs = runs_of(mask)
    assert sum(runs.counts) == width * height
    assert mask_of(runs).tobytes() == pixels


@pytest.mark.parametrize(("least", "left"), [(None, 0), (0.2, 1), (1.0, 0)])
def test_how_much_of_an_object_must_be_left(least: float | None, left: int) -> None:
    image, mask = painted((40, 40), (0, 0, 40, 10), 1)
    objects = Objects((Object((0, 0, 40, 10), 0), Object((10, 10, 20, 20), 0)))
    sample = Sample("k", {"image": image, "objects": objects, "mask": mask}, image="image")
    moved(sample, Transform(crop=(20, 30), min_visible=least, encode="png"))
    # A quarter of the first is left, and all of the second.
    assert len(sample.fields["objects"].items) == 1 + left


def test_a_clipped_box_is_that_of_its_clipped_runs() -> None:
    image, _ = painted((40, 40), (0, 0, 40, 40), 1)
    shape = Image.new("L", (40, 40))
    shape.paste(1, (2, 2, 10, 30))  # an L, whose foot is cut off
    shape.paste(1, (2, 30, 38, 34))
    objects = Objects((Object((2, 2, 38, 34), 0, rle=runs_of(shape), area=368.0),))
    sample = Sample("k", {"image": image, "objects": objects}, image="image")
    moved(sample, Transform(crop=(40, 20), min_visible=0.5, encode="png"))
    # Rows 10 to 30 are left, which have 160 of 368 pixels.
    assert sample.fields["objects"].items == ()
    sample = Sample("k", {"image": image, "objects": objects}, image="image")
    moved(sample, Transform(crop=(40, 20), min_visible=0.4, encode="png"))
    item = sample.fields["objects"].items[0]
    assert item.box == (2, 0, 10, 20)
    assert mask_of(item.rle).getbbox() == (2, 0, 10, 20)
    assert item.area == 160
