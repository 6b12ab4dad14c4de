"""Some of the classes of a source: those that a file names (``--keep-classes``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.lists.store import read_classes
from dsprep.numbering import in_both_forms
from dsprep.sources.labels.classes import with_label
from dsprep.storage.local import LARGEST
from dsprep.text import read_text
from dsprep.units import format_count, quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_SHOWN = 3  # unknown classes that a message names
_AFTER_ID = re.compile(r"[\s,]+")


def keep_classes(catalog: Catalog, source: Source) -> tuple[Catalog, list[Finding]]:
    """Keep the samples of the classes that a file names; number these from 0 in their order."""
    path, where, classes = str(source.keep_classes), catalog.root, catalog.classes
    schema = catalog.settled.schema
    if schema.label is None or catalog.label_column != "cls":
        raise SourceError(f"{where}: {_why_not(catalog)}; leave out --keep-classes {path}")
    numbers = catalog.table["cls"]
    known = dict(enumerate(classes)) if classes else {at: str(at) for at in numbers.unique().sort()}
    there = where if classes else f"{where} (which has numbers only; --classes FILE names them)"
    kept = find_classes(_read_lines(path), known, path, there)
    table = catalog.table.filter(numbers.is_in(kept))
    if table.is_empty():
        raise SourceError(
            f"{path}: none of {len(numbers):,} samples of {where} is of a class in it, "
            f"such as {quoted(known[kept[0]])}: name another file or another source"
        )
    left = len(numbers) - table.height
    which = f"{len(kept):,} of {format_count(len(known), 'class')}"
    be = "is" if left == 1 else "are"
    detail = f"--keep-classes keeps {which}; {format_count(left, 'sample')} of others {be} left out"
    note = Finding("note", "", detail)
    if source.keep_numbers:
        return replace(catalog, table=table), [note]
    names = tuple(known[number] for number in kept)
    column = table["cls"].replace_strict(kept, range(len(kept)), return_dtype=pl.Int64)
    settled, overridden = catalog.settled, catalog.overridden
    if not catalog.tells_all:
        settled, overridden = with_label(settled, column, names), overridden | {"label"}
    elif schema.label_field is not None and schema.label_field.type == "class":
        settled = settled._replace(schema=schema.with_names(names))
    table = table.with_columns(column)
    catalog = replace(catalog, table=table, classes=names, overridden=overridden)
    return catalog.with_settled(settled), [note]


def _why_not(catalog: Catalog) -> str:
    """Say why samples cannot be chosen by their class."""
    schema = catalog.settled.schema
    if schema.objects is not None:
        return "its images have objects of several classes, and an image has no class of its own"
    label = schema.label_field
    if label is None:
        return "its samples have no labels"
    if label.type == "class":
        return f"some samples have no class in {label.name!r}"
    return f"its label {label.name!r} has the type {label.type}, not class"


def _read_lines(path: str) -> list[str]:
    """Read a file of classes: one a line, or JSON with the classes as a list or as keys."""
    text = read_text(path, LARGEST)
    if text.lstrip()[:1] not in ("{", "["):
        return [name.strip() for name in read_classes(path)]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: begins like JSON, but is none: {error!s:.200}") from None
    if isinstance(found, dict):  # {"n01440764": "tench"} or {"0": ["n01440764", "tench"]}
        found = [each if isinstance(each, list) else [name, each] for name, each in found.items()]
    lines = [each if isinstance(each, list) else [each] for each in found]
    if not lines or not all(part and isinstance(part, str) for line in lines for part in line):
        raise SourceError(f"{path}: is JSON, but neither a list nor an object of class names")
    return [" ".join(line).strip() for line in lines]


def find_classes(
    lines: Sequence[str], known: Mapping[int, str], path: str, where: str
) -> list[int]:
    """Return the numbers of the classes that the lines of a file name, in ascending order.

    A line is the name of a class, or an id and a name, such as ``n01440764 tench``. Of both, a
    class may have one or both, so the way to read the lines is that by which most are found.
    """
    best: list[int | None] = []
    named_by: list[str] = []
    for of_class in (0, 1):
        by_name = {_forms(name)[of_class]: number for number, name in known.items() if name}
        if len(by_name) < sum(map(bool, known.values())):
            continue  # the first words of "crane, bird" and "crane, machine" are no ids
        by_name = in_both_forms(by_name)
        for form in range(3):
            names = [_forms(line)[form] for line in lines]
            found = [by_name.get(name) for name in names]
            if not best or found.count(None) < best.count(None):
                best, named_by = found, names
    unknown = [name for name, number in zip(named_by, best, strict=True) if number is None]
    if unknown:
        have = [name for name in known.values() if name]
        raise SourceError(f"{path}: {_unknown(unknown, len(lines), have, where)}")
    return sorted({number for number in best if number is not None})


def _forms(line: str) -> tuple[str, str, str]:
    """Return what may be the name of a class: the line, its first word, what follows that."""
    first, *rest = _AFTER_ID.split(line, maxsplit=1)
    return line, first, rest[0] if rest else ""


def _unknown(unknown: Sequence[str], count: int, have: Sequence[str], where: str) -> str:
    """Say which classes of a file a source does not have."""
    if len(unknown) == count:
        return (
            f"no line names a class of {where}, {quoted(unknown[0])} for one; classes there are "
            f"{quoted_names(have, _SHOWN)}: name another file or another source"
        )
    shown, be = [], "is" if len(unknown) == 1 else "are"
    for name in unknown[:_SHOWN]:
        near = get_close_matches(name, have, 1)
        shown.append(f"{quoted(name)} (did you mean {quoted(near[0])}?)" if near else quoted(name))
    more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
    return (
        f"{len(unknown):,} of its {count:,} classes {be} not in {where}: {', '.join(shown)}{more}: "
        "correct or remove these lines"
    )
