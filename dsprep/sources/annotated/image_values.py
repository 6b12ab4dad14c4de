"""What annotations tell of whole images: a class or tags, and further fields such as texts.

A kind puts `ImageValues` into its `Scan`. `class_of_images` and `tags_of_images` number classes as
everywhere (``--classes``, ``--class-order``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from dsprep.errors import SourceError
from dsprep.numbering import not_given, number_classes, numbered, numbers_of
from dsprep.schema import IMAGE, IMAGE_ID, LABEL, OBJECTS, Field
from dsprep.tuples import NamedTuple
from dsprep.units import quoted

if TYPE_CHECKING:
    import polars as pl

    from dsprep.sources.source import Source

MOST_FLAGS = 3 * 10**7
"""Maximum number of values in labels with a 0 or a 1 for each tag: about 1 GB of memory."""

_TAKEN = (IMAGE, LABEL, OBJECTS, "mask", IMAGE_ID)  # fields that samples get otherwise


class ImageValues(NamedTuple):
    """What annotations tell of whole images, by the numbers of the images in their scan.

    Attributes:
        label: The label of each image, null for one without. A column `cls` has class numbers; a
            column `label` has lists of numbers, such as a 0 or a 1 for each tag. None if
            annotations tell no labels.
        classes: The names of the classes or tags, by number; None if they have none.
        fields: The further fields. :meth:`with_field` adds one.
        columns: The values of each further field; None for an image without.
    """

    label: pl.Series | None = None
    classes: tuple[str, ...] | None = None
    fields: Sequence[Field] = ()
    columns: Sequence[Sequence[Any]] = ()

    def with_field(self, name: str, type: str, values: Sequence[Any]) -> ImageValues:
        """Add a field of samples.

        Args:
            name: The name of the field.
            type: Its type, as the schema calls it: ``text``, ``list<text>``, ``int``.
            values: The value of each image, by number; None for an image without.
        """
        added = Field(name, type, any(value is None for value in values), places=((name,),))
        return self._replace(fields=[*self.fields, added], columns=[*self.columns, values])


def class_of_images(names: Sequence[str | None], source: Source, where: str) -> ImageValues:
    """Return labels that are one class for each image.

    Args:
        names: The name of the class of each image; None for an image without.
        source: What the user named, with the options of classes.
        where: The file or directory that tells them, for messages.
    """
    import polars as pl

    found = pl.Series(names, dtype=pl.String)
    used = found.drop_nulls().unique().to_list()
    classes = number_classes(used, source.known_classes(), where, not_given)
    return ImageValues(numbered(found, classes), classes)


def tags_of_images(
    tags: Sequence[Collection[str] | None], source: Source, where: str, known: Iterable[str] = ()
) -> ImageValues:
    """Return labels that are a 0 or a 1 for each tag.

    Args:
        tags: The tags of each image; None for an image that has not been tagged.
        source: What the user named, with the options of classes.
        where: The file or directory that tells them, for messages.
        known: Further tags, which no image may have. Classes are numbered in the order of their
            names all the same.
    """
    import polars as pl

    used = {*known, *chain.from_iterable(own for own in tags if own is not None)}
    classes = number_classes(used, source.known_classes(), where, not_given)
    if len(classes) * len(tags) > MOST_FLAGS:
        raise SourceError(
            f"{where}: labels of {len(classes):,} tags for {len(tags):,} images are more than "
            f"{MOST_FLAGS:,} values: choose fewer tags"
        )
    numbers = numbers_of(classes)
    flags: list[list[float] | None] = []
    for own in tags:
        row = None if own is None else [0.0] * len(classes)
        for name in own or ():
            row[numbers[name]] = 1.0  # type: ignore[index]
        flags.append(row)
    return ImageValues(pl.Series("label", flags, dtype=pl.List(pl.Float64)), classes)


class OfSamples(NamedTuple):
    """The values of whole images, for the images that are taken.

    Attributes:
        column: The label of each, as a column of a catalog; None if some have none.
        fields: The fields whose values samples bring: also the label, if some have none.
        values: The values of these fields, by the numbers of the images in the scan.
        without: How many images have no label.
    """

    column: pl.Series | None
    fields: Sequence[Field]
    values: Sequence[tuple[Any, ...]]
    without: int = 0


def values_of_samples(
    of_images: ImageValues, numbers: Sequence[int], label_type: str | None, where: str
) -> OfSamples:
    """Choose where the label goes: into the catalog or, if some images have none, into samples.

    Args:
        of_images: What annotations tell.
        numbers: The number of each image that is taken; -1 for one that annotations do not name.
        label_type: The type of the label that the user asks for.
        where: The annotations, for messages.
    """
    import polars as pl

    for each in of_images.fields:
        if each.name in _TAKEN:
            raise SourceError(
                f"{where}: a field called {quoted(each.name)} is what the {each.name} of a sample "
                "is called: rename it"
            )
    fields, columns = list(of_images.fields), list(of_images.columns)
    is_rest = min(numbers, default=0) < 0  # some images are not named at all
    if is_rest:
        fields = [Field(each.name, each.type, True, places=each.places) for each in fields]
    if of_images.label is None:
        return OfSamples(None, fields, list(zip(*columns, strict=True)))
    rows = pl.Series([None if number < 0 else number for number in numbers], dtype=pl.UInt32)
    label = of_images.label.gather(rows)
    if not label.null_count():
        return OfSamples(label, fields, list(zip(*columns, strict=True)))
    field, values = _label_field(of_images, label_type)
    fields, columns = [field, *fields], [values, *columns]
    return OfSamples(None, fields, list(zip(*columns, strict=True)), label.null_count())


def _label_field(of_images: ImageValues, label_type: str | None) -> tuple[Field, Sequence[Any]]:
    """Return the label as a field that samples may lack, and its values."""
    assert of_images.label is not None
    names, values = of_images.classes or (), of_images.label.to_list()
    if of_images.label.name != "cls":
        return Field(LABEL, "list<float32>", True, places=((LABEL,),)), values
    if label_type == "text" and names:
        texts = [None if number is None else names[number] for number in values]
        return Field(LABEL, "text", True, places=((LABEL,),)), texts
    return Field(LABEL, "class", True, names, ((LABEL,),)), values
