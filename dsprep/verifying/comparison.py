"""Comparing the samples of shards with those of their source, one by one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.catalog import Catalog
from dsprep.dataset.manifest import Manifest, read_rejects
from dsprep.errors import SourceError
from dsprep.formats import Format, shard_stem
from dsprep.options import require_effect
from dsprep.pipeline import Images, Pipeline
from dsprep.run.shard import Report
from dsprep.schema import FACTS, IMAGE, LABEL, Choice, Field, Schema
from dsprep.sources.classes import has_flags, renumbered
from dsprep.sources.reading import Source, read_source
from dsprep.storage.files import short_names
from dsprep.units import format_count, format_some
from dsprep.verifying.digests import MISSING, WIDTH, Digester, differing
from dsprep.verifying.inspection import Digested, SourceTask, digest_source
from dsprep.verifying.report import Problem
from dsprep.verifying.shards import Shards
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.verifying.verify import Understood

_TASKS_PER_WORKER = 16

_MAX_CLASSES = 20
"""Classes that have other names in the source; more are not the same classes."""

_MIN_SHARE = 0.5
"""Share of the samples of a part that a source holds, if the part was made of it."""


@dataclass(frozen=True)
class Matched:
    """Which fields of shards are compared, and with which of the source."""

    transformed: bool  # whether images were, and are not compared
    fields: tuple[Field, ...]  # the fields of the shards that are compared
    names: Mapping[str, str]  # the names in the source of those that have another name there
    roles: Mapping[str, str]  # the roles of fields, by their names in the shards
    extra: tuple[str, ...]  # fields that only the shards have; they are not compared
    lacking: tuple[str, ...]  # fields that only the source has

    def shown(self, at: int) -> str:
        """Return what messages call a field."""
        name = self.fields[at].name
        return self.roles.get(name) or f"field {name!r}"

    def slice_of(self, role: str) -> slice | None:
        """Return where the digest of the image or the label is; None if it is not compared."""
        for at, field in enumerate(self.fields):
            if self.roles.get(field.name) == role:
                return slice(at * WIDTH, (at + 1) * WIDTH)
        return None


@dataclass(frozen=True)
class Origin:
    """What shards are compared with."""

    catalog: Catalog  # the source
    pipeline: Pipeline  # how samples were made of it
    matched: Matched  # which fields are compared
    rejected: frozenset[str]  # the paths of samples that are known not to be in the shards
    part_of: Mapping[str, int]  # the part that each shard is of: what one command wrote


def find_origin(
    shards: Shards, understood: Understood, against: Source, pool: Pool
) -> tuple[Origin, Understood, list[Problem]]:
    """Find out how samples of shards were made of those of a source."""
    made = shards.made
    if understood.schema is None:
        raise SourceError(f"{shards.directory}: {understood.notes[-1]}; nothing can be compared")
    catalog, _ = read_source(_as_recorded(against, made.fields, understood), pool.map)
    settled = catalog.settled
    assert settled is not None
    require_effect("", {"--classes": against.classes}, labeled=catalog.is_labeled)
    reader, layout = catalog.reader, made.layout
    if not understood.enforced and reader.reads_samples and reader.table.name == layout.name:
        # Samples that were copied have the fields of the source, where all samples were looked at.
        known = understood.schema.by_name
        fields = tuple(
            replace(
                field, missing=True, names=known[field.name].names if field.name in known else ()
            )
            for field in settled.schema.fields
        )
        schema = replace(settled.schema, fields=fields)
        understood = understood._replace(
            schema=schema, ignored=settled.ignored, pixels=reader.pixels
        )
    assert understood.schema is not None
    base: Schema = understood.schema
    own, named = catalog.classes, base.label_field.names if base.label_field else ()
    is_given = against.classes is not None or against.class_order is not None
    are_numbers = catalog.label_column == "cls" or has_flags(catalog)
    if own and named and set(own) <= set(named) and are_numbers and not is_given:
        catalog = renumbered(catalog, named)  # an option, or an append, has numbered them
        catalog = replace(catalog, from_rows=catalog.from_rows | {"label"})
    pipeline = Pipeline(
        catalog.reader,
        settled.schema,
        replace(layout, schema=None if made.transform else base),
        Images(check="none", max_pixels=made.max_pixels),
        made.key,
        catalog.classes,
        from_rows=catalog.from_rows,
    )
    is_transformed = made.transform is not None
    matched = match_fields(base, pipeline.schema, layout, is_transformed, made.known)
    origin = Origin(catalog, pipeline, matched, _rejected_paths(shards), _parts(shards.manifest))
    return origin, understood, list(_schema_problems(shards, matched, catalog))


def _as_recorded(against: Source, fields: Choice, understood: Understood) -> Source:
    """Return the source with the choice of fields that the shards were made with."""
    choice = replace(
        against.choice,
        only=fields.only,
        drop=fields.drop,
        rename=fields.rename,
        look_all=against.choice.look_all or not (understood.enforced or against.choice.schema),
    )
    label = understood.schema.label_field if understood.schema else None
    if label is not None and label.type == "text" and choice.label_type is None:
        choice = replace(choice, label_type="text")
    return replace(against, choice=choice, needs_names=True)


def _parts(manifest: Manifest | None) -> dict[str, int]:
    """Return which command wrote each shard: 0 for the first, then those that appended."""
    added = manifest.options.get("appended") if manifest else None
    firsts = [
        append["first_shard"]
        for append in (added if isinstance(added, list) else ())
        if isinstance(append, dict) and isinstance(append.get("first_shard"), int)
    ]
    shards = manifest.shards if manifest else []
    return {shard.name: bisect_right(sorted(firsts), at) for at, shard in enumerate(shards)}


def _rejected_paths(shards: Shards) -> frozenset[str]:
    """Return the samples of the source that are known not to be in the shards."""
    for file in shards.manifest.files if shards.manifest else ():
        path = shards.directory / file.name
        if file.name.endswith("rejects.jsonl") and path.exists():
            try:
                return frozenset(reject.path for reject in read_rejects(path))
            except SourceError:  # it has changed, which is reported already
                break
    return frozenset()


def match_fields(
    base: Schema, source: Schema, layout: Format, transformed: bool, known: bool
) -> Matched:
    """Find the fields of a source that became those of shards."""
    roles = {base.label: LABEL, base.image: IMAGE}
    own = {IMAGE: source.image, LABEL: source.label}
    fields, extra = [], []
    names: dict[str, str] = {}
    for field in base.fields:
        role = roles.get(field.name, "")
        if transformed and (role == IMAGE or field.name in FACTS):
            continue
        name = field.name if field.name in source.by_name else own.get(role)
        if name is None and not (role == LABEL and known) and field.name not in FACTS:
            extra.append(field.name)
            continue
        bits = layout.label_bits if role == LABEL else layout.float_bits
        kind = field.type if bits > 32 else field.type.replace("float64", "float32")
        fields.append(replace(field, type=kind))
        if name is not None and name != field.name:
            names[field.name] = name
    matched = {names.get(field.name, field.name) for field in base.fields}
    matched |= {own[role] or "" for name, role in roles.items() if name}
    lacking = [field.name for field in source.fields if field.name not in matched | FACTS]
    shown = {name: role for name, role in roles.items() if name}
    return Matched(transformed, tuple(fields), names, shown, tuple(extra), tuple(lacking))


def _schema_problems(shards: Shards, matched: Matched, catalog: Catalog) -> Iterator[Problem]:
    """Find fields that the shards lack, and classes that have other names in the source."""
    for name in matched.lacking if shards.made.known else ():
        yield Problem(shards.manifest_name, None, "", f"has no field {name!r}, and the source has")
    file = shards.manifest_name or str(shards.directory)
    fields = catalog.settled.schema.by_name if catalog.settled else {}
    for field in matched.fields:
        if field.type != "class":
            continue
        name, theirs = matched.names.get(field.name, field.name), catalog.classes
        if matched.roles.get(field.name) != LABEL:
            theirs = fields[name].names if name in fields else ()
        messages = (
            f"calls the class {number} {mine!r}, the source {other!r}"
            for number, (mine, other) in enumerate(zip(field.names, theirs or (), strict=False))
            if mine != other and mine and other
        )
        yield from (Problem(file, None, "", text) for text in islice(messages, _MAX_CLASSES))


def compare(
    shards: Sequence[tuple[str, Digested]], origin: Origin, pool: Pool, report: Report
) -> tuple[list[Problem], list[str]]:
    """Find the samples that are missing, too many, or not what the source holds.

    Samples are paired by name. Where no name of the shards is one of the source's, as with features
    that tell no name, or where names are numbers of several parts, the contents must be the same,
    in whatever order. Of a data set that was appended to, a part is left out if the source holds
    few of its samples, and most of another's.
    """
    pipeline, matched = origin.pipeline, origin.matched
    parts = [(file, origin.part_of.get(file, 0), digested) for file, digested in shards]
    found = pl.concat(
        [_table("", 0, Digested(), matched), *(_table(*part, matched) for part in parts)]
    )
    source = _expected(origin, pool, report)
    found, source, notes = _of_source(found, source, pipeline)
    named = found.is_empty() or found["name"].is_in(source["name"].implode()).any()
    if _by_number(pipeline) and found["part"].n_unique() > 1:
        named = False  # each part was numbered as its own source was, not as one of all
    on = ["name" if named else "content", "number"]
    found, source = (_numbered(table, on[0]) for table in (found, source))
    pairs = found.join(source, on=on, how="inner", suffix="_source", nulls_equal=True)
    expected = source.filter(~pl.col("rejected"))
    unknown, gone = pl.col("digests").is_null(), pl.col("digests_source").is_null()
    both = pairs.filter(~unknown & ~gone)
    other = both.filter(pl.col("digests") != pl.col("digests_source"))
    notes += _hints(other, both.height, matched)
    if misfits := pairs.filter(unknown & gone).height:
        notes.append(f"{format_count(misfits, 'sample')} not compared: they do not fit the schema")
    missing = expected.join(found, on=on, how="anti", nulls_equal=True)["path"].sort()
    lost = "is in the source, but neither in a shard nor rejected"
    problems = [
        *_problems(other, lambda row: _difference(row, matched)),
        *_problems(
            pairs.filter(unknown & ~gone),
            lambda row: f"is not compared with {row['path']}: it {row['reason']}",
        ),
        *_problems(
            pairs.filter(~unknown & gone),
            lambda row: f"is not compared with {row['path']}: that {row['reason_source']}",
        ),
        *_problems(
            found.join(source, on=on, how="anti", nulls_equal=True),
            lambda row: "the source holds no such sample",
        ),
        *(Problem("", None, path, lost) for path in missing),
    ]
    return problems, notes


def _table(file: str, part: int, digested: Digested, matched: Matched) -> pl.DataFrame:
    """Return the samples of a shard, with what they hold.

    ``digests`` are those of all fields, ``content`` tells samples without names apart: the digest
    of the image or, if images are not compared, of all fields.
    """
    at = matched.slice_of(IMAGE)
    contents: Sequence[bytes | None] = digested.digests
    if at is not None:
        images = (digests[at] if digests else MISSING for digests in digested.digests)
        contents = [image if image != MISSING else None for image in images]
    return pl.DataFrame(
        {
            "part": [part] * len(digested.names),
            "file": [own or file for own in digested.files],
            "offset": digested.offsets,
            "key": digested.keys,
            "name": digested.names,
            "digests": digested.digests,
            "content": contents,
            "reason": digested.reasons,
        },
        schema={
            "part": pl.Int64(),
            "file": pl.String(),
            "offset": pl.Int64(),
            "key": pl.String(),
            "name": pl.String(),
            "digests": pl.Binary(),
            "content": pl.Binary(),
            "reason": pl.String(),
        },
    )


def _expected(origin: Origin, pool: Pool, report: Report) -> pl.DataFrame:
    """Digest the samples of the source, as they would be in the shards."""
    catalog, pipeline, matched = origin.catalog, origin.pipeline, origin.matched
    digester = Digester(matched.fields, matched.names, pipeline.schema)
    share = max(1, math.ceil(len(catalog) / (_TASKS_PER_WORKER * pool.size)))
    starts = range(0, len(catalog), share)
    tasks = (SourceTask(pipeline, catalog.slice(at, share).rows(), digester) for at in starts)
    done = dict(pool.run(digest_source, tasks, report))
    empty = _table("", 0, Digested(), matched)
    tables = [_table("", 0, done[number], matched) for number in range(len(starts))]
    samples = pl.concat([empty, *tables]).select("name", "digests", "content", "reason")
    rejected = _is_rejected(catalog, origin.rejected).alias("rejected")
    return samples.with_columns(catalog.table["path"], rejected)


def _is_rejected(catalog: Catalog, paths: frozenset[str]) -> pl.Series:
    """Return which samples have been rejected, by their paths or by their place in a shard."""
    rejected = catalog.table["path"].is_in(list(paths))
    files = catalog.reader.sources()
    if catalog.has_places and files:  # what a sample is called before it is read
        stems = pl.Series([shard_stem(name) for name in short_names(files)])
        number = catalog.table.select(pl.int_range(pl.len()).over("file")).to_series()
        names = stems.gather(catalog.table["file"]) + "-" + number.cast(pl.String).str.zfill(7)
        rejected |= names.is_in(list(paths))
    return rejected


def _of_source(
    found: pl.DataFrame, source: pl.DataFrame, pipeline: Pipeline
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Return the samples of the parts made of a source, and the source with its names there."""
    by_number = _by_number(pipeline)
    contents = source["content"].drop_nulls()  # samples may hold no image
    is_there = found["content"].is_in(contents.implode()).fill_null(False)
    if not by_number:
        is_there |= found["name"].is_in(source["name"].implode())
    shares = found.select("part", is_there=is_there).group_by("part").agg(pl.mean("is_there"))
    parts = shares.filter(pl.col("is_there") >= _MIN_SHARE)["part"].sort()
    if len(parts) in (0, len(shares)):
        return found, source, []
    is_of = found["part"].is_in(parts.implode())
    if by_number and parts[0] > 0:  # appended samples are numbered from the last one before them
        before = found.filter(pl.col("part") < parts[0])["name"].cast(pl.Int64, strict=False)
        before = before.fill_null(-1)
        numbers = source["name"].cast(pl.Int64) + before.max() + 1
        width = 9 if pipeline.layout.known_by == "key" else 0
        source = source.with_columns(name=numbers.cast(pl.String).str.zfill(width))
    left = found.filter(~is_of)
    shards = format_count(left["file"].n_unique(), "shard")
    note = f"{format_count(left.height, 'sample')} in {shards} not compared: of another source"
    return found.filter(is_of), source, [note]


