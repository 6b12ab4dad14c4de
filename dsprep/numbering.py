"""How class names get their numbers: the order of the names, or the list that fixes it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.errors import DsprepError, SourceError, UnknownClass
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, quoted_names

if TYPE_CHECKING:
    import polars as pl

# Makes the error for names that have no number, given the place and the classes that have.
Unknown: TypeAlias = Callable[[str, Sequence[str], Sequence[str]], DsprepError]


class Known(NamedTuple):
    """The classes as far as they are known before labels are read."""

    # known class names in their order, if they are fixed already
    classes: tuple[str, ...] | None = None
    # the source that the known classes come from, if the user did not give them
    owner: str | None = None
    order: str | None = None  # otherwise, the order of the names: see :func:`number_classes`


def unknown_classes(place: str, names: Sequence[str], classes: Sequence[str]) -> UnknownClass:
    """Return the error for classes of a source that are not in the list of classes."""
    # classes.txt has a line for each name, so a name with a line break cannot be added
    require_lines(names, place)
    be, count = "is" if len(names) == 1 else "are", format_count(len(classes), "class")
    return UnknownClass(f"{place}: {quoted_names(names, 3)} {be} not among the {count}")


def not_given(place: str, names: Sequence[str], classes: Sequence[str]) -> SourceError:
    """Return the error for classes of annotations that ``--classes`` does not name."""
    return SourceError(f"{place}: no class of --classes: {quoted_names(names, 3)}")


def number_classes(
    names: Iterable[str], known: Known, place: str, unknown: Unknown | None = unknown_classes
) -> tuple[str, ...]:
    """Return the classes in the order of their numbers: the known ones, or these names.

    Names are put in order by code point, which is UTF-8's by byte; or naturally, if ``known`` says
    so. A name that the known classes lack is an error, unless ``unknown`` is None.
    """
    if known.classes:
        lost = () if unknown is None else sorted(set(names).difference(numbers_of(known.classes)))
        if unknown is not None and lost:
            raise unknown(place, lost, known.classes)
        return known.classes
    classes = natural_order(names) if known.order == "natural" else tuple(sorted(names))
    require_lines(classes, place)
    return classes


def number_ids(
    named: Mapping[Any, str], given: tuple[str, ...] | None, place: str
) -> tuple[tuple[str, ...], tuple[int, ...], Mapping[Any, int]]:
    """Number the classes that a source calls by ids: in the order of the ids, or as given.

    Returns the class names by number, the ids by number if they are whole numbers and none are
    given, and the class numbers by id.
    """
    if given is not None:
        classes = number_classes(named.values(), Known(given), place, not_given)
        numbers = numbers_of(classes)
        return classes, (), {id: numbers[name] for id, name in named.items()}
    are_numbers = all(type(id) is int for id in named)
    ids = sorted(named) if are_numbers else sorted(named, key=str)
    own = tuple(named[id] for id in ids)
    return own, tuple(ids) if are_numbers else (), {id: number for number, id in enumerate(ids)}


def numbers_of(classes: Sequence[str]) -> dict[str, int]:
    """Return the numbers of classes by name; the first one if several have a name.

    Other forms of the names are there, too: see `in_both_forms`.
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(classes):
        numbers.setdefault(name, number)
    return in_both_forms(numbers)


def in_both_forms(numbers: Mapping[str, int]) -> dict[str, int]:
    """Add names whose accents are characters of their own (NFD), and those without such (NFC).

    macOS writes the former. A form that several classes have in common is not added.
    """
    others: dict[str, set[int]] = {}
    for name, number in numbers.items():
        if not name.isascii():
            others.setdefault(unicodedata.normalize("NFC", name), set()).add(number)
            others.setdefault(unicodedata.normalize("NFD", name), set()).add(number)
    clear = {name: min(own) for name, own in others.items() if len(own) == 1}
    return {**numbers, **{name: at for name, at in clear.items() if name not in numbers}}


def numbered(names: pl.Series, classes: Sequence[str]) -> pl.Series:
    """Return the class number of each name as a column ``cls``; null for a name of no class."""
    import polars as pl

    known = numbers_of(classes)
    numbers = names.replace_strict([*known], [*known.values()], default=None, return_dtype=pl.Int64)
    return numbers.alias("cls")


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names so that numbers in them count as numbers: ``1``, ``2``, ``10``."""

    def key(name: str) -> tuple[list[tuple[int, str]], str]:
        # Texts and numbers alternate, so that only like is compared with like.
        parts = re.split("([0-9]+)", name)
        stripped = [each.lstrip("0") if at % 2 else each for at, each in enumerate(parts)]
        return [(len(each) * (at % 2), each) for at, each in enumerate(stripped)], name

    return tuple(sorted(names, key=key))


def require_lines(classes: Iterable[str], source: str, file: str = "classes.txt") -> None:
    """Refuse a class name that cannot be a line of a file."""
    for name in classes:
        if not name.strip() or not {*"\n\r\0"}.isdisjoint(name):
            raise SourceError(
                f"{source}: the class name {name!r} does not fit on a line of {file}: rename"
            )
