"""Shards of any format: their catalog, and how workers read them."""

from __future__ import annotations

import io
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from dsprep.errors import BadSample, DamagedShard, SourceError
from dsprep.findings import Finding
from dsprep.formats import shard_stem
from dsprep.formats.base import Format
from dsprep.formats.stream import ByteRun, ShardStream, why_no_shard
from dsprep.places.prefetch import AdjacentRows, OpenFiles, runs, unpack
from dsprep.places.scan import RunAll, importing_polars
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import IMAGE
from dsprep.sources.shards.shardset import ShardSet
from dsprep.storage.files import OpenFile, is_file, short_names
from dsprep.storage.stored import Facts
from dsprep.units import format_count, format_extensions

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import SourceScan

_AT_ONCE = 128  # shards that are indexed before their samples become rows
_MOST_MISSING = 1_000_000  # samples that a shard may lack: its manifest may come from anywhere
_BLOCK = 1 << 18  # few system calls, and it still fits a core's own cache for the checksum


class ShardReader(Reader):
    """Reads samples of shards."""

    reads_samples: ClassVar[bool] = True
    can_copy: ClassVar[bool] = True
    files: tuple[str, ...]  # the shards
    layout: Format  # their format
    named: bool = False  # whether the rows' paths are names of images that the shards do not have
    # position and uncompressed size of each compressed shard
    unpacked: tuple[tuple[int, int], ...] = ()
    # size and time of last change of each shard, to notice changes; None for unpacked copies
    states: tuple[Facts | None, ...] = ()

    @property
    def table(self) -> Format:
        return self.layout if self.reading is None else self.layout.without(self.reading.ignored)

    @property
    def keys_are_ids(self) -> bool:
        # true if a list beside the shards does not give the names
        return self.layout.known_by == "id" and not self.named

    def sources(self) -> Sequence[str]:
        return self.files

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        for number, sample in enumerate(self._raw(rows)):
            if isinstance(sample, Sample):
                sample.id = rows.ids[number]
                if self.named:
                    sample.path = rows.paths[number]
                    sample.key = key_of(sample.path)
                elif not sample.key:
                    sample.key = rows.paths[number]
            yield self.typed(sample)

    def _raw(self, rows: Rows) -> Iterator[Sample | BadSample]:
        packed = dict(self.unpacked)
        with OpenFiles(self.files, self.states) as files:
            all_runs = runs(rows) if packed else files.ahead(runs(rows))
            for number, own in groupby(all_runs, attrgetter("file")):
                if number in packed:
                    files.same(number)
                    spans = list(own)
                    yield from self._unpack(number, range(spans[0].first, spans[-1].last), rows)
                    continue
                for run in own:
                    yield from self._read_run(files.same(number), run, rows)

    def _read_run(
        self, file: OpenFile, run: AdjacentRows, rows: Rows
    ) -> Iterator[Sample | BadSample]:
        """Read samples that follow one another; one that is damaged does not spoil the next."""
        path = self.files[run.file]
        number = run.first
        while number < run.last:
            start = rows.offsets[number]
            with ShardStream(path, ByteRun(file, start, run.stop), start=start) as stream:
                try:
                    for entry in self.layout.read(stream):
                        if (entry.offset, entry.size) != (start, rows.sizes[number]):
                            break
                        yield entry.sample
                        number += 1
                        if number == run.last:
                            return
                        start = rows.offsets[number]
                    yield BadSample(f"at byte {start}: the shard has changed")
                except DamagedShard as error:
                    yield BadSample(f"at byte {error.offset}: {error.problem}")
                number += 1

    def _unpack(self, file: int, numbers: range, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read samples of a compressed shard, which is only read from front to back."""
        path = self.files[file]
        with ExitStack() as opened:
            stream = opened.enter_context(ShardStream(path))
            last, encoded = -1, b""
            for number in numbers:
                offset, size = rows.offsets[number], rows.sizes[number]
                try:
                    if offset != last:  # the same offset again is the same sample again
                        if offset < stream.offset:
                            opened.close()
                            stream = opened.enter_context(ShardStream(path))
                        stream.skip(offset - stream.offset, "the shard")
                        encoded, last = stream.read(size, "a sample"), offset
                    sample = ShardStream(path, io.BytesIO(encoded), start=offset)
                    found = list(self.layout.read(sample))
                except DamagedShard as error:
                    yield BadSample(f"at byte {error.offset}: {error.problem}")
                    continue
                if [entry.size for entry in found] == [size]:
                    yield found[0].sample
                else:
                    yield BadSample(f"at byte {offset}: the shard has changed")

    def copy(self, rows: Rows) -> Iterator[tuple[bytes | BadSample, int]]:
        with OpenFiles(self.files, self.states) as files:
            for run in files.ahead(runs(rows)):
                place = files.same(run.file), self.files[run.file]
                if self.layout.is_intact(b"") is None:  # nothing to check in each sample
                    yield from _blocks(run, rows, *place)
                else:
                    yield from _intact(run, rows, *place, self.layout)

    def spools(self) -> Sequence[int]:
        return [size for _, size in self.unpacked]

    def write_spool(self, number: int, path: str) -> None:
        at, size = self.unpacked[number]
        with ShardStream(self.files[at]) as stream:
            unpack(stream, size, path)

    def spooled(self, directory: str) -> ShardReader:
        files, states = list(self.files), list(self.states)
        for number, (position, _) in enumerate(self.unpacked):
            files[position], states[position] = os.path.join(directory, str(number)), None
        return replace(self, files=tuple(files), unpacked=(), states=tuple(states))


def _blocks(
    run: AdjacentRows, rows: Rows, file: OpenFile, path: str
) -> Iterator[tuple[bytes, int]]:
    """Read a run in blocks, which hold several samples where these are small."""
    start, samples = run.start, 0
    for number in range(run.first, run.last):
        stop = rows.offsets[number] + rows.sizes[number]
        samples += 1
        if stop - start < _BLOCK and number + 1 < run.last:
            continue
        while start < stop:
            data = file.pread(min(stop - start, 2 * _BLOCK), start)
            if not data:
                raise _shorter(path, stop)
            start += len(data)
            yield data, samples if start == stop else 0
        samples = 0


def _intact(
    run: AdjacentRows, rows: Rows, file: OpenFile, path: str, layout: Format
) -> Iterator[tuple[bytes | BadSample, int]]:
    """Read a run sample by sample, and reject those whose checksums are wrong."""
    stream = ShardStream(path, ByteRun(file, run.start, run.stop), start=run.start)
    for size in rows.sizes[run.first : run.last]:
        start = stream.offset
        try:
            encoded = stream.read(size, "a sample")
        except DamagedShard:
            raise _shorter(path, start + size) from None
        if layout.is_intact(encoded):
            yield encoded, 1
        else:
            yield BadSample(f"at byte {start}: the checksum of the sample is wrong"), 1


def _shorter(path: str, stop: int) -> SourceError:
    return SourceError(f"{path}: ends before byte {stop}: it has changed")


@dataclass
class IndexedShard:
    """The samples of a shard, as far as its headers tell."""

    state: Facts  # size of the file, and when it was last changed
    compressed: bool  # whether offsets count the bytes of the decompressed shard
    # offset, encoded size, id, and number among all records of the shard, of each sample
    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("Q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    keys: str = ""  # the key of each, joined by NUL; empty where headers do not tell it
    # the numbers of all labels, and how many each has; none if headers tell none
    labels: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    members: int = 0  # parts of samples that headers name
    # members that belong to no sample, as their names tell no key, by extension
    passed_over: Counter[str] = field(default_factory=Counter)
    without_image: int = 0  # records that have a label and no image: they index other records
    damage: list[tuple[int, str]] = field(default_factory=list)  # where, and how


def index_shard(task: tuple[str, Format]) -> IndexedShard:
    """Find the samples of a shard, in a worker, by its headers."""
    path, layout = task
    keys: list[str] = []

    @cache  # nearly all records have the same fields
    def has_image(names: tuple[str, ...]) -> bool:
        return any(layout.meaning(name).role == IMAGE for name in names)

    with ShardStream(path, headers=True) as stream:
        found = IndexedShard(stream.facts(), stream.compressed)
        try:
            for number, (offset, size, key, id, label, names) in enumerate(layout.spans(stream)):
                if label is not None:
                    if not has_image(names or ()):
                        found.without_image += 1
                        continue
                    found.labels.extend(label)
                    found.lengths.append(len(label))
                found.members += len(names or ())
                found.offsets.append(offset)
                found.sizes.append(size)
                found.ids.append(id)
                found.numbers.append(number)
                # Only a hostile key holds what keys are joined by.
                keys.append(key.replace("\x00", "\\x00"))
        except DamagedShard as error:
            found.damage.append((error.offset, error.problem))
        found.passed_over = stream.passed_over
    found.keys = "\x00".join(keys)
    return found


def read_shards(
    shards: ShardSet, *, classes: tuple[str, ...] | None = None, run_all: RunAll = map
) -> SourceScan:
    """Make the catalog of shards, with the samples in the order of the shards."""
    # The paths of the samples are their keys, or the names in a `.lst` beside a RecordIO shard; if
    # neither exists, `STEM-0000012`: the stem of the shard and the number of the sample in it.
    findings: list[Finding] = []
    states: list[Facts] = []
    unpacked: list[tuple[int, int]] = []
    keyed, is_labeled = True, True
    rows: list[pl.DataFrame] = []
    names = short_names(shards.files)
    for first in range(0, len(names), _AT_ONCE):
        tasks = [(path, shards.layout) for path in shards.files[first : first + _AT_ONCE]]
        with importing_polars():
            indexed = run_all(index_shard, tasks)
        for at, shard in enumerate(indexed, first):
            path, count = shards.files[at], len(shard.offsets)
            why = why_no_shard(shard.passed_over, shard.members)
            if why and not shards.known:
                raise SourceError(f"{path}: {why}")
            findings += _findings(path, shard, shards.samples.get(path, 0))
            states.append(shard.state)
            if shard.compressed and count:
                unpacked.append((at, shard.offsets[-1] + shard.sizes[-1]))
            keyed = keyed and bool(shard.keys.strip("\x00") or not count)
            is_labeled = is_labeled and len(shard.lengths) == count
            rows.append(_rows(at, names[at], shard, is_labeled))
    import polars as pl  # not before: it is loaded while workers index

    from dsprep.catalog import Catalog, compact
    from dsprep.places.files import with_sides_of_files

    findings += [Finding("note", "", note) for note in _notes(shards, classes)]
    table = pl.concat(_with_equal_labels(rows, is_labeled), how="vertical_relaxed")
    del rows
    if table.is_empty():
        why = f": {findings[0].path} {findings[0].detail}" if findings else ""
        raise SourceError(f"{shards.name}: holds no samples{why}")
    listed = _listed_names(table, shards)
    if listed is not None:
        table = table.with_columns(path=listed)
    table = table.select(_ids(table["id"]).alias("index"), pl.exclude("id"))
    classes = shards.classes if classes is None else classes
    if is_labeled:
        is_told = shards.schema is None or not shards.layout.placeholders(shards.schema)
        table = _with_labels(table, classes) if is_told else table.drop("label")
    columns = table.get_columns()
    del table
    table = compact(columns)
    is_named = listed is not None
    reader = ShardReader(shards.files, shards.layout, is_named, tuple(unpacked), tuple(states))
    keyed = keyed or is_named
    schema, enforced = shards.schema, shards.enforced
    imageless = schema is not None and schema.image is None
    told = (schema, enforced, imageless)
    catalog = Catalog(table, shards.name, classes, reader, *told, keys_known=keyed)
    return with_sides_of_files(catalog, shards.sides), findings


def _notes(shards: ShardSet, classes: tuple[str, ...] | None) -> Iterator[str]:
    if classes is None and shards.unused_classes:
        yield (
            f"the class names of {shards.unused_classes} are not used, as nothing tells whose they "
            f"are; if they are those of SOURCE, give --classes {shards.unused_classes}"
        )
    yield from shards.notes


def _ids(given: pl.Series) -> pl.Expr:
    """Return the ids of samples: their own if all are different, and numbers otherwise."""
    import polars as pl

    ids = given.sort()
    are_different = ids[0] >= 0 and not (ids.slice(1) == ids.head(-1)).any()
    return pl.col("id").cast(pl.Int64) if are_different else pl.int_range(pl.len())


def _with_equal_labels(rows: Sequence[pl.DataFrame], is_labeled: bool) -> Sequence[pl.DataFrame]:
    """Return the rows of shards with labels of one type: lists if those of any shard are."""
    import polars as pl

    if not is_labeled:
        return [part.drop("label", strict=False) for part in rows]
    if any(isinstance(part.schema["label"], pl.List) for part in rows):
        return [part.with_columns(pl.concat_list("label")) for part in rows]
    return rows


def _with_labels(table: pl.DataFrame, classes: tuple[str, ...] | None) -> pl.DataFrame:
    """Make the labels of headers class numbers, if every label is one integer."""
    import polars as pl

    from dsprep.sources.labels.classes import class_numbers

    numbers = class_numbers(table["label"])
    if numbers is not None and classes is not None:
        numbers = numbers if numbers.is_between(0, len(classes) - 1).all() else None
    if numbers is None:
        return table.with_columns(pl.concat_list("label"))
    return table.drop("label").with_columns(numbers)


def _findings(path: str, shard: IndexedShard, expected: int) -> Iterator[Finding]:
    """Report what a shard has lost, sample by sample if that is known, and what it has besides."""
    name, missing = os.path.basename(path), expected - len(shard.offsets)
    is_are = "is" if missing == 1 else "are"
    lack = f"{format_count(missing, 'sample')} of {name} {is_are} missing, as its manifest tells"
    for offset, problem in shard.damage:
        detail = f"at byte {offset}: {problem}"
        detail += f"; {lack}" if missing > 0 else "; samples after this byte are lost"
        yield Finding("damaged", name, detail)
    first = len(shard.offsets) + len(shard.damage)
    for number in range(first, min(expected, first + _MOST_MISSING)):
        yield Finding("cut-off", f"{name}/{number}", lack)
    if shard.passed_over:
        count = format_count(shard.passed_over.total(), "member")
        yield Finding("keyless", name, f"{count} ({format_extensions(shard.passed_over)})")
    if shard.without_image:
        count = format_count(shard.without_image, "record")
        detail = f"{count} without an image: they index others, as InsightFace writes them"
        yield Finding("keyless", name, detail)


def _rows(number: int, name: str, shard: IndexedShard, is_labeled: bool) -> pl.DataFrame:
    """Return the samples of a shard, with their ids and, if they have such, their labels."""
    import polars as pl

    from dsprep.catalog import compact

    count = len(shard.offsets)
    keys = pl.Series("path", [shard.keys] if count else [], dtype=pl.String)
    keys = keys.str.split("\x00").explode()
    if count and not shard.keys.strip("\x00"):
        # A key has the stem of its shard, with no dot, as keys end at dots.
        directory, slash, base = name.rpartition("/")
        stem = directory + slash + shard_stem(base).replace(".", "_")
        keys = f"{stem}-" + pl.Series(shard.numbers).cast(pl.String).str.zfill(7)
    # An id that no catalog can hold becomes negative.
    ids = pl.Series(shard.ids, dtype=pl.UInt64).reinterpret(signed=True)
    columns = {"id": ids, "path": keys, "size": shard.sizes, "offset": shard.offsets}
    schema = {"id": pl.Int64(), "path": pl.String(), "size": pl.Int64(), "offset": pl.Int64()}
    mtime, file = (pl.lit(value, pl.Int64) for value in (shard.state.mtime_ns, number))
    table = pl.DataFrame(columns, schema).with_columns(mtime=mtime, file=file)
    table = table.select("id", "path", "size", "mtime", "file", "offset")
    if is_labeled:
        labels = pl.Series("label", shard.labels, dtype=pl.Float64)
        if len(labels) != count or any(own != 1 for own in shard.lengths):
            ends = zip(accumulate(shard.lengths), shard.lengths, strict=True)
            lists = [shard.labels[end - own : end].tolist() for end, own in ends]
            labels = pl.Series("label", lists, dtype=pl.List(pl.Float64))
        table = table.with_columns(labels)
    return compact(table.get_columns())


def _listed_names(table: pl.DataFrame, shards: ShardSet) -> pl.Series | None:
    """Return the names in the lists beside RecordIO shards, if they name all samples."""
    import polars as pl

    from dsprep.text import read_text

    beside = [os.path.splitext(path)[0] + ".lst" for path in shards.files]
    if shards.layout.known_by != "id" or not all(map(is_file, beside)):
        return None
    line = pl.col("line")
    id = line.str.extract(r"^\s*(\d+)\s*\t")
    lists = [
        pl.DataFrame([pl.Series("line", read_text(path).split("\n"), pl.String)])
        .select(
            pl.lit(number, dtype=pl.Int64).alias("file"),
            id.cast(pl.UInt64, strict=False).reinterpret(signed=True).alias("id"),
            line.str.extract(r"\t\s*([^\t]*[^\t\s])\s*$").alias("name"),
        )
        .drop_nulls()
        for number, path in enumerate(beside)
    ]
    samples = table.select("file", "id").cast(pl.Int64)
    joined = samples.join(pl.concat(lists), on=["file", "id"], how="left", maintain_order="left")
    names = joined["name"]
    if joined.height != table.height or names.null_count():
        return None
    leads_out = names.str.starts_with("/") | names.str.contains(r"(^|/)\.\.?(/|$)")
    return None if leads_out.any() else names
