"""Comparing what shards hold with what their source holds, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.formats import Format, shard_stem
from dsprep.plan.recipe import Recipe
from dsprep.run.shard import Report
from dsprep.schema import FACTS, IMAGE, LABEL, Field, Schema
from dsprep.storage.paths import short_names
from dsprep.units import format_count, format_some
from dsprep.verifying.digests import MISSING, WIDTH, Digester, differing
from dsprep.verifying.inspection import Inspected, Problem, SourceTask, digest_source
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_TASKS_PER_WORKER = 16

_FOUND = pl.Schema(
    {
        "part": pl.Int64(),
        "file": pl.String(),
        "offset": pl.Int64(),
        "key": pl.String(),
        "name": pl.String(),
        "digests": pl.Binary(),
        "content": pl.Binary(),
        "reason": pl.String(),
    }
)
"""A sample of a shard: where it lies, its key, what it is known by, and what it holds: the digests
of all fields, and that of the image or, if images are not compared, of all; or why that is unknown.

A part is what one command wrote: the data set as it was packed, or what was appended to it.
"""

_MOST = 0.5
"""Share of the samples of a part that a source holds, if the part was made of it."""


@dataclass(frozen=True)
class Matched:
    """Which fields of shards are compared, and with what of the source."""

    transformed: bool  # whether images were, and are not compared
    fields: tuple[Field, ...]  # the fields of the shards that are compared
    names: Mapping[str, str]  # what the source calls those that it calls otherwise
    roles: Mapping[str, str]  # the roles of fields, by their names in the shards
    untold: tuple[str, ...]  # fields that only the shards have, and that are not compared
    unheld: tuple[str, ...]  # fields that only the source has

    def shown(self, at: int) -> str:
        """Return what messages call a field."""
        name = self.fields[at].name
        return self.roles.get(name) or f"field {name!r}"

    @property
    def image(self) -> int | None:
        """The position of the image; None if it is not compared."""
        return self._position(IMAGE)

    @property
    def label(self) -> int | None:
        """The position of the label, likewise."""
        return self._position(LABEL)

    def _position(self, role: str) -> int | None:
        places = (at for at, each in enumerate(self.fields) if self.roles.get(each.name) == role)
        return next(places, None)


def match_fields(
    base: Schema, source: Schema, layout: Format, transformed: bool, known: bool
) -> Matched:
    """Find the fields of a source that became those of shards."""
    roles = {base.label: LABEL, base.image: IMAGE}
    own = {IMAGE: source.image, LABEL: source.label}
    fields, untold = [], []
    names: dict[str, str] = {}
    for each in base.fields:
        role = roles.get(each.name, "")
        if transformed and (role == IMAGE or each.name in FACTS):
            continue
        name = each.name if each.name in source.by_name else own.get(role)
        if name is None and not (role == LABEL and known) and each.name not in FACTS:
            untold.append(each.name)
            continue
        bits = layout.label_bits if role == LABEL else layout.float_bits
        kind = each.type if bits > 32 else each.type.replace("float64", "float32")
        fields.append(replace(each, type=kind))
        if name is not None and name != each.name:
            names[each.name] = name
    told = {names.get(each.name, each.name) for each in base.fields}
    told |= {own[role] or "" for name, role in roles.items() if name}
    unheld = [each.name for each in source.fields if each.name not in told | FACTS]
    shown = {name: role for name, role in roles.items() if name}
    return Matched(transformed, tuple(fields), names, shown, tuple(untold), tuple(unheld))


@dataclass(frozen=True)
class Origin:
    """What shards are compared with."""

    catalog: Catalog  # the source
    recipe: Recipe  # how samples were made of it
    matched: Matched  # which fields are compared
    rejected: frozenset[str]  # the paths of samples that are known not to be in the shards
    part_of: Mapping[str, int]  # the part that each shard is of


def compare(
    shards: Sequence[tuple[str, Inspected]], origin: Origin, pool: Pool, report: Report
) -> tuple[list[Problem], list[str]]:
    """Find the samples that are missing, too many, or not what the source holds.

    Samples are paired by name. Where no name of the shards is one of the source's, as with features
    that tell no name, or where names are numbers of several parts, the contents must be the same,
    in whatever order. Of a data set that was appended to, a part is left out if the source holds
    few of its samples, and most of another's.
    """
    recipe, matched = origin.recipe, origin.matched
    found, source = _found(shards, origin), _expected(origin, pool, report)
    found, source, notes = _of_source(found, source, recipe)
    named = found.is_empty() or found["name"].is_in(source["name"].implode()).any()
    if _by_number(recipe) and found["part"].n_unique() > 1:
        named = False  # each part was numbered as its own source was, not as one of all
    on = ["name" if named else "content", "number"]
    found, source = (_numbered(table, on[0]) for table in (found, source))
    pairs = found.join(source, on=on, how="inner", suffix="_source", nulls_equal=True)
    expected = source.filter(~pl.col("rejected"))
    both = pairs.filter(pl.col("digests").is_not_null() & pl.col("digests_source").is_not_null())
    other = both.filter(pl.col("digests") != pl.col("digests_source"))
    notes += _hints(other, both.height, matched)
    unknown, untold = pl.col("digests").is_null(), pl.col("digests_source").is_null()
    if misfits := pairs.filter(unknown & untold).height:
        notes.append(f"{format_count(misfits, 'sample')} not compared: they do not fit the schema")
    problems = [
        *_problems(other, lambda row: _difference(row, matched)),
        *_problems(
            pairs.filter(unknown & ~untold),
            lambda row: f"is not compared with {row['path']}: it {row['reason']}",
        ),
        *_problems(
            pairs.filter(~unknown & untold),
            lambda row: f"is not compared with {row['path']}: that {row['reason_source']}",
        ),
        *_problems(
            found.join(source, on=on, how="anti", nulls_equal=True),
            lambda row: "the source holds no such sample",
        ),
        *_missing(expected.join(found, on=on, how="anti", nulls_equal=True)),
    ]
    return problems, notes


def class_problems(
    names: Sequence[str] | None, known: Sequence[str] | None, file: str
) -> Iterator[Problem]:
    """Find classes that have other names than in the source."""
    for number, (name, own) in enumerate(zip(names or (), known or (), strict=False)):
        if name != own and name and own:
            yield Problem(file, None, "", f"calls the class {number} {name!r}, the source {own!r}")


def _of_source(
    found: pl.DataFrame, source: pl.DataFrame, recipe: Recipe
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """The samples of the parts that were made of a source, and the source with its names there."""
    by_number = _by_number(recipe)
    contents = source["content"].drop_nulls()  # samples may hold no image
    is_there = found["content"].is_in(contents.implode()).fill_null(False)
    if not by_number:
        is_there |= found["name"].is_in(source["name"].implode())
    shares = found.select("part", is_there=is_there).group_by("part").agg(pl.mean("is_there"))
    parts = shares.filter(pl.col("is_there") >= _MOST)["part"].sort()
    if len(parts) in (0, len(shares)):
        return found, source, []
    is_of = found["part"].is_in(parts.implode())
    if by_number and parts[0] > 0:  # appended samples are numbered from the last one before them
        before = found.filter(pl.col("part") < parts[0])["name"].cast(pl.Int64, strict=False)
        before = before.fill_null(-1)
        numbers = source["name"].cast(pl.Int64) + before.max() + 1
        width = 9 if recipe.layout.known_by == "key" else 0
        source = source.with_columns(name=numbers.cast(pl.String).str.zfill(width))
    left = found.filter(~is_of)
    shards = format_count(left["file"].n_unique(), "shard")
    note = f"{format_count(left.height, 'sample')} in {shards} not compared: of another source"
    return found.filter(is_of), source, [note]


def _by_number(recipe: Recipe) -> bool:
    """Whether samples are known by where they were in the source."""
    known_by = recipe.layout.known_by
    return known_by == "id" or (known_by == "key" and recipe.key == "index")


def _found(shards: Sequence[tuple[str, Inspected]], origin: Origin) -> pl.DataFrame:
    tables = [
        pl.DataFrame(
            {
                "part": [origin.part_of.get(file, 0)] * len(shard.keys),
                "file": shard.files or [file] * len(shard.keys),
                "offset": shard.offsets,
                "key": shard.keys,
                "name": shard.names,
                "digests": shard.digests,
                "content": _contents(shard.digests, origin.matched),
                "reason": [shard.reasons.get(at) for at in range(len(shard.keys))],
            },
            schema=_FOUND,
        )
        for file, shard in shards
    ]
    return pl.concat([_FOUND.to_frame(), *tables])


def _expected(origin: Origin, pool: Pool, report: Report) -> pl.DataFrame:
    catalog, recipe, matched = origin.catalog, origin.recipe, origin.matched
    digester = Digester(matched.fields, matched.names, recipe.schema)
    share = max(1, math.ceil(len(catalog) / (_TASKS_PER_WORKER * pool.size)))
    starts = range(0, len(catalog), share)
    tasks = (SourceTask(recipe, catalog.slice(at, share).rows(), digester) for at in starts)
    done = dict(pool.run(digest_source, tasks, report))
    parts = [done[number] for number in range(len(starts))]
    reasons = {
        start + at: reason
        for start, part in zip(starts, parts, strict=True)
        for at, reason in part.reasons.items()
    }
    digests = list(chain.from_iterable(part.digests for part in parts))
    columns = {
        "name": list(chain.from_iterable(part.names for part in parts)),
        "path": catalog.table["path"],
        "digests": digests,
        "content": _contents(digests, matched),
        "reason": [reasons.get(at) for at in range(len(catalog))],
        "rejected": _is_rejected(catalog, origin.rejected),
    }
    kinds = {"name": pl.String(), "digests": pl.Binary(), "content": pl.Binary()}
    return pl.DataFrame(columns, schema_overrides={**kinds, "reason": pl.String()})


def _is_rejected(catalog: Catalog, paths: frozenset[str]) -> pl.Series:
    """Return which samples have been rejected, by their paths or by their place in a shard."""
    rejected = catalog.table["path"].is_in(list(paths))
    files = catalog.reader.sources()
    if catalog.has_places and files:  # what a sample is called that nobody has read
        stems = pl.Series([shard_stem(name) for name in short_names(files)])
        number = catalog.table.select(pl.int_range(pl.len()).over("file")).to_series()
        names = stems.gather(catalog.table["file"]) + "-" + number.cast(pl.String).str.zfill(7)
        rejected |= names.is_in(list(paths))
    return rejected


def _contents(digests: Sequence[bytes | None], matched: Matched) -> Sequence[bytes | None]:
    """Return what tells samples without names apart: the digest of the image, or all digests."""
    at = matched.image
    if at is None:
        return digests
    image = slice(at * WIDTH, (at + 1) * WIDTH)
    contents = (each[image] if each else MISSING for each in digests)
    return [each if each != MISSING else None for each in contents]


def _numbered(table: pl.DataFrame, by: str) -> pl.DataFrame:
    """Tell apart samples of one name, or of one content, so that a join pairs them one by one."""
    ordered = table.sort(by, "digests", maintain_order=True)
    return ordered.with_columns(number=pl.int_range(pl.len()).over(by))


def _difference(row: Mapping[str, Any], matched: Matched) -> str:
    """Say in which fields a sample differs from that of the source."""
    own, other, path = row["digests"], row["digests_source"], row["path"]
    lacks: list[str] = []
    invents: list[str] = []
    differs: list[str] = []
    for at in differing(own, other):
        field = slice(at * WIDTH, (at + 1) * WIDTH)
        into = lacks if own[field] == MISSING else invents if other[field] == MISSING else differs
        into.append(matched.shown(at))
    said = []
    if differs:
        be = "is not that" if len(differs) == 1 else "are not those"
        said.append(f"its {_and(differs)} {be} of {path}")
    if lacks:
        said.append(f"lacks the {_and(lacks)} of {path}")
    if invents:
        said.append(f"has a {_and(invents)}, and {path} has none")
    return "; ".join(said)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _hints(other: pl.DataFrame, compared: int, matched: Matched) -> Iterator[str]:
    """Say what to give if all labels differ, as they do from those of another list."""
    if matched.transformed:
        yield "images not compared, because they were transformed"
    if matched.untold:
        yield f"not compared, as the source does not tell them: {format_some(matched.untold)}"
    at = matched.label
    if at is None or not compared or other.height < compared:
        return
    label = slice(at * WIDTH, (at + 1) * WIDTH)
    pairs = other.select("digests", "digests_source").iter_rows()
    if all(own[label] != told[label] for own, told in pairs):
        yield "all labels differ: give the --labels or --list that told the labels"


def _missing(table: pl.DataFrame) -> Iterator[Problem]:
    for path in table["path"].sort():
        yield Problem("", None, path, "is in the source, but neither in a shard nor rejected")


def _problems(table: pl.DataFrame, message: Callable[[dict[str, Any]], str]) -> Iterator[Problem]:
    for row in table.sort("file", "offset").iter_rows(named=True):
        yield Problem(row["file"], row["offset"], row["key"], message(row))
