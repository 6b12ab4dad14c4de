"""A plan as bytes, for the parts of a run on other machines: the first part makes it for all.

It lies where others may write, so it is no pickle: JSON that names the classes of values of dsprep,
and the tables as Parquet, in a zip file. What it says is checked before anything is written.
"""

from __future__ import annotations

import json
import platform
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from io import BytesIO
from os.path import join
from types import FunctionType
from typing import Any
from zipfile import BadZipFile, ZipFile

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.formats.base import Format
from dsprep.images.probe import differing, probe, versions
from dsprep.plan.cut import PlannedShard
from dsprep.plan.job import Job
from dsprep.plan.plan import Plan
from dsprep.rows import Reader
from dsprep.sample import original_expr
from dsprep.sources.annotated import AnnotatedReader
from dsprep.sources.archive import ArchiveReader
from dsprep.sources.readers import ArchivedParts, FileReader, SampleReader
from dsprep.storage.files import facts
from dsprep.storage.location import is_s3

_MOST_PARTS = 1_000_000
_JSON, _FACTS, _PROBE = "plan.json", "facts.json", "probe.json"
_OWN = "source", "destination", "given", "divide"  # of a job: what each part has itself
_PURE = "dsprep.annotations."  # the package of functions that a plan may name
_FREE = "--part", "--workers", "--progress", "--dest"  # options that may differ among parts
_COLLECTIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "frozenset": frozenset,
    "dict": dict,
    "range": lambda each: range(*each),
    "array": lambda each: array(each[0], each[1]),
}


def save_plan(plan: Plan, parts: int) -> bytes:
    """Return the plan of a run in parts, and what was asked for, as the bytes of a file."""
    file, tables = BytesIO(), list[pl.DataFrame]()
    nothing: dict[str, Any] = dict.fromkeys(_OWN)
    job = replace(plan.job, **nothing)
    require_shared(plan)
    with ZipFile(file, "w") as saved:
        plain = _plain([replace(plan, job=job), _asked(plan.job)], tables)
        saved.writestr(_JSON, json.dumps(plain))
        facts = [shard.name for shard in plan.shards], parts, plan.job.words()
        saved.writestr(_FACTS, json.dumps(facts))
        saved.writestr(_PROBE, json.dumps(probe_of(plan.job)))
        for number, table in enumerate(tables):
            with saved.open(f"{number}.parquet", "w") as member:
                table.write_parquet(member, compression="zstd")
    return file.getvalue()


def require_shared(plan: Plan) -> None:
    """Refuse what only the machine that plans has."""
    annotations = getattr(plan.catalog.reader, "annotations", None)
    if annotations is not None and annotations.is_copied:
        raise OptionError(
            f"the annotations of {plan.catalog.root} are on S3 and read from a temporary copy, "
            "which other machines do not have: copy them to a disk that all machines can read, and "
            "name that file with --annotations"
        )


def load_plan(data: bytes, job: Job, place: str, parts: int) -> Plan:
    """Read a plan that another part has saved, for the job of this one, in as many parts."""
    with _opened(data, place) as saved:
        plan, asked = _value(
            json.loads(saved.read(_JSON)),
            lambda number: pl.read_parquet(saved.read(f"{number}.parquet")),
        )
        there, told = json.loads(saved.read(_PROBE))
        _, count, _ = json.loads(saved.read(_FACTS))
        _check(plan, job)
        asked = {**asked, "--part": count}
    own = {**_asked(job), "--part": parts}
    if other := sorted(name for name in {*asked, *own} if asked.get(name) != own.get(name)):
        raise DestinationError(
            f"{job.destination}: another command began a run in parts there (other "
            f"{', '.join(other)}); give one command for all parts, or remove what is there"
        )
    here, own_versions = probe_of(plan.job)
    if here != there:
        raise DestinationError(
            f"{job.destination}: images would not be the same here as on the machine that made the "
            f"plan: {platform.node()} {differing(own_versions, told, 'the other')}same libraries "
            "for all parts"
        )
    kept: dict[str, Any] = {name: getattr(job, name) for name in _OWN}
    whole: Plan = replace(plan, job=replace(plan.job, **kept))
    return whole


def _check(plan: Plan, job: Job) -> None:
    """Refuse a plan that would lose samples, or write files that are not those of the run."""
    values = (plan, Plan), (plan.job, Job), (plan.catalog, Catalog), (plan.job.layout, Format)
    for value, kind in (*values, (plan.catalog.reader, Reader)):
        if not isinstance(value, kind):
            raise ValueError(f"{type(value).__name__} for {kind.__name__}")
    bounds = [0, *(each.stop for each in plan.shards)]
    if bounds != [*(each.start for each in plan.shards), len(plan.catalog)]:
        raise ValueError("its shards do not hold each sample once")
    if sum(count for _, count in plan.sets) != len(plan.shards):
        raise ValueError("its sets do not hold each shard once")
    plan = replace(plan, job=replace(plan.job, destination=job.destination, given=job.given))
    for name in plan.files():
        if not job.destination.may_hold(name) or name == job.destination.manifest.name:
            raise ValueError(f"a file cannot have the name {name!r}")
    names = {each.name for each in plan.shards}
    units = {f"units-{number:06d}" for number in range(len(names))}
    if len(names) < len(plan.shards) or (plan.job.layout.is_tree and names != units):
        raise ValueError("its shards have no names of their own")


