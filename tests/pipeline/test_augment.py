"""Augmented copies: pixels by Keras and by formulas, boxes and masks by what is painted."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from dsprep.annotations.geometry import clip, warped
from dsprep.annotations.masks import mask_of_polygons, runs_of, warped_mask
from dsprep.annotations.objects import Object, Objects, Warp, box_of
from dsprep.errors import OptionError
from dsprep.images.augment import FILLS, IDENTITY, OPS, Augment, Params, affine_of, parse_ops
from tests.images import draw
from tests.missing import framework

ROTATE = "rotate=40,shift=0.2,shear=20,zoom=0.3,hflip,vflip"
GEOMETRY = f"crop=0.7,{ROTATE}"


def augment(ops: str, fill: str = "nearest") -> Augment:
    return Augment(parse_ops(ops), fill=fill)


def levels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(np.float64)


def test_parameters_stay_what_they_are() -> None:
    ops = "rotate=40,shift=0.2,zoom=0.2,hflip"
    drawn = augment(ops).draw("cat/1", 3)
    assert drawn == {
        "rotate": -10.435585,
        "shift_x": 0.05355,
        "shift_y": -0.137659,
        "zoom": 1.025444,
        "hflip": 1.0,
    }
    assert augment(f"{ops},noise=3").draw("cat/1", 3).items() > drawn.items()
    for key, copy, seed in (("cat/2", 3, 0), ("cat/1", 2, 0), ("cat/1", 3, 1)):
        assert Augment(parse_ops(ops), seed).draw(key, copy) != drawn


def test_parameters_are_uniform_over_their_range() -> None:
    ops = {name: op.default or round(op.most / 2, 1) for name, op in OPS.items()}
    made = Augment(ops)
    drawn = [made.draw(f"{number}", 1) for number in range(2000)]
    ranges = {
        "crop": (0.5, 1.0), "crop_x": (-1, 1), "crop_y": (-1, 1), "rotate": (-90, 90),
        "shift_x": (-0.5, 0.5), "shift_y": (-0.5, 0.5), "shear": (-30, 30), "zoom": (0.5, 1.5),
        "hflip": (0, 1), "vflip": (0, 1), "brightness": (0.5, 1.5), "contrast": (0.5, 1.5),
        "color": (0.5, 1.5), "blur": (0, 50), "noise": (0, 50), "cutout_x": (0, 1),
        "cutout_y": (0, 1),
    }  # fmt: skip
    assert list(drawn[0]) == list(ranges)
    for name, (low, high) in ranges.items():
        values = np.array([each[name] for each in drawn])
        assert low <= values.min() < low + 0.01 * (high - low), name
        assert high >= values.max() > high - 0.01 * (high - low), name
        assert abs(values.mean() - (low + high) / 2) < 0.04 * (high - low), name
    flips = np.array([(each["hflip"], each["vflip"]) for each in drawn])
    assert abs(np.corrcoef(flips.T)[0, 1]) < 0.1


def of_keras(image: np.ndarray, drawn: Params, fill: str) -> np.ndarray:
    """Return the copy of a square image that Keras makes."""
    framework("tensorflow")
    from keras.src.legacy.preprocessing.image import apply_affine_transform

    side = len(image)
    found = apply_affine_transform(
        image,
        theta=drawn["rotate"],
        tx=-drawn["shift_x"] * side,
        ty=-drawn["shift_y"] * side,
        shear=drawn["shear"],
        zx=1 / drawn["zoom"],
        zy=1 / drawn["zoom"],
        row_axis=0,
        col_axis=1,
        channel_axis=2,
        fill_mode=fill,
        order=1,
    )
    return found[:: -1 if drawn["vflip"] else 1, :: -1 if drawn["hflip"] else 1]


@pytest.mark.filterwarnings("ignore:Please import")  # of Keras to SciPy
def test_points_go_where_keras_moves_them() -> None:
    side, made, seen = 96, augment(ROTATE, "constant"), 0
    centers = np.arange(side) + 0.5
    for number in range(40):
        drawn = made.draw("corners", number)
        a, b, c, d, e, f = Warp(affine_of(drawn, (side, side)), 255).forward
        for x, y in ((8, 8), (88, 8), (8, 88), (88, 88)):
            to = (a * x + b * y + c, d * x + e * y + f)
            if not all(8 < each < side - 8 for each in to):
                continue
            seen += 1
            spot = np.exp(-(np.square(centers - x) + np.square(centers - y)[:, None]) / 8)
            moved = of_keras(spot[..., None] * 255, drawn, "constant")[..., 0]
            found = [(moved * each).sum() / moved.sum() for each in (centers, centers[:, None])]
            assert math.dist(found, to) < 0.1
    assert seen > 30


@pytest.mark.filterwarnings("ignore:Please import")  # of Keras to SciPy
@pytest.mark.parametrize("fill", FILLS)
def test_geometry_is_that_of_keras(fill: str) -> None:
    side, made = 96, augment(ROTATE, fill)
    for number in range(8):
        image = draw(number, (side, side))
        drawn = made.draw("key", number)
        expected = of_keras(levels(image), drawn, fill)
        own = levels(made.apply(image, drawn, "key", number))
        inside = np.ones((side, side), bool)
        if fill in ("constant", "wrap"):  # SciPy repeats all but a pixel of an image
            white, black = Image.new("L", (side, side), 255), augment(ROTATE, "constant")
            inside = levels(black.apply(white, drawn, "key", number)) == 255
            inside = ndimage.minimum_filter(inside, 5, mode="constant")
        error = np.square(own - expected)[inside].mean()
        assert 10 * math.log10(255**2 / error) > 50


def test_flips_move_pixels_as_they_are() -> None:
    image = draw(2, (31, 22))
    for across, down in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        made = augment("hflip,vflip").apply(image, {"hflip": across, "vflip": down}, "a", 1)
        expected = levels(image)[:: -1 if down else 1, :: -1 if across else 1]
        assert (levels(made) == expected).all()


def test_all_parameters_at_rest_change_nothing() -> None:
    assert affine_of({}, (64, 48)) == IDENTITY
    image = draw(1)
    assert augment("rotate=40").apply(image, {"rotate": 0.0}, "a", 1) is image


@pytest.mark.parametrize("fill", FILLS)
def test_what_is_made_much_smaller_takes_little_memory(fill: str) -> None:
    image = draw(4, (1200, 800))
    small = augment("zoom=0.9", fill).apply(image, {"zoom": 0.01}, "a", 1)
    assert small.size == image.size
    # The whole image is now 12 x 8 pixels in the middle.
    inside = levels(small.crop((594, 396, 606, 404)))
    expected = levels(image.resize((12, 8), Image.Resampling.BOX))
    assert np.abs(inside - expected).max() <= 1


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA"])
def test_size_and_colors_stay(mode: str) -> None:
    made = augment(f"{GEOMETRY},brightness=0.5,contrast=0.5,color=0.5,blur=1,noise=5,cutout=0.2")
    for fill in FILLS:
        made = Augment(made.ops, fill=fill)
        image = draw(3, mode=mode)
        copy = made.apply(image, made.draw("a", 1), "a", 1)
        assert (copy.size, copy.mode) == (image.size, mode)
        assert copy.tobytes() == made.apply(draw(3, mode=mode), made.draw("a", 1), "a", 1).tobytes()


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.3])
def test_colors_follow_their_formulas(factor: float) -> None:
    image = draw(5)
    gray = levels(image.convert("L"))
    middle = {
        "brightness": 0.0,
        "contrast": float(int(gray.mean() + 0.5)),
        "color": gray[..., None],
    }
    for name, base in middle.items():
        own = levels(augment(f"{name}=0.5").apply(image, {name: factor}, "a", 1))
        exact = np.clip(base + factor * (levels(image) - base), 0, 255)
        assert np.abs(own - exact).max() < 1, name


def test_noise_and_cutout_by_their_statistics() -> None:
    image = Image.new("RGB", (256, 256), (128, 128, 128))
    noise = levels(augment("noise=20").apply(image, {"noise": 12.0}, "a", 1)) - 128
    assert abs(noise.mean()) < 0.1
    assert abs(noise.std() - 12) < 0.1
    assert np.abs(np.corrcoef(noise.reshape(-1, 3).T) - np.eye(3)).max() < 0.02
    assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.02
    cut = levels(augment("cutout=0.25").apply(image, {"cutout_x": 1.0, "cutout_y": 0.0}, "a", 1))
    assert (cut[:64, 192:] == 0).all()
    assert (cut == 0).sum() == 64 * 64 * 3


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ("wave=3", "no such operation"),
        ("rotate", "give a value"),
        ("rotate=", "give a value"),
        ("rotate=200", r"give a number from 0\.001 to 180"),
        ("shift=1", r"give a number from 0\.001 to 0\.99"),
        ("crop=1e-9", "give a number"),
        ("crop=nan", "give a number"),
        ("zoom=-1", "give a number"),
        ("zoom=0.9999999", "give a number"),
        ("hflip,hflip", "given twice"),
        (",", "give at least one operation"),
    ],
)
def test_operations_that_are_refused(ops: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        parse_ops(ops)


# What is painted stays inside its box and its mask


@pytest.mark.parametrize("shape", ["box", "polygons", "runs"])
def test_boxes_and_masks_move_with_what_is_painted(shape: str) -> None:
    size, made = (120, 90), augment(GEOMETRY, "constant")
    polygon = (40.0, 30.0, 80.0, 30.0, 80.0, 55.0, 40.0, 55.0)
    if shape != "box":
        polygon = (40.0, 30.0, 85.0, 38.0, 60.0, 60.0)
    box = box_of([polygon])
    class_mask = mask_of_polygons((polygon,), box, size).point(lambda level: 7 * level)
    image = class_mask.point(lambda level: 255 if level else 0)
    runs = runs_of(image) if shape == "runs" else None
    polygons = (polygon,) if shape == "polygons" else ()
    objects = Objects((Object(box, 0, polygons=polygons, rle=runs),), size)
    seen = 0
    for number in range(60):
        drawn = made.draw("key", number)
        warp = Warp(affine_of(drawn, size), 255)
        copy = levels(made.apply(image, drawn, "key", number))
        mask = levels(warped_mask(class_mask, warp))
        # Pixels whose centers came from paint are painted, and no others.
        assert set(np.unique(mask)) <= {0, 7, 255}
        assert ((copy > 250) <= (mask == 7)).all()
        assert ((mask == 7) <= (copy > 0)).all()
        counts: Counter[str] = Counter()
        (found,) = warped(objects, warp, size, 0.0, counts).items or (None,)
        rows, columns = np.nonzero(copy > 128)
        if found is None:
            assert not len(rows)
            continue
        x0, y0, x1, y1 = found.box
        assert 0 <= x0 < x1 <= size[0]
        assert 0 <= y0 < y1 <= size[1]
        if not len(rows):
            continue
        seen += 1
        assert x0 - 1 <= columns.min() <= columns.max() + 1 <= x1 + 1
        assert y0 - 1 <= rows.min() <= rows.max() + 1 <= y1 + 1
        a, b, c, d, e, f = warp.forward
        points = list(zip(polygon[::2], polygon[1::2], strict=True))
        hull_of = [value for x, y in points for value in (a * x + b * y + c, d * x + e * y + f)]
        visible = clip(tuple(hull_of), *map(float, size)) or hull_of
        xs, ys = visible[::2], visible[1::2]
        hull = (min(xs), min(ys), max(xs), max(ys))
        larger = (hull[0] - x0, hull[1] - y0, x1 - hull[2], y1 - hull[3])
        assert max(larger) < 1
        if found.rle is not None:
            assert found.rle == runs_of(Image.fromarray((mask == 7).astype(np.uint8)))
    assert seen > 30


def test_a_box_that_is_cut_is_around_what_is_visible_of_it() -> None:
    size, made = (120, 90), augment(GEOMETRY)
    x0, y0, x1, y1 = box = (70.0, 10.0, 115.0, 60.0)
    outline = Object(box, 0, polygons=((x0, y0, x1, y0, x1, y1, x0, y1),))
    for number in range(40):
        warp = Warp(affine_of(made.draw("key", number), size), 255)
        for_box, for_polygon = (
            warped(Objects((each,), size), warp, size, 0.3, Counter()).items
            for each in (Object(box, 0), outline)
        )
        assert [each.box for each in for_box] == [each.box for each in for_polygon]
        assert not any(each.polygons for each in for_box)


def test_objects_that_leave_the_image_are_dropped_and_cut() -> None:
    size = (100, 100)
    items = (Object((0, 0, 20, 20), 1, area=400.0), Object((60, 40, 80, 60), 2, area=400.0))
    shift = Warp(affine_of({"shift_x": 0.3}, size), 255)
    counts: Counter[str] = Counter()
    found = warped(Objects(items, size), shift, size, 0.3, counts)
    assert [each.box for each in found.items] == [(30, 0, 50, 20), (90, 40, 100, 60)]
    assert [each.area for each in found.items] == [400.0, 200.0]
    assert [*counts.values()] == [1]
    assert not warped(Objects(items[1:], size), shift, size, 0.6, counts).items
    flip = Warp(affine_of({"hflip": 1.0}, size), 255)
    eyes = Object((0, 0, 20, 20), 1, keypoints=(5.0, 6.0, 2.0, 0.0, 0.0, 0.0))
    (each,) = warped(Objects((eyes,), size), flip, size, 0.3, counts).items
    assert each.keypoints == (95.0, 6.0, 2.0, 0.0, 0.0, 0.0)
    assert any("keypoints" in name for name in counts)
