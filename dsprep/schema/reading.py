"""Making typed samples of raw ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, TypeAlias

from dsprep.annotations.objects import Objects
from dsprep.errors import BadSample, Misfit
from dsprep.frozen import Frozen
from dsprep.sample import Sample, Value
from dsprep.schema.convert import Column, Convert, converter_of
from dsprep.schema.fields import FACTS, TYPES, Field, Place, Schema
from dsprep.schema.look import LABEL_TEXT, Table, below, parsed, shown, type_of
from dsprep.units import format_count

_Plain: TypeAlias = tuple[str, Convert, Field]
"""The name of a field, what makes its values, and the field."""

_Column: TypeAlias = tuple[str, Convert | None]
"""The name of a field, empty for none, and what makes its values, None if they are as they are."""


class Reading(Frozen):
    """Makes samples of a schema of raw samples. Plain data: it is pickled for the workers."""

    schema: Schema  # the schema, with the places of the source
    table: Table  # what the source's format says of raw names
    ignored: frozenset[str] = frozenset()  # the places that are left out
    # whether samples stay raw, apart from fields that are left out: those of the same format
    raw: bool = False
    box: str = ""  # as `SettledSchema.box`

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to workers without what is compiled."""
        return Reading, (self.schema, self.table, self.ignored, self.raw, self.box)

    @cached_property
    def _plain(self) -> dict[str, _Plain | None]:
        """The field that each raw name is, and its converter; None for a name that is left out.

        Names that the look did not see are added as samples have them.
        """
        known: dict[str, _Plain | None] = {}
        for each in self.schema.fields:
            for place in each.places:
                if len(place) == 1:
                    is_number = self.table.meaning(place[0]).type in (LABEL_TEXT, "class")
                    column = Column(each, is_number, self.table.has_class_ids, self.box)
                    convert = converter_of(column)
                    known[place[0]] = each.name, convert, each
        return dict.fromkeys(self.ignored | self._wholes, None) | known

    @cached_property
    def _nested(self) -> list[tuple[Place, Field, Convert]]:
        return [
            (place, each, converter_of(Column(each, box=self.box)))
            for each in self.schema.fields
            for place in each.places
            if len(place) > 1
        ]

    @cached_property
    def _wholes(self) -> frozenset[str]:
        """The raw names that hold several fields, as parts."""
        return frozenset(path[0] for path, *_ in self._nested)

    @cached_property
    def _keys(self) -> dict[str, frozenset[str]]:
        """All keys of JSON that a look found, where nothing of it is left out or a field whole."""
        looked = [path for path, column, _ in self._nested if column.told == "a look"]
        raws = {path[0] for path in looked if not self._plain[path[0]]} - self.ignored
        return {
            raw: frozenset((*FACTS, *(path[1] for path in looked if path[0] == raw)))
            for raw in raws
        }

    @cached_property
    def _objects(self) -> str | None:
        """The name of the field of objects that each sample must have; None if there is none."""
        objects = self.schema.objects
        return objects.name if objects and not objects.missing else None

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(each.name for each in self.schema.fields if not each.missing)

    def __call__(self, sample: Sample) -> Sample:
        known = self._plain
        fields: dict[str, Value] = {}
        image = None
        together: dict[str, str] = {}
        if self.raw:
            together = self._together(sample.fields)
        else:
            sample.fields = self.table.combined(sample.fields)
        for own, value in sample.fields.items():
            raw = together.get(own, own) if together else own
            if raw not in known:
                # a value without a type is no field that the schema could miss
                if not type_of(value):
                    if self.raw:
                        fields[own] = value
                    continue
                known[raw] = self._find(raw)
            found = known[raw]
            if self.raw:
                if found is not None or raw in self._wholes or self._is_kept(raw):
                    fields[own] = value
                    image = raw if found and found[0] == self.schema.image else image
                continue
            if found is None:
                continue
            name, convert, column = found
            if name in fields:
                raise Misfit(f"has two values for the field {name!r}, one of them at {raw!r}")
            try:
                typed = convert(value)
            except (ValueError, TypeError, RecursionError, OverflowError, LookupError) as error:
                raise _misfit(column, value, error) from None
            if typed is not None:
                fields[name] = typed
        if self.raw:
            sample.fields, sample.image = fields, image
            return sample
        if self._nested:
            self._read_nested(sample, fields)
        if self._objects is not None and self._objects not in fields:
            fields[self._objects] = Objects()  # an image whose source has no entry has no objects
        if not fields.keys() >= self.required:
            raise Misfit(self._lacks(sorted(self.required - fields.keys())))
        sample.fields = fields
        sample.image = self.schema.image if self.schema.image in fields else None
        return sample

    def _read_nested(self, sample: Sample, fields: dict[str, Value]) -> None:
        """Read the fields that are parts of others."""
        # JSON may have hundreds of parts: it is parsed once, and not for each of them.
        wholes = {raw: parsed(sample.fields.get(raw)) for raw in self._wholes}
        for raw, keys in self._keys.items():
            if raw in sample.fields:
                _require_keys(raw, wholes[raw], keys)
        for path, column, convert in self._nested:
            if (value := below(wholes[path[0]], path)) is not None:
                try:
                    fields[column.name] = convert(value)
                except (ValueError, TypeError, OverflowError, LookupError) as error:
                    raise _misfit(column, value, error) from None

    def _lacks(self, names: Sequence[str]) -> str:
        shown = ", ".join(map(repr, names))
        if all(self.schema.by_name[name].told == "--schema" for name in names):
            return f"lacks the field {shown}, which all samples have by --schema"
        return (
            f"lacks the field {shown}, which the samples looked at have: give --look all, or a "
            "--schema FILE that says it may be missing"
        )

    def of_columns(self, kinds: Mapping[str, str]) -> dict[str, _Column] | None:
        """Return the field that each raw name is whose values have one type.

        Return None if samples have to be read one by one.
        """
        if self.raw or self._nested or self.schema.image or self._objects:
            return None
        if not self._plain.keys() >= kinds.keys():
            return None
        columns: dict[str, _Column] = {}
        for raw, kind in kinds.items():
            name, convert, _ = self._plain[raw] or ("", None, None)
            columns[raw] = name, None if convert is TYPES[kind].convert else convert
        names = [name for name, _ in columns.values() if name]
        return columns if len({*names}) == len(names) and self.required <= {*names} else None

    def _together(self, fields: dict[str, Value]) -> dict[str, str]:
        """Return the place of raw names that are one field together, by these."""
        try:
            combined = self.table.combined(fields)
        except BadSample:  # a raw sample that cannot be typed is copied unchanged
            return {}
        (place,) = combined.keys() - fields.keys() or ("",)
        return dict.fromkeys(fields.keys() - combined.keys(), place)

    @cached_property
    def _is_kept(self) -> Callable[[str], bool]:
        """Whether a raw name is kept that is no field: bookkeeping goes with its field."""
        table, kept = self.table, {self.table.place_of(each[0]) for each in self.schema.by_place}

        @cache
        def is_kept(raw: str) -> bool:
            place = table.place_of(raw)
            is_bookkeeping = not table.meaning(place).field
            if table.meaning(raw).field:
                return is_bookkeeping and raw not in self.ignored
            return is_bookkeeping or place in kept

        return is_kept

    def _find(self, raw: str) -> _Plain | None:
        """Return what a raw name is that has not been seen before."""
        place = self.table.place_of(raw)
        if place in self._plain:
            return self._plain[place]
        if not (self.table.meaning(place).field and self.table.meaning(raw).field):
            return None
        raise Misfit(
            f"has a field {raw!r} that the samples looked at lack: give --look all, or --drop {raw}"
        )


def _require_keys(raw: str, whole: Value | None, keys: frozenset[str]) -> None:
    """Refuse JSON that cannot be read, or whose keys no field would hold."""
    if not isinstance(whole, dict):
        raise Misfit(f"the field {raw!r} is not an object of JSON, as it is in other samples")
    if others := sorted(whole.keys() - keys):
        raise Misfit(
            f"has {others[0]!r} in {raw!r}, which the samples looked at lack: give --look all"
        )


def _misfit(column: Field, value: Value, error: Exception) -> Misfit:
    what = column.kind.what
    if column.kind.of is Objects:
        return Misfit(f"its objects: {error}")
    if column.names:
        what += f" of the {format_count(len(column.names), 'class')}"
    return Misfit(
        f"the field {column.name!r} is {shown(value)}, which is not {what}: correct it, give "
        f"--look all, or another type in a --schema FILE"
    )
