"""The choices of the user about the fields of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.schema.fields import TYPES, Place, Schema

# what `--cast` takes
_CASTS = [each.name for each in TYPES.values() if each.is_number or each.name == "json"]
_CASTS.remove("class")


class Choice(Frozen):
    """The options of the user about fields: names, types, and which is the label or the image."""

    image: str | None = None  # the field that is the image
    # the field that is the label; `json.label` is a part of the field `json`
    label: str | None = None
    label_type: str | None = None  # `class`, `multi`, `float` or `text`
    only: tuple[str, ...] = ()  # the fields to keep; empty for all
    drop: tuple[str, ...] = ()  # the fields to leave out
    # new names by old ones; with a dot in front, the exact name
    rename: Mapping[str, str] = field(default_factory=dict)
    # the old ones that an earlier run knew, and that samples may lack
    recorded: frozenset[str] = frozenset()
    cast: Mapping[str, str] = field(default_factory=dict)  # new types by names of fields
    schema: Schema | None = None  # the schema, which then is not settled by a look
    look_all: bool = False  # whether all samples are looked at
    no_image: bool = False  # whether samples need no image
    raw_image: str = ""  # the shape of the image, which is bare pixels; empty if it is not given
    box: str = ""  # what the four numbers of boxes are; empty if that is as documented
    unlabeled: bool = False  # whether no field is the label, as the schema says

    def __post_init__(self) -> None:
        if both := set(self.only) & set(self.drop):
            raise OptionError(f"--only and --drop: {', '.join(sorted(both))} is in both")
        if len(set(self.new_names.values())) < len(self.rename):
            raise OptionError("--rename gives two fields the same name")
        if bare := [name for name, new in self.rename.items() if not new.removeprefix(".")]:
            raise OptionError(f"--rename {bare[0]}={self.rename[bare[0]]}: gives no name")
        for name, new in self.rename.items():
            if "=" in new:
                raise OptionError(f"--rename {name}={new}: give --rename again for another field")
        for name, kind in self.cast.items():
            if kind not in _CASTS:
                raise OptionError(f"--cast {name}={kind}: choose one of {', '.join(_CASTS)}")

    @property
    def paths(self) -> tuple[Place, ...]:
        """The parts of JSON that the name of the label may mean."""
        parts = (self.label or "").split(".")
        return tuple((".".join(parts[:at]), *parts[at:]) for at in range(1, len(parts)))

    @property
    def new_names(self) -> Mapping[str, str]:
        """The new names of fields by their old ones, without the dot that makes them exact."""
        return {name: new.removeprefix(".") for name, new in self.rename.items()}

    def options(self) -> dict[str, Any]:
        """Return the choice as a manifest records it: what the schema does not tell."""
        told = {"only": sorted(self.only), "drop": sorted(self.drop), "rename": dict(self.rename)}
        told |= {"cast": dict(self.cast)}
        return {name: value for name, value in told.items() if value}
