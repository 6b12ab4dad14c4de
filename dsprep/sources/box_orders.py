"""The order of the four numbers of a box where no name tells it: tried on the sizes of images.

Tools write ``bbox`` as a corner and the size, as two corners, or as the center and the size. In
most data sets, only one of these makes boxes that lie in their images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dsprep.annotations.orders import ORDERS, Order
from dsprep.errors import BadSample, SourceError
from dsprep.images.transform import size_either_way
from dsprep.sources.kind import HEAD
from dsprep.storage.files import open_file, results
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files

MOST_IMAGES = 1000
"""Images whose sizes are read."""

_MOST_BYTES = 64_000_000  # of images in an archive, which are read whole
_MOST_WRONG = 0.01  # the share of boxes that may be wrong in the right order
_NEAR = 1  # pixels that a box may leave its image by
EDGES = ("edge 0", "edge 1", "edge 2", "edge 3")
"""Columns with the four numbers of each box."""

NUMBER, WIDTH, HEIGHT, WHERE = "number of the image", "width", "height", "where"


class TriedOrders(NamedTuple):
    """Boxes, tried in each order."""

    boxes: pl.DataFrame  # all of them
    measured: int  # how many lie in images of a known size
    wrong: Mapping[Order, pl.DataFrame]  # by each order that may be, those that it makes wrong

    @classmethod
    def of(cls, boxes: pl.DataFrame) -> TriedOrders:
        """Try boxes on the sizes of their images.

        Args:
            boxes: The columns `EDGES`, `WHERE`, `WIDTH` and `HEIGHT`; a size may be null.
        """
        import polars as pl

        measured = boxes.drop_nulls([WIDTH, HEIGHT])
        in_shares = boxes.select(pl.all_horizontal(pl.col(EDGES).is_between(0, 1)).all()).item()
        orders = [each for each in ORDERS if each.shares == in_shares]
        wrong = {order: measured.filter(_is_wrong(order)) for order in orders}
        return cls(boxes, measured.height, wrong)

    @property
    def left(self) -> Sequence[Order]:
        """The orders in which boxes lie in their images, without those that make the same boxes."""
        most = _MOST_WRONG * self.measured
        left = [order for order, wrong in self.wrong.items() if wrong.height <= most]
        return [
            order
            for at, order in enumerate(left)
            if not any(_are_same(self.boxes, order, earlier) for earlier in left[:at])
        ]

    @property
    def total(self) -> str:
        """How many boxes were tried, for messages."""
        return format_count(self.measured, "box")

    @property
    def choices(self) -> str:
        """The options that name the orders that are left; all orders if none is left."""
        orders = self.left or [*self.wrong]
        return " or ".join(f"--box {each.option} ({each.words})" for each in orders)

    def examples(self, orders: Iterable[Order]) -> Sequence[str]:
        """Say how many boxes are wrong in each order, with the first of them."""
        return [_example(order, self.wrong[order], self.total) for order in orders]


def order_of(boxes: pl.DataFrame, column: str, path: str) -> Order:
    """Return the one order in which the boxes of a table lie in their images.

    Args:
        boxes: What `TriedOrders.of` takes.
        column: The column of the table that has the four numbers.
        path: The table.
    """
    tried = TriedOrders.of(boxes)
    left = tried.left
    if len(left) == 1:
        return left[0]
    unclear = f"{path}: the order of the four numbers in {column!r} is unclear"
    if not tried.measured:
        raise SourceError(
            f"{unclear}, and the sizes of the images are not known: give {tried.choices}"
        )
    if left:
        lie = "lies in its image" if tried.measured == 1 else "lie in their images"
        raise SourceError(
            f"{unclear}, because {tried.total} {lie} in several orders: give {tried.choices}"
        )
    raise SourceError(
        f"{path}: the four numbers in {column!r} are boxes that lie in their images in no order:",
        *tried.examples(tried.wrong),
        f"correct them, or give {tried.choices}",
    )


def require_documented(boxes: pl.DataFrame, source: str) -> str:
    """Refuse boxes of Hugging Face that another order fits than the documented one.

    The documented order is x, y, width and height. It holds if no order fits: then the boxes
    themselves are odd.

    Args:
        boxes: What `TriedOrders.of` takes.
        source: The source, for messages.

    Returns:
        A note, if another order fits as well, or none does; else an empty string.
    """
    tried = TriedOrders.of(boxes)
    documented, left = Order("xywh"), tried.left
    if not tried.measured:
        return ""
    said = f"boxes are {documented.words}, as Hugging Face documents them"
    others = [each.words for each in left if each != documented]
    if documented in left and not others:
        return ""
    if documented in left:
        return f"{said}; they may be {' or '.join(others)} as well: --box names another order"
    if not others:
        wrong = tried.wrong.get(documented)
        count = tried.measured if wrong is None else wrong.height
        return f"{said}; {count:,} of {tried.total} looked at leave their image or have no size"
    raise SourceError(
        f"{source}: its boxes are not {documented.words}, as Hugging Face documents them:",
        *tried.examples([documented] if documented in tried.wrong else ()),
        f"correct them, or give {tried.choices}",
    )


def _corners(order: Order) -> Sequence[pl.Expr]:
    import polars as pl

    return order.corners(*map(pl.col, EDGES))


def _is_wrong(order: Order) -> pl.Expr:
    """Return whether boxes leave their image, or have no size."""
    import polars as pl

    x0, y0, x1, y1 = _corners(order)
    width, height = pl.col(WIDTH), pl.col(HEIGHT)
    if order.shares:
        x0, x1, y0, y1 = x0 * width, x1 * width, y0 * height, y1 * height
    leaves = (x0 < -_NEAR) | (y0 < -_NEAR) | (x1 > width + _NEAR) | (y1 > height + _NEAR)
    return leaves | (x1 <= x0) | (y1 <= y0)


def _are_same(boxes: pl.DataFrame, one: Order, two: Order) -> bool:
    """Return whether boxes are the same in two orders."""
    import polars as pl

    pairs = zip(_corners(one), _corners(two), strict=True)
    return bool(boxes.select(pl.all_horizontal((a == b).all() for a, b in pairs)).item())


def _example(order: Order, wrong: pl.DataFrame, count: str) -> str:
    *edges, where, width, height = wrong.select(*EDGES, WHERE, WIDTH, HEIGHT).row(0)
    shown = ", ".join(f"{edge:g}" for edge in edges)
    return (
        f"  as {order.words}: {wrong.height:,} of {count} outside of the image or without a size, "
        f"such as {shown} in {where} ({width:g}x{height:g})"
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

    from dsprep.places.match import PATH, base, find_elsewhere, stem

    there = files.table.with_columns(base=base(PATH), stem=stem(PATH))
    named = images.alias("name").to_frame().with_row_index(NUMBER)
    named = named.with_columns(base=pl.col("name").str.extract(r"([^/\\]*)$"))
    known = pl.concat([there["base"], there["stem"]])
    named = named.filter(pl.col("base").is_in(known.implode()))
    named = named.gather_every(max(1, -(-named.height // MOST_IMAGES)))
    bases = named["base"].implode()
    there = there.filter(pl.col("base").is_in(bases) | pl.col("stem").is_in(bases))
    meant = find_elsewhere(named["name"], there["path"])
    numbers = named.select(pl.col(NUMBER).cast(pl.Int64), path=meant.paths).drop_nulls("path")
    return numbers.join(there, on="path", how="inner", maintain_order="left")


def _size_of_file(path: str) -> tuple[float | None, float | None]:
    try:
        with open_file(path) as file:
            return _size_in(file.pread(HEAD, 0))
    except OSError:
        return None, None


def _size_in(data: bytes | BadSample) -> tuple[float | None, float | None]:
    return (None, None) if isinstance(data, BadSample) else size_either_way(data)