def require_source(plan: Plan, shards: Iterable[PlannedShard]) -> None:
    """Refuse a source that this machine does not see, or that has changed since it was planned."""
    destination = plan.job.destination
    if is_s3(plan.catalog.root):
        return
    for path, size, mtime, is_whole in files_read(plan, shards):
        try:
            found = facts(path)
        except OSError as error:
            raise SourceError(
                f"{path}: is in the plan, but {platform.node()} does not see it "
                f"({error.strerror}); let all machines see the source under one name or, if it has "
                f"changed, remove {destination} and give all parts again"
            ) from None
        # A sample of several files has their size, and the time of the newest.
        if mtime and (found.mtime_ns > mtime or (is_whole and found != (size, mtime))):
            raise SourceError(
                f"{path}: has changed since the plan was made; put it back as it was, or remove "
                f"{destination} and give all parts again"
            )


def files_read(plan: Plan, shards: Iterable[PlannedShard]) -> Iterator[tuple[str, int, int, bool]]:
    """Return the files that shards are made from: path, size, time, and whether each is a sample.

    The size and the time of files that hold many samples are 0.
    """
    reader = plan.catalog.reader
    if isinstance(reader, AnnotatedReader | ArchivedParts):
        reader = reader.inner
    for path in [reader.path] if isinstance(reader, ArchiveReader) else reader.sources():
        yield path, 0, 0, False
    if isinstance(reader, FileReader | SampleReader):
        for shard in shards:
            rows = plan.catalog.table[shard.start : shard.stop]
            if "copy" in rows.columns:
                rows = rows.with_columns(path=original_expr())
            rows = rows.select("path", "size", "mtime").unique(maintain_order=True)
            for path, size, mtime in rows.iter_rows():
                yield join(reader.root, path), size, mtime, not reader.reads_samples


def probe_of(job: Job) -> tuple[str, str]:
    """Return what shows whether another machine makes the same images, and the versions here."""
    transform = job.images.probed
    return ("", "") if transform is None else (probe(transform), versions(transform))


def plan_facts(data: bytes, place: str) -> tuple[list[str], int, list[str]]:
    """Return the names of the shards, the number of parts, and the words of the command."""
    with _opened(data, place) as saved:
        names, parts, words = json.loads(saved.read(_FACTS))
        if not 0 < parts < _MOST_PARTS:
            raise ValueError(f"{parts} parts")
        return list(map(str, names)), int(parts), list(map(str, words))


@contextmanager
def _opened(data: bytes, place: str) -> Iterator[ZipFile]:
    try:
        with ZipFile(BytesIO(data)) as saved:
            yield saved
    except (
        *(BadZipFile, ValueError, LookupError, TypeError, AttributeError, ImportError),
        *(OverflowError, RecursionError, pl.exceptions.PolarsError),
    ) as error:
        raise DestinationError(
            f"{place}: is no plan of this version of dsprep ({error}); use one version for all "
            "parts, or delete it"
        ) from None


def _asked(job: Job) -> dict[str, str]:
    """Return what all parts of a run must be given."""
    given = {name: str(value) for name, value in job.given.items() if name not in _FREE}
    own = import_module("dsprep").__version__  # each room is below it
    return {"command": job.command, "version of dsprep": own, **given}


def _plain(value: Any, tables: list[pl.DataFrame]) -> Any:
    """Return a value as what JSON knows; tables are put into a list."""
    inner = partial(_plain, tables=tables)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return list(map(inner, value))
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode()}
    if isinstance(value, pl.DataFrame):
        tables.append(value)
        return {"table": len(tables) - 1}
    if isinstance(value, FunctionType | type):
        return {"name": f"{value.__module__}:{value.__qualname__}"}
    if is_dataclass(value) or hasattr(value, "_fields"):
        names = getattr(value, "_fields", ()) or [each.name for each in fields(value) if each.init]
        kept = {name: inner(getattr(value, name)) for name in names}
        return {"name": inner(type(value))["name"], "fields": kept}
    if isinstance(value, array):
        return {"array": [value.typecode, value.tolist()]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {"dict": [[inner(name), inner(each)] for name, each in value.items()]}
    if isinstance(value, frozenset):
        return {"frozenset": sorted(map(inner, value), key=repr)}
    if isinstance(value, tuple):
        return {"tuple": list(map(inner, value))}
    raise TypeError(f"a plan holds {type(value)}")


def _value(plain: Any, table: Callable[[int], pl.DataFrame]) -> Any:
    """Return the value that JSON tells."""
    inner = partial(_value, table=table)
    if isinstance(plain, list):
        return list(map(inner, plain))
    if not isinstance(plain, dict):
        return plain
    if "name" in plain:
        named = _named(plain["name"])
        if "fields" not in plain:
            # A class, or another function, could be called by what takes a value of another type.
            if not (isinstance(named, FunctionType) and named.__module__.startswith(_PURE)):
                raise ValueError(f"{plain['name']} is no function of annotations")
            return named
        if not (is_dataclass(named) or hasattr(named, "_fields")):
            raise ValueError(f"{plain['name']} has no fields")
        return named(**{name: inner(each) for name, each in plain["fields"].items()})
    ((kind, content),) = plain.items()
    if kind == "bytes":
        return b64decode(content)
    if kind == "table":
        return table(content)
    return _COLLECTIONS[kind](list(map(inner, content)))


def _named(name: str) -> Any:
    """Return a class or a function of dsprep."""
    module, _, qualified = name.partition(":")
    if module.split(".")[0] != "dsprep":
        raise ValueError(f"{name} is nothing of dsprep")
    found = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not isinstance(found, FunctionType | type) or found.__module__ != module:
        raise ValueError(f"{name} is no class or function")
    return found
