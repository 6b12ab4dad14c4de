"""Comparing the samples of shards with those of their source, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import polars as pl

from dsprep.catalog import Catalog, SourceScan
from dsprep.dataset.manifest import parse_rejects
from dsprep.errors import OptionError, SourceError
from dsprep.formats import shard_stem
from dsprep.frozen import Frozen
from dsprep.images.transform import Geometry
from dsprep.moving import Frame, further_images
from dsprep.options import option_name, require_effect
from dsprep.pipeline import Images, Pipeline
from dsprep.plan.copies import with_copies
from dsprep.plan.select import select
from dsprep.schema import FACTS, IMAGE, IMAGE_ID, LABEL, Field, Schema
from dsprep.sources.labels.classes import has_flags, renumbered
from dsprep.sources.passed_over import notes_on_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source
from dsprep.sources.understood import Record, described, read_recorded
from dsprep.storage.files import read_bytes, short_names
from dsprep.units import format_count, format_some, quoted_names
from dsprep.verifying.inspection import (
    LEFT_OUT,
    MISSING,
    PIXELS,
    WIDTH,
    Digested,
    Understood,
    digest_source,
)
from dsprep.verifying.report import Problem
from dsprep.verifying.shards import Shards
from dsprep.workers.executor import Executor
from dsprep.workers.worker import Report

_TASKS_PER_WORKER = 16

_REMADE = 1000  # augmented copies that are made again, as this takes as long as augmenting

_MAX_CLASSES = 20  # classes that have other names in the source; more are not the same classes
_MIN_SHARE = 0.5  # share of the samples of a part that a source holds, if the part was made of it

# The columns of samples that were digested.
_TEXTS = dict.fromkeys(("name", "digests", "reason", "key", "file", "offset"), pl.String())
_COLUMNS = _TEXTS | {"digests": pl.Binary(), "offset": pl.Int64()}


class Comparison(Frozen):
    """Shards, the source that they are compared with, and which fields of both are compared."""

    shards: Shards
    catalog: Catalog  # the source
    pipeline: Pipeline  # how samples of the shards were made of it
    fields: tuple[Field, ...]  # the fields of the shards that are compared
    names: Mapping[str, str]  # names in the source, for fields that have another name there
    roles: Mapping[str, str]  # the roles of fields, by their names in the shards
    extra: tuple[str, ...]  # fields that only the shards have; they are not compared
    every_copy: bool = False  # whether all augmented copies are made again
    remarks: tuple[str, ...] = ()  # what to say of options if there are problems

    def digest_of(self, role: str) -> slice | None:
        """Return where the digest of the image or the label is; None if it is not compared."""
        for at, field in enumerate(self.fields):
            if self.roles.get(field.name) == role:
                return slice(at * WIDTH, (at + 1) * WIDTH)
        return None

    def kind_of(self, field: Field) -> str:
        """Return how a field is compared: the pixels of masks that were moved, else its type."""
        moved = field.type == "mask" and self.shards.made.transform is not None
        return PIXELS if moved else field.type

    @property
    def by_number(self) -> bool:
        """Whether samples are known by where they were in the source."""
        known_by = self.pipeline.layout.known_by
        return known_by == "id" or (known_by == "key" and self.pipeline.key == "index")


def prepare(
    shards: Shards,
    understood: Understood,
    against: Source,
    pool: Executor,
    filter_table: str | None = None,
) -> tuple[Comparison, Understood, list[Problem], list[str]]:
    """Find out how samples of shards were made of those of a source, and what their schemas tell.

    The fields of shards that were copied may be better known from the source. A table may leave
    some of its samples out. The notes are on files of the source that the shards do not hold.
    """
    made, base = shards.made, understood.schema
    if base is None:
        raise SourceError(
            f"{shards.destination.place}: {understood.notes[-1]}; nothing can be compared"
        )
    against, (catalog, findings), remarks = _read_as_described(against, shards, understood, pool)
    left_out = shards.manifest.options.get("leave_out", ()) if shards.manifest else ()
    notes = [*notes_on_left(findings, left_out)]
    settled = catalog.settled
    require_effect("", {"--classes": against.classes}, classified=catalog.has_classes)
    if not understood.enforced and catalog.reader.reads_format(made.layout.name):
        base = _fields_of_copies(catalog, base)
        pixels = catalog.reader.pixels
        understood = understood._replace(schema=base, ignored=settled.ignored, pixels=pixels)
    catalog = _numbered_as(base, catalog, against)
    if filter_table is not None:
        catalog, _ = select(catalog, None, filter_table)
    if made.copies is not None:  # the copies are made again
        kept = Images(keep_fields=made.keep_fields).kept(settled.schema)
        catalog, _ = with_copies(catalog, made.copies, kept)
    pipeline = _pipeline_of(shards, base, catalog, settled.schema)
    comparison, lacking = _match_fields(shards, base, catalog, pipeline)
    comparison = replace(comparison, remarks=tuple(remarks))
    by_name = settled.schema.by_name
    lost = [name for name in lacking if made.known or by_name[name].type in ("mask", "objects")]
    what = f"lacks {len(lost):,} fields that the source has: {quoted_names(lost, 3)}"
    if len(lost) == 1:
        what = f"has no field {lost[0]!r}, and the source has"
    problems = [Problem(shards.destination.manifest.name, what)] if lost else []
    return comparison, understood, [*problems, *_other_classes(comparison)], notes


def _read_as_described(
    against: Source, shards: Shards, understood: Understood, pool: Executor
) -> tuple[Source, SourceScan, Sequence[str]]:
    """Read the source with the options that the manifest records, if they fit it.

    Returns the source, what was read, and what to say of the options if there are problems.
    """
    values = shards.manifest.layout if shards.manifest and not shards.manifest.added else {}
    where = str(shards.destination.manifest)
    why = ""
    if values:
        try:
            record = read_recorded(values, where)
            why = _outside(record, against)
            if not why:
                own = described(against, record.layout)
                return own, _read_as_recorded(own, shards, understood, pool), []
        except (OptionError, SourceError) as error:
            why = f"{where}: the options in it do not fit {against.root} ({error}): give them again"
    return against, _read_as_recorded(against, shards, understood, pool), [why] if why else []


def _outside(record: Record, against: Source) -> str:
    """Say which files outside of the source have to be named again; empty if none."""
    missing = [option_name(name) for name in record.outside]
    missing = [name for name in missing if name not in against.given]
    options = " and ".join(f"{name} PATH" for name in missing)
    return f"files outside of {against.root} were used: give {options} again" if missing else ""


def _read_as_recorded(
    against: Source, shards: Shards, understood: Understood, pool: Executor
) -> SourceScan:
    """Read the source with the fields that the shards were made with."""
    recorded = _as_recorded(against, shards, understood)
    catalog, findings = read_source(recorded, pool.map)
    label, known = understood.schema and understood.schema.label, catalog.settled.schema
    if label and label in known.by_name and known.label != label and not recorded.choice.unlabeled:
        # It was packed with --label-field, or a table called it so.
        old = {new: name for name, new in shards.made.fields.new_names.items()}.get(label, label)
        recorded = recorded.replace(choice=replace(recorded.choice, label=old))
        catalog, findings = read_source(recorded, pool.map)
    return catalog, findings


def _fields_of_copies(catalog: Catalog, own: Schema) -> Schema:
    """Return the fields of samples that were copied from a source, where all were looked at."""
    names = {name: field.names for name, field in own.by_name.items()}
    schema = catalog.settled.schema
    fields = (
        replace(field, missing=True, names=names.get(field.name, ())) for field in schema.fields
    )
    return replace(schema, fields=tuple(fields))


def _numbered_as(base: Schema, catalog: Catalog, against: Source) -> Catalog:
    """Number the classes of the source as shards do, which an option or an append has numbered."""
    own, named = catalog.classes, base.label_field.names if base.label_field else ()
    is_given = against.classes is not None or against.class_order is not None
    are_numbers = catalog.label_column == "cls" or has_flags(catalog)
    if not (own and named and set(own) <= set(named)) or is_given or not are_numbers:
        return catalog
    catalog = renumbered(catalog, named)
    return replace(catalog, overridden=catalog.overridden | {"label"})


def _pipeline_of(shards: Shards, base: Schema, catalog: Catalog, schema: Schema) -> Pipeline:
    """Return how samples of shards were made of those of the source, which have this schema."""
    made = shards.made
    # Of images that were transformed, the sizes are enough to move what lies on them.
    transform = made.transform and Geometry(**vars(made.transform))
    keep_fields, frame = made.keep_fields, Frame(*made.frame)
    images = Images(transform, "none", made.max_pixels, keep_fields, frame, made.augment)
    is_typed = transform is None or images.moves_fields(schema)
    return Pipeline(
        catalog.reader.in_frame(frame.turn),
        schema,
        replace(made.layout, schema=base if is_typed else None),
        images if is_typed else replace(images, transform=None, augment=None),
        made.key,
        catalog.classes,
        overridden=catalog.overridden,
    )


def _as_recorded(against: Source, shards: Shards, understood: Understood) -> Source:
    """Return the source with the choice of fields that the shards were made with."""
    fields, choice = shards.made.fields, against.choice
    label = understood.schema.label_field if understood.schema else None
    is_text = label is not None and label.type == "text" and choice.label_type is None
    choice = replace(
        choice,
        only=fields.only,
        drop=fields.drop,
        rename=fields.rename,
        cast=fields.cast,
        look_all=choice.look_all or not (understood.enforced or choice.schema),
        label_type="text" if is_text else choice.label_type,
    )
    takes_texts = understood.schema is not None and understood.schema.has_texts
    takes_masks = understood.schema is not None and understood.schema.has_masks
    versions = shards.made.versions
    return against.replace(
        choice=choice,
        needs_names=True,
        versions=versions,
        takes_texts=takes_texts,
        takes_masks=takes_masks,
    )


def _match_fields(
    shards: Shards, base: Schema, catalog: Catalog, pipeline: Pipeline
) -> tuple[Comparison, list[str]]:
    """Find the fields of a source that became those of shards, and those that became none."""
    made, layout, source = shards.made, shards.made.layout, pipeline.schema
    roles = {base.label: LABEL, base.image: IMAGE}
    own = {IMAGE: source.image, LABEL: source.label}
    others = further_images(base, pipeline.images.kept(base))
    fields, extra = [], []
    names: dict[str, str] = {}
    for field in base.fields:
        role = roles.get(field.name, "")
        if made.transform is not None and (role == IMAGE or field.tells or field.name in others):
            continue
        name = field.name if field.name in source.by_name else own.get(role)
        if name is None and not (role == LABEL and made.known) and not field.tells:
            extra.append(field.name)
            continue
        bits = layout.limits.label_bits if role == LABEL else layout.limits.float_bits
        kind = field.type if bits > 32 else field.type.replace("float64", "float32")
        fields.append(replace(field, type=kind))
        if name is not None and name != field.name:
            names[field.name] = name
    matched = {names.get(field.name, field.name) for field in base.fields} | {*FACTS}
    matched.add(IMAGE_ID)  # few formats have a place for image ids
    matched |= {own[role] or "" for name, role in roles.items() if name}
    lacking = [
        field.name
        for field in source.fields
        if field.name not in matched and layout.is_listed(field)
    ]
    shown = {name: role for name, role in roles.items() if name}
    found = Comparison(shards, catalog, pipeline, tuple(fields), names, shown, tuple(extra))
    return found, lacking


def _other_classes(comparison: Comparison) -> Iterator[Problem]:
    """Find classes that have other names in the source."""
    shards, source = comparison.shards, comparison.pipeline.schema.by_name
    file = shards.destination.manifest.name if shards.manifest else str(shards.destination.place)
    for field in comparison.fields:
        if field.type not in ("class", "objects", "mask"):
            continue
        name, theirs = comparison.names.get(field.name, field.name), comparison.catalog.classes
        if comparison.roles.get(field.name) != LABEL:
            theirs = source[name].names if name in source else ()
        messages = (
            f"calls the class {number} {mine!r}, the source {other!r}"
            for number, (mine, other) in enumerate(zip(field.names, theirs or (), strict=False))
            if mine != other and mine and other
        )
        yield from (Problem(file, text) for text in islice(messages, _MAX_CLASSES))


def compare(
    comparison: Comparison, digested: Sequence[Digested], pool: Executor, report: Report
) -> tuple[list[Problem], list[str]]:
    """Find the samples that are missing, too many, or not what the source holds."""
    # Samples are paired by name. If the shards and the source have no name in common, because
    # features have no names, or if names are numbers of several parts, the contents must be the
    # same, in any order. If a data set was appended to, a part of it is left out if
    # the source holds few of its samples, and most samples of another part.
    part_of = comparison.shards.manifest.parts if comparison.shards.manifest else {}
    part = pl.col("file").replace_strict(part_of, default=0, return_dtype=pl.Int64)
    found = _table(digested, comparison).with_columns(part=part)
    source = _digest_source(comparison, pool, report, made := _made(comparison, found))
    found, source, notes = _of_source(found, source, comparison)
    named = found.is_empty() or found["name"].is_in(source["name"].implode()).any()
    if comparison.by_number and found["part"].n_unique() > 1:
        named = False  # each part of a joined data set has its own numbers
    on = ["name" if named else "content", "number"]
    found, source = (
        # Samples of one name, or of one content, are numbered: a join pairs them one by one.
        table.sort(on[0], "digests", maintain_order=True).with_columns(
            number=pl.int_range(pl.len()).over(on[0])
        )
        for table in (found, source)
    )
    pairs = found.join(source, on=on, how="inner", suffix="_source", nulls_equal=True)
    unknown, gone = pl.col("digests").is_null(), pl.col("digests_source").is_null()
    both = pairs.filter(~unknown & ~gone)
    other = both.filter("made", pl.col("digests") != pl.col("digests_source"))
    notes += _hints(other, both.height, comparison)
    if not made.all():
        many = _REMADE + int((~made).sum())
        notes.append(f"{_REMADE:,} of {many:,} augmented copies made again; --decode makes all")
    if misfits := pairs.filter(unknown & gone).height:
        notes.append(f"{format_count(misfits, 'sample')} not compared: they do not fit the schema")
    expected = source.filter(~pl.col("rejected"))
    missing = expected.join(found, on=on, how="anti", nulls_equal=True)["path"].sort()
    lost = "is in the source, but neither in a shard nor rejected"
    problems = [
        *_problems(other, lambda row: _difference(row, comparison)),
        *_problems(
            pairs.filter(unknown & ~gone),
            lambda row: f"is not compared with {row['path']}, as it is not valid: {row['reason']}",
        ),
        *_problems(
            pairs.filter(~unknown & gone),
            lambda row: (
                f"is not compared with {row['path']}, which is not valid: {row['reason_source']}"
            ),
        ),
        *_problems(
            found.join(source, on=on, how="anti", nulls_equal=True),
            lambda row: "the source holds no such sample",
        ),
        *(Problem("", lost, path) for path in missing),
    ]
    return problems, [*notes, *(comparison.remarks if problems else ())]


def _table(digested: Sequence[Digested], comparison: Comparison) -> pl.DataFrame:
    # `content` tells samples without names apart: the digest of the image or, if images are not
    # compared, of all fields.
    table = pl.DataFrame(list(zip(*digested, strict=True)), schema=_COLUMNS, orient="col")
    at = comparison.digest_of(IMAGE)
    if at is None:
        return table.with_columns(content="digests")
    images = (digests[at] if digests else MISSING for _, digests, *_ in digested)
    contents = [image if image != MISSING else None for image in images]
    return table.with_columns(content=pl.Series(contents, dtype=pl.Binary))


def _made(comparison: Comparison, found: pl.DataFrame) -> pl.Series:
    """Return which samples of the source are made and compared: all but copies, and some of these.

    Others are only looked for, by their names.
    """
    table = comparison.catalog.table
    copied = table["copy"] > 0 if "copy" in table.columns else pl.repeat(False, 0, eager=True)
    copies = copied.arg_true()
    of_parts = comparison.by_number and found["part"].n_unique() > 1
    is_named = found["name"].n_unique() == len(found) and not of_parts
    takes_long = comparison.pipeline.images.augment is not None and len(copies) > _REMADE
    if comparison.every_copy or not (takes_long and is_named):
        return pl.repeat(True, len(table), eager=True)
    some = [copies[number * len(copies) // _REMADE] for number in range(_REMADE)]
    return (~copied).scatter(some, True)


def _digest_source(
    comparison: Comparison, pool: Executor, report: Report, made: pl.Series
) -> pl.DataFrame:
    """Digest the samples of the source, as they would be in the shards."""
    shards, catalog, pipeline = comparison.shards, comparison.catalog, comparison.pipeline
    known, columns = pipeline.schema.by_name, []
    for field in comparison.fields:
        name = comparison.names.get(field.name, field.name)
        converts = name in known and known[name].type != field.type
        columns.append((name, comparison.kind_of(field), converts))
    share = max(1, math.ceil(len(catalog) / (_TASKS_PER_WORKER * pool.size)))
    named = replace(pipeline, images=replace(pipeline.images, augment=None))
    tasks = (
        (each, replace(catalog, table=part).rows(), tuple(columns))
        for each, chosen in ((pipeline, made), (named, ~made))
        for part in catalog.table.filter(chosen).iter_slices(share)
    )
    digested = [row for rows in pool.map(digest_source, tasks, report) for row in rows]
    reports = shards.manifest.names() if shards.manifest else ()
    paths: list[str] = []
    if (file := shards.destination.companion("rejects.jsonl")).name in reports:
        # a source that is missing or changed is already reported
        with suppress(SourceError, OSError):
            paths = [reject.path for reject in parse_rejects(read_bytes(str(file)), "")]
    samples = _table(digested, comparison).select("name", "digests", "content", "reason")
    rows = pl.concat([made.arg_true(), (~made).arg_true()])
    samples = samples.with_columns(row=rows).sort("row").select(pl.exclude("row"), made=made)
    rejected, files = catalog.table["path"].is_in(paths), catalog.reader.sources()
    rejected |= (samples["reason"] == LEFT_OUT).fill_null(False)
    if catalog.has_places and files:  # what a sample is called before it is read
        stems = pl.Series([shard_stem(name) for name in short_names(files)])
        number = catalog.table.select(pl.int_range(pl.len()).over("file")).to_series()
        names = stems.gather(catalog.table["file"]) + "-" + number.cast(pl.String).str.zfill(7)
        rejected |= names.is_in(paths)
    return samples.with_columns(catalog.table["path"], rejected=rejected)


def _of_source(
    found: pl.DataFrame, source: pl.DataFrame, comparison: Comparison
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Return the samples of the parts made of a source, and the source with its names there."""
    contents = source["content"].drop_nulls()  # samples may hold no image
    is_there = found["content"].is_in(contents.implode()).fill_null(False)
    if not comparison.by_number:
        is_there |= found["name"].is_in(source["name"].implode())
    shares = found.select("part", is_there=is_there).group_by("part").agg(pl.mean("is_there"))
    parts = shares.filter(pl.col("is_there") >= _MIN_SHARE)["part"].sort()
    if len(parts) in (0, len(shares)):
        return found, source, []
    is_of = found["part"].is_in(parts.implode())
    if comparison.by_number and parts[0] > 0:  # appended samples go on counting, joined ones do not
        added = manifest.added[: parts[0]] if (manifest := comparison.shards.manifest) else ()
        start = max((n for n, each in enumerate(added, 1) if each.get("first_id") == 0), default=0)
        before = found.filter(pl.col("part").is_between(start, parts[0] - 1))["name"]
        most = before.cast(pl.Int64, strict=False).max()
        numbers = source["name"].cast(pl.Int64) + (-1 if most is None else most) + 1
        width = 9 if comparison.pipeline.layout.known_by == "key" else 0
        source = source.with_columns(name=numbers.cast(pl.String).str.zfill(width))
    left = found.filter(~is_of)
    shards = format_count(left["file"].n_unique(), "shard")
    note = f"{format_count(left.height, 'sample')} in {shards} not compared: of another source"
    return found.filter(is_of), source, [note]