def _by_number(pipeline: Pipeline) -> bool:
    """Return whether samples are known by where they were in the source."""
    known_by = pipeline.layout.known_by
    return known_by == "id" or (known_by == "key" and pipeline.key == "index")


def _numbered(table: pl.DataFrame, by: str) -> pl.DataFrame:
    """Number samples of one name, or of one content, so that a join pairs them one by one."""
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
    parts = []
    if differs:
        be = "is not that" if len(differs) == 1 else "are not those"
        parts.append(f"its {_and(differs)} {be} of {path}")
    if lacks:
        parts.append(f"lacks the {_and(lacks)} of {path}")
    if invents:
        parts.append(f"has a {_and(invents)}, and {path} has none")
    return "; ".join(parts)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _hints(other: pl.DataFrame, compared: int, matched: Matched) -> Iterator[str]:
    """Say what is not compared, and what to pass if all labels differ, as those of another list."""
    if matched.transformed:
        yield "images not compared, because they were transformed"
    if matched.extra:
        yield f"not compared, as the source does not have them: {format_some(matched.extra)}"
    label = matched.slice_of(LABEL)
    if label is None or not compared or other.height < compared:
        return
    pairs = other.select("digests", "digests_source").iter_rows()
    if all(own[label] != other[label] for own, other in pairs):
        yield "all labels differ: pass the --labels or --list that they came from"


def _problems(table: pl.DataFrame, message: Callable[[dict[str, Any]], str]) -> Iterator[Problem]:
    for row in table.sort("file", "offset").iter_rows(named=True):
        yield Problem(row["file"], row["offset"], row["key"], message(row))
