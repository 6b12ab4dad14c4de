"""Which fields of a sample are kept, and under which names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dsprep.errors import OptionError
from dsprep.formats.base import Format
from dsprep.formats.tfrecord import TFRecord
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE

V = TypeVar("V")

IMAGE = "image"
"""What the user calls the image, whatever its kind."""

_DERIVED = {"format": "image", "synset": "class", "boxes": "label", "classes": "label"}
"""Features of TFRecord's presets that are made of other fields."""


@dataclass(frozen=True)
class FieldChoice:
    """Which fields to keep; ``image`` among them is the image, whatever its kind.

    Attributes:
        only: Those to keep; None for all.
        dropped: Those to leave out.
        renamed: New names by old ones.
    """

    only: frozenset[str] | None = None
    dropped: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_all(self) -> bool:
        """Whether all fields are kept as they are."""
        return self.only is None and not self.dropped and not self.renamed

    def apply(self, fields: Mapping[str, V]) -> dict[str, V]:
        """The fields that are kept, under their new names, in their order."""
        kept: dict[str, V] = {}
        for name, value in fields.items():
            known = {name, IMAGE} if name in IMAGE_KINDS or name == UNKNOWN_IMAGE else {name}
            if known & self.dropped or (self.only is not None and not known & self.only):
                continue
            # --map image=… means the image, whatever its kind; a field of that name if none is.
            is_other = name == IMAGE and not fields.keys().isdisjoint(IMAGE_KINDS)
            kept[name if is_other else self.renamed.get(name, name)] = value
        return kept

    def apply_to_counts(self, counts: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """The counts of the fields that are kept, by their new names and the types of values."""
        kept: dict[tuple[str, str], int] = {}
        for (name, kind), count in counts.items():
            for new in self.apply({name: count}):
                kept[new, kind] = kept.get((new, kind), 0) + count
        return kept

    def options(self) -> dict[str, object]:
        """The choice as a manifest records it."""
        return {
            "only": None if self.only is None else sorted(self.only),
            "dropped": sorted(self.dropped),
            "renamed": dict(sorted(self.renamed.items())),
        }


def choose_fields(
    only: Iterable[str], dropped: Iterable[str], renamed: Mapping[str, str]
) -> FieldChoice:
    """A choice from what the user gave.

    Raises:
        OptionError: If a field is both wanted and not, or two get one name.
    """
    chosen = FieldChoice(frozenset(only) or None, frozenset(dropped), dict(renamed))
    both = chosen.dropped & (chosen.only or frozenset())
    if both:
        raise OptionError(f"--only and --drop: {', '.join(sorted(both))} is in both")
    if len(set(renamed.values())) < len(renamed):
        raise OptionError("--map gives two fields the same name")
    return chosen


def recorded_choice(told: Mapping[str, Any]) -> FieldChoice:
    """The choice that :meth:`FieldChoice.options` recorded; of all fields, if that is empty."""
    return FieldChoice(
        None if told.get("only") is None else frozenset(told["only"]),
        frozenset(told.get("dropped", ())),
        dict(told.get("renamed", {})),
    )


def kept_fields(names: Iterable[str]) -> frozenset[str]:
    """The fields that do not depend on the geometry of the image, from what the user gave.

    Raises:
        OptionError: If the image is among them.
    """
    kept = frozenset(names)
    if IMAGE in kept:
        raise OptionError("--keep-fields image: the image is what a transform changes")
    return kept


def named_fields(
    choice: FieldChoice, mapped: Collection[str], kept: Collection[str]
) -> Mapping[str, Collection[str]]:
    """The fields that options name, by option."""
    return {
        "--only": choice.only or (),
        "--drop": choice.dropped,
        "--map": mapped,
        "--keep-fields": kept,
    }


def with_derived(known: Collection[str], layout: Format) -> set[str]:
    """The fields that options can name where samples have these.

    Args:
        known: The fields of the samples.
        layout: The format to write; TFRecord makes features of other fields, or by itself.
    """
    found = set(known)
    if found & {*IMAGE_KINDS, UNKNOWN_IMAGE}:
        found.add(IMAGE)
    if isinstance(layout, TFRecord):
        found |= layout.wants | {"source_id"}
        found |= {feature for feature, told_by in _DERIVED.items() if told_by in found}
    return found


def say_unmatched(
    named: Mapping[str, Collection[str]], known: Collection[str], who: str = "no sample"
) -> list[str]:
    """Say which options name fields that are not known.

    Args:
        named: The fields that they name, by option.
        known: The fields that there are.
        who: Who has none of the others.
    """
    found = {option: sorted(set(names).difference(known)) for option, names in named.items()}
    return [
        f"{option} {','.join(names)}: {who} has {'this field' if len(names) == 1 else 'these'}"
        for option, names in found.items()
        if names
    ]