def _difference(row: Mapping[str, Any], comparison: Comparison) -> str:
    """Say in which fields a sample differs from that of the source."""
    path = row["path"]
    lacks, invents, differs = list[str](), list[str](), list[str]()
    for at, field in enumerate(comparison.fields):
        here = slice(at * WIDTH, (at + 1) * WIDTH)
        own, other = row["digests"][here], row["digests_source"][here]
        if own != other:
            into = lacks if own == MISSING else invents if other == MISSING else differs
            into.append(comparison.roles.get(field.name) or f"field {field.name!r}")
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


def _hints(other: pl.DataFrame, compared: int, comparison: Comparison) -> Iterator[str]:
    """Say what is not compared, and what to pass if all labels differ, as those of another list."""
    if comparison.shards.made.transform is not None:
        yield "images not compared, because they were transformed"
    elif comparison.shards.made.copies is not None and not other.is_empty():
        yield "augmented copies were made again; another version of Pillow makes other bytes"
    if comparison.extra:
        yield f"not compared, as the source does not have them: {format_some(comparison.extra)}"
    label = comparison.digest_of(LABEL)
    if label is None or other.is_empty():
        return
    pairs = other.select("digests", "digests_source").iter_rows()
    differ = [own[label] != theirs[label] for own, theirs in pairs]
    classes, names = comparison.catalog.classes, comparison.fields[label.start // WIDTH].names
    is_other = classes and names and set(names).isdisjoint(classes)  # but numbers may be equal
    if any(differ) if is_other else other.height == compared and all(differ):
        yield "all labels differ: pass the --labels, --list or --label-field that they came from"


def _problems(table: pl.DataFrame, message: Callable[[dict[str, Any]], str]) -> Iterator[Problem]:
    for row in table.sort("file", "offset").iter_rows(named=True):
        yield Problem(row["file"], message(row), row["key"], row["offset"])
