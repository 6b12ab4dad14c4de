"""What is known of a data set of images and masks in parallel directories.

A kind says by two regular expressions what images and masks are called. Named groups that both have
tell which belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsprep.annotations.masks import Color
    from dsprep.sources.annotated.image_values import ImageValues

TOP = r"^(?P<top>(?:.*/)?)"
"""How patterns begin: the directories above those that are parallel."""


class MaskMeaning(NamedTuple):
    """What the texts of a data set say of its images and masks.

    Attributes:
        names: The names of the classes of masks, by number; empty if nothing tells them.
        colors: The class numbers of colors, if masks may have any.
        values: The class numbers of pixels that have another value.
        sides: The side of each image; empty if there are none.
        images: The label of each image, and the like.
        used: The texts that were read.
    """

    names: tuple[str, ...] = ()
    colors: Mapping[Color, int] | None = None
    values: Mapping[int, int] | None = None
    sides: tuple[str, ...] = ()
    images: ImageValues | None = None
    used: tuple[str, ...] = ()


class Directories(NamedTuple):
    """Directories of images and of their masks.

    Attributes:
        mark: A text that the path of each mask has, by which they are found quickly.
        image: What the paths of images are. A group ``side`` is a side, ``label`` a class.
        mask: What the paths of masks are.
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
