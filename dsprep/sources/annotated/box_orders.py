"""The order of the four numbers of a box where no name tells it: tried on the sizes of images.

Tools write ``bbox`` as a corner and the size, as two corners, or as the center and the size. In
most data sets, only one of these makes boxes that lie in their images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsprep.errors import BadSample, SourceError
from dsprep.images.header import read_header
from dsprep.places.match import ImageFinder, plain_name
from dsprep.sources.kind import HEAD
from dsprep.storage.files import open_file, results
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files

MOST_IMAGES = 1000
"""Images whose sizes are read."""

_MOST_BYTES = 64_000_000  # of images in an archive, which are read whole
_MOST_WRONG = 0.01  # the share of boxes that may be wrong in the right order
_NEAR = 1  # pixels that a box may leave its image by
_TURNED = 5  # the first EXIF orientation by which width and height change places
EDGES = ("edge 0", "edge 1", "edge 2", "edge 3")
"""Columns with the four numbers of each box."""

NUMBER, WIDTH, HEIGHT, LINE = "number of the image", "width", "height", "line"


class Order(NamedTuple):
    """What four numbers of a box are.

    Attributes:
        kind: One of `KINDS`.
        shares: Whether they are shares of the size of the image, and not pixels.
    """

    kind: str
    shares: bool = False

    @property
    def option(self) -> str:
        """What ``--box`` calls it."""
        return f"{self.kind}:normalized" if self.shares else self.kind

    @property
    def words(self) -> str:
        """What messages call it."""
        return f"{KINDS[self.kind]}{' as shares' if self.shares else ''}"


KINDS = {
    "xywh": "x, y, width and height",
    "xyxy": "two corners",
    "cxcywh": "center, width and height",
}
"""The orders that users name, with what messages call them."""

ORDERS = tuple(Order(kind, shares) for shares in (False, True) for kind in KINDS)


def corners_of(order: Order) -> Sequence[pl.Expr]:
    """Return x0, y0, x1 and y1 of boxes whose numbers are the columns `EDGES`."""
    import polars as pl

    a, b, c, d = map(pl.col, EDGES)
    return {
        "xywh": (a, b, a + c, b + d),
        "xyxy": (a, b, c, d),
        "cxcywh": (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
    }[order.kind]


def order_of(boxes: pl.DataFrame, column: str, path: str) -> Order:
    """Return the one order in which boxes lie in their images, of all that differ.

    Args:
        boxes: The columns `EDGES`, `LINE`, `WIDTH` and `HEIGHT`; a size may be null.
        column: The column of the table that has the four numbers.
        path: The table.
    """
    import polars as pl

    measured = boxes.drop_nulls([WIDTH, HEIGHT])
    in_shares = bool(boxes.select(pl.all_horizontal(pl.col(EDGES).is_between(0, 1)).all()).item())
    orders = [each for each in ORDERS if each.shares == in_shares]
    wrong = {order: measured.filter(_is_wrong(order)) for order in orders}
    left = [each for each in orders if wrong[each].height <= _MOST_WRONG * measured.height]
    same = [each for each in left if left and _are_same(boxes, left[0], each)]
    if left and len(same) == len(left):
        return left[0]
    choices = " or ".join(f"--box {each.option} ({each.words})" for each in left or orders)
    if not measured.height:
        raise SourceError(
            f"{path}: the order of the four numbers in {column!r} is unclear, and the sizes of the "
            f"images are not known: give {choices}"
        )
    count = format_count(measured.height, "box")
    if left:
        lie = "lies in its image" if measured.height == 1 else "lie in their images"
        raise SourceError(
            f"{path}: the order of the four numbers in {column!r} is unclear, because {count} "
            f"{lie} in several orders: give {choices}"
        )
    raise SourceError(
        f"{path}: the four numbers in {column!r} are boxes that lie in their images in no order:",
        *(_example(order, wrong[order], count) for order in orders),
        f"correct them, or give {choices}",
    )


def _is_wrong(order: Order) -> pl.Expr:
    """Return whether boxes leave their image, or have no size."""
    import polars as pl

    x0, y0, x1, y1 = corners_of(order)
    width, height = pl.col(WIDTH), pl.col(HEIGHT)
    if order.shares:
        x0, x1, y0, y1 = x0 * width, x1 * width, y0 * height, y1 * height
    leaves = (x0 < -_NEAR) | (y0 < -_NEAR) | (x1 > width + _NEAR) | (y1 > height + _NEAR)
    return leaves | (x1 <= x0) | (y1 <= y0)


def _are_same(boxes: pl.DataFrame, one: Order, two: Order) -> bool:
    """Return whether boxes are the same in two orders."""
    import polars as pl

    pairs = zip(corners_of(one), corners_of(two), strict=True)
    return bool(boxes.select(pl.all_horizontal((a == b).all() for a, b in pairs)).item())


def _example(order: Order, wrong: pl.DataFrame, count: str) -> str:
    """Say how many boxes are wrong in an order, with the first of them."""
    *edges, line, width, height = wrong.select(*EDGES, LINE, WIDTH, HEIGHT).row(0)
    shown = ", ".join(f"{edge:g}" for edge in edges)
    return (
        f"  as {order.words}, {wrong.height:,} of {count} leave their image or have no size, such "
        f"as {shown} in line {line} ({width:g}x{height:g})"
    )


def sizes_in_headers(root: str, files: Files, images: pl.Series) -> pl.DataFrame:
    """Read the sizes of some of the images that a table names, by their headers.

    Args:
        root: What SOURCE names.
        files: The images there.
        images: What the table calls each image.

    Returns:
        The columns `NUMBER`, the position in ``images``, `WIDTH` and `HEIGHT`, of `MOST_IMAGES` at
        most. A size is null if the header of an image cannot be read.
    """
    import polars as pl

    found = _some_images(files, images)
    if files.archive is None:
        there = [f"{root.rstrip('/')}/{path}" for path in found["path"]]
        sizes = list(results(root, _size_of_file, there))
    else:
        found = found.sort("offset").filter(pl.col("size").cum_sum() <= _MOST_BYTES)
        places = found.select("offset", "stored", "size").iter_rows()
        sizes = [_size_in(data) for data in files.archive.reader.members(places)]
    return pl.DataFrame(
        [(number, *size) for number, size in zip(found[NUMBER], sizes, strict=True)],
        {NUMBER: pl.Int64, WIDTH: pl.Float64, HEIGHT: pl.Float64},
        orient="row",
    )


def _some_images(files: Files, images: pl.Series) -> pl.DataFrame:
    """Return rows of files that a table names, evenly among these, with their `NUMBER`."""
    import polars as pl

    base = pl.col("path").str.split("/").list.last()
    there = files.table.with_columns(base=base, stem=base.str.replace(r"\.[^.]*$", ""))
    named = images.alias("name").to_frame().with_row_index(NUMBER)
    named = named.with_columns(base=pl.col("name").str.extract(r"([^/\\]*)$"))
    known = pl.concat([there["base"], there["stem"]])
    named = named.filter(pl.col("base").is_in(known.implode()))
    named = named.gather_every(max(1, -(-named.height // MOST_IMAGES)))
    bases = named["base"].implode()
    there = there.filter(pl.col("base").is_in(bases) | pl.col("stem").is_in(bases))
    finder = ImageFinder(there["path"])
    found = ((number, finder.find(plain_name(name))) for number, name, _ in named.iter_rows())
    pairs = [(number, paths[0]) for number, paths in found if len(paths) == 1]
    numbers = pl.DataFrame(pairs, {NUMBER: pl.Int64, "path": pl.String}, orient="row")
    return numbers.join(there, on="path", how="inner", maintain_order="left")


def _size_of_file(path: str) -> tuple[float | None, float | None]:
    try:
        with open_file(path) as file:
            return _size_in(file.pread(HEAD, 0))
    except OSError:
        return None, None


def _size_in(data: bytes | BadSample) -> tuple[float | None, float | None]:
    """Return width and height of an image; of one that lies on its side, the longer one twice."""
    if isinstance(data, BadSample):
        return None, None
    try:
        header = read_header(data)
        if b"Exif\0" in data:  # its boxes may be on the image as it is stored, or as it is shown
            from dsprep.images.transform import orientation_in  # slow to load

            if orientation_in(data) >= _TURNED:
                return (max(header.width, header.height),) * 2
    except BadSample:
        return None, None
    return header.width, header.height
