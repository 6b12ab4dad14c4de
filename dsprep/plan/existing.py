"""Find the samples that a data set has already: those with the same key and the same bytes.

Samples are compared as they lie in shards, so new ones are made first, with the transform of the
data set. Ids do not count: they are places in a source, which grows.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.errors import BadSample, DestinationError, OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost
from dsprep.formats.stream import ShardStream
from dsprep.pipeline import Pipeline, make_samples
from dsprep.plan.job import Base, Job
from dsprep.progress import Progress
from dsprep.rows import Reader, Rows
from dsprep.sample import Blobs, Sample
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some
from dsprep.workers.executor import Executor
from dsprep.workers.worker import Report, counted

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog, SourceScan

_TASKS_PER_WORKER = 16

_Digested: TypeAlias = tuple[str, bytes]
"""A text, and the digest of a sample; no bytes if it is bad."""


class Existing(NamedTuple):
    """The samples that are left out because the data set has them, or has rejected them."""

    samples: int = 0  # samples that the data set has
    rejects: Sequence[Reject] = ()  # samples that it has rejected, and that are still bad


def without_existing(
    job: Job, found: SourceScan, base: Base, pool: Executor, progress: Progress
) -> tuple[Catalog, list[Finding], Existing]:
    """Leave out the samples that a data set has already, and those that it has rejected already.

    Args:
        job: What makes samples of the source.
        found: The samples of the source, and what indexing noticed.
        base: The data set.
        pool: Reads and makes samples.
        progress: Shows how many are done.

    Raises:
        SourceError: A key is that of a sample with other bytes.
    """
    import polars as pl

    (catalog, findings), there = found, base.catalog
    if job.key == "index":
        raise OptionError(
            f"--skip-existing: the keys in {job.destination} are numbers (--key index), which do "
            "not tell whether it has a sample; name the new samples only"
        )
    if not catalog.keys_known or catalog.reader.keys_are_ids:
        raise _unnamed(job.source.root)
    if there.keys_known and there.reader.keys_are_ids:
        raise _unnamed(str(job.destination))
    own = catalog.keys()
    if there.keys_known:  # otherwise the keys of the data set are known only by reading its samples
        there = replace(there, table=there.table.filter(there.keys().is_in(own.implode())))
    before = pl.Series([each.path for each in base.rejects], dtype=pl.String)
    with progress.running("comparing samples", 2 * len(there)):
        old = _digest(_digest_there, there.reader, there, pool, progress).rename({"text": "key"})
        if not there.keys_known and old["key"].is_in(there.table["path"].implode()).any():
            # keys are numbers of records, so existing samples cannot be recognized
            raise _unnamed(str(job.destination))
        again = own.is_in(old["key"].implode()) | catalog.table["path"].is_in(before.implode())
        new = replace(catalog, table=catalog.table.filter(again))
        made = _digest(_digest_new, job.pipeline(catalog), new, pool, progress)
    made = made.with_columns(key=new.keys(), path=new.names(), row=again.arg_true())
    same = made.join(old, on=["key", "digest"], how="semi")
    is_known = pl.col("key").is_in(old["key"].implode())
    other = made.filter(is_known).join(same, on="row", how="anti")["path"]
    if not other.is_empty():
        is_made = job.images.transform is not None
        version = "; another version of Pillow makes other bytes, too" if is_made else ""
        raise SourceError(
            f"{job.source.root}: {job.destination} has other bytes, or another label, for the keys "
            f"of {format_count(len(other), 'sample')}: {format_some(list(other))}; rename files "
            f"that are new samples, or pack all of them to another directory{version}"
        )
    bad = made.filter(~is_known & (pl.col("digest") == b""))
    rejects = [Reject(*each) for each in bad.select("path", "text").iter_rows()]
    rejects += set(base.rejects).intersection(lost(findings))
    known = {each.path for each in rejects}
    findings = [each for each in findings if each.kind in SKIP_KINDS or each.path not in known]
    left_out = pl.concat([same["row"], bad["row"]])
    rows = catalog.table.filter(~pl.int_range(pl.len()).is_in(left_out.implode()))
    ids = job.first_id + pl.int_range(pl.len(), dtype=pl.Int64)
    catalog = replace(catalog, table=rows.with_columns(index=ids))
    return catalog, findings, Existing(same.height, sorted(rejects))


def _unnamed(place: str) -> SourceError:
    return SourceError(
        f"{place}: not all of its samples have names, which tell the same sample in the source and "
        "in the data set (records of RecordIO have them in a .lst beside each shard): leave out "
        "--skip-existing, and name the new samples only"
    )


def _digest(
    function: Callable[..., list[_Digested]],
    what: Pipeline | Reader,
    catalog: Catalog,
    pool: Executor,
    progress: Progress,
) -> pl.DataFrame:
    """Digest the samples of a catalog: a row for each."""
    import polars as pl

    share = max(1, math.ceil(len(catalog) / (_TASKS_PER_WORKER * pool.size)))
    starts = range(0, len(catalog), share)
    tasks = ((what, catalog.slice(at, share).rows(), catalog.root) for at in starts)
    found = [each for some in pool.map(function, tasks, progress.advance) for each in some]
    return pl.DataFrame(found, schema={"text": pl.String(), "digest": pl.Binary()}, orient="row")


def _digest_there(task: tuple[Reader, Rows, str], report: Report) -> list[_Digested]:
    """Digest samples of a data set as its shards hold them; the text is the key."""
    reader, rows, place = task
    found = []
    for path, sample in zip(rows.paths, counted(reader.read(rows), report), strict=True):
        if not isinstance(sample, Sample):
            raise DestinationError(
                f"{place}: {path} cannot be compared: {sample!s}; see dsprep verify {place}"
            )
        found.append((sample.key, _digest_of(sample)))
    return found


def _digest_new(task: tuple[Pipeline, Rows, str], report: Report) -> list[_Digested]:
    """Digest samples as shards would hold them; the text says why one is bad."""
    pipeline, rows, _ = task
    layout, found = pipeline.layout, []
    for sample in counted(make_samples(pipeline, rows), report):
        try:
            if isinstance(sample, BadSample):
                raise sample
            encoded = b"".join(layout.encode(sample))
            shard = io.BytesIO(encoded + layout.trailer(len(encoded)))
            (entry,) = layout.read(ShardStream("", shard))
            found.append(("", _digest_of(entry.sample)))
        except BadSample as error:
            found.append((str(error), b""))
    return found


def _digest_of(sample: Sample) -> bytes:
    """Return a digest of the names and the raw values of all fields."""
    from hashlib import sha1  # slow to load

    # Processors have instructions for SHA-1, and none for BLAKE2.
    digest = sha1(usedforsecurity=False)
    for name, value in sorted(sample.fields.items()):
        blobs: Any = value if isinstance(value, Blobs) else (value,)
        for part in blobs:
            data = part if isinstance(part, bytes) else repr(part).encode()
            digest.update(repr((name, type(value).__name__, len(data))).encode())
            digest.update(data)
    return digest.digest()
