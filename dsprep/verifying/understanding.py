"""Which schema the samples of shards have: what a manifest says, or what a look at them finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from dsprep.errors import SourceError
from dsprep.findings import notes_of
from dsprep.formats.base import Format
from dsprep.rows import Pixels
from dsprep.schema import IMAGE, LABEL, Choice, Reading, Schema
from dsprep.sources.reading import make_source, read_source
from dsprep.verifying.report import FieldFound
from dsprep.verifying.shards import Shards
from dsprep.workers.pool import Pool

T = TypeVar("T")
R = TypeVar("R")


class Understood(NamedTuple):
    """What is known of the fields of shards."""

    schema: Schema | None  # the fields; None if nothing tells them
    ignored: frozenset[str] = frozenset()  # raw names that are no fields
    # whether every sample was checked against the schema when it was written
    enforced: bool = False
    notes: tuple[str, ...] = ()  # what there is to say, a line each
    # where samples have their image as bare pixels; None if nowhere
    pixels: Pixels | None = None

    def reading(self, layout: Format) -> Reading | None:
        """Return what makes samples of the schema of raw ones."""
        return None if self.schema is None else Reading(self.schema, layout, self.ignored)


def understand(shards: Shards, choice: Choice, pool: Pool) -> Understood:
    """Find out the schema of shards."""
    manifest, layout = shards.manifest, shards.made.layout
    if manifest is None or manifest.schema is None:
        return _looked_at(shards, choice, pool)
    schema, label = manifest.schema, manifest.schema.label_field
    if label is not None and label.type == "class" and not label.names and manifest.classes:
        schema = schema.with_names(manifest.classes)
    return Understood(schema, layout.placeholders(schema), manifest.enforced)


def _looked_at(shards: Shards, choice: Choice, pool: Pool) -> Understood:
    """Look at samples as `convert` does."""
    layout = shards.made.layout
    files = [str(shards.directory / name) for name in shards.present]
    why = "there are none"
    # A directory has files that tell of all shards in it; these may be sides of a split, though.
    whole = [[str(shards.directory)]] if shards.destination.single is None else []
    for first, *others in [*whole, files] if files else []:
        source = make_source(first, others=others, kind=layout.name, choice=choice)
        try:
            catalog, findings = read_source(source, partial(_run_all, pool))
        except SourceError as error:
            why = str(error)
            continue
        assert catalog.settled is not None
        if catalog.reader.whole and catalog.reader.table.name == layout.name:
            settled, pixels = catalog.settled, catalog.reader.pixels
            notes = tuple(notes_of(findings))
            return Understood(settled.schema, settled.ignored, False, notes, pixels)
        why = f"{first}: is not read as {layout.name}"
    return Understood(None, notes=(f"nothing tells the fields: {why}",))


def _run_all(pool: Pool, function: Callable[[T], R], tasks: Iterable[T]) -> list[R]:
    return pool.map(_call, [(function, task) for task in tasks])


def _call(task: tuple[Callable[[T], R], T]) -> R:
    """Call a function in a worker; a disk that cannot be read says nothing of the fields."""
    function, argument = task
    try:
        return function(argument)
    except OSError as error:
        raise SourceError(f"it cannot be read ({error.strerror})") from None


def fields_found(schema: Schema, counts: Mapping[str, int]) -> Iterator[FieldFound]:
    """Return what was found of the fields of samples."""
    roles = {schema.image: IMAGE, schema.label: LABEL}
    for each in schema.fields:
        if each.places:
            told = each.told or "the manifest"
            count = counts.get(each.name, 0)
            role = roles.get(each.name, "")
            yield FieldFound(each.name, each.type, len(each.names), role, told, count)
