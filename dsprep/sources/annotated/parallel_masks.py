"""Images and masks in parallel directories: what is known of them, and which belong together.

A kind says by two regular expressions what images and masks are called. Named groups that both have
tell which belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from dsprep.annotations.masks import Color
    from dsprep.findings import Finding
    from dsprep.sources.annotated.image_values import ImageValues
    from dsprep.sources.annotation_kind import AnnotatedPlace

TOP = r"^(?P<top>(?:.*/)?)"
"""How patterns begin: the directories above those that are parallel."""

_ALONE = 0.1  # share of the masks that may have no image; one may always be


class MaskMeaning(NamedTuple):
    """What the texts of a data set say of its images and masks.

    Attributes:
        names: The names of the classes of masks, by number; empty if nothing tells them.
        colors: The class numbers of colors, if masks may have any.
        values: The class numbers of pixels that have another value.
        sides: The side of each image; empty if there are none.
        images: The label of each image, and the like.
        used: The texts that were read.
        findings: What was noticed in them.
    """

    names: tuple[str, ...] = ()
    colors: Mapping[Color, int] | None = None
    values: Mapping[int, int] | None = None
    sides: tuple[str, ...] = ()
    images: ImageValues | None = None
    used: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class Directories(NamedTuple):
    """Directories of images and of their masks.

    Attributes:
        mark: A text that the path of each mask has, by which they are found quickly.
        image: What the paths of images are. A group ``side`` is a side, ``label`` a class.
        mask: What the paths of masks are; they end in ``.png``.
        side: The side of all images with masks, if the paths of masks do not tell it.
    """

    mark: str
    image: str
    mask: str
    side: str = ""


class Parallel(NamedTuple):
    """Images and masks of parallel directories, in the order of the images.

    Attributes:
        images: The path of each image.
        masks: The path of its mask; empty for an image without one.
        sides: Its side, as a directory is called; empty if directories are no sides.
        labels: Its class, likewise.
        alone: The masks of no image.
    """

    images: Sequence[str]
    masks: Sequence[str]
    sides: Sequence[str]
    labels: Sequence[str]
    alone: Sequence[str]


def parallel_in(place: AnnotatedPlace, every: Sequence[Directories]) -> Parallel | None:
    """Find the images and masks of a data set; None if there are no masks, or some are alone."""
    paths = place.images
    # most sets have no PNG, which is seen in a fraction of the time that marks take
    pngs = paths.filter(paths.str.ends_with(".png"))
    marked = (each for each in every if len(pngs) and _has(pngs, each.mark))
    found = (_parallel(paths.sort(), each) for each in marked)
    return next(filter(None, found), None)


def _has(paths: pl.Series, mark: str) -> bool:
    return bool(paths.str.contains(mark, literal=True).any())


def _parallel(paths: pl.Series, of: Directories) -> Parallel | None:
    import polars as pl

    masks = _matching(paths, of.mask)
    images = _matching(paths.filter(~paths.is_in(masks["path"].implode())), of.image)
    images = images.filter(images["top"].is_in(masks["top"].implode()))
    if images.is_empty():
        return None
    common = sorted((set(images.columns) & set(masks.columns)) - {"path"})
    masks = masks.unique(common, keep="last", maintain_order=True)
    own = masks.select(*common, mask="path")
    if of.side:
        own = own.with_columns(side=pl.lit(of.side))
        common = [*common, "side"]
    found = images.join(own, on=common, how="left", maintain_order="left")
    taken = found["mask"].drop_nulls()
    if taken.is_empty() or masks.height - len(taken) > max(1, _ALONE * masks.height):
        return None
    alone = masks["path"].filter(~masks["path"].is_in(taken.implode()))
    sides, labels = (
        found[name].to_list() if name in found.columns else [] for name in ("side", "label")
    )
    masks_of = found["mask"].fill_null("").to_list()
    return Parallel(found["path"].to_list(), masks_of, sides, labels, alone.to_list())


def _matching(paths: pl.Series, pattern: str) -> pl.DataFrame:
    """Return the paths that match, with the groups of the pattern as columns."""
    groups = paths.str.extract_groups(pattern).struct.unnest()
    table = groups.with_columns(path=paths)
    return table.filter(table[groups.columns[0]].is_not_null())
