"""A plan as bytes, for the parts of a run on other machines: the first part makes it for all.

It lies where others may write, so it is no pickle: a zip file of JSON, with the values that
``plan.values`` names, and of the tables as ``plan.tables`` lays them out. The name of a reader is
in `saved` of its kind. What a plan says is checked before anything is written.
"""

from __future__ import annotations

import json
import platform
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import polars as pl

from dsprep.catalog import widened, with_short_paths
from dsprep.errors import DestinationError, DsprepError, OptionError, SourceError
from dsprep.images.probe import differing, probe, versions
from dsprep.plan.cut import PlannedShard
from dsprep.plan.job import Job
from dsprep.plan.plan import Plan
from dsprep.plan.tables import read_table, write_table
from dsprep.rows import Input
from dsprep.sample import original_expr
from dsprep.storage.files import facts, is_shared
from dsprep.tuples import NamedTuple

VERSION = 2  # version of plan files; raise it when a name or a field gets another meaning
_MOST_PARTS = 1_000_000
_FACTS, _PLAN = "facts.json", "plan.json"
_FREE = "--part", "--workers", "--progress", "--dest"  # options that may differ among parts


class PlanFacts(NamedTuple):
    """Facts in a plan file that each part of a run compares with its own."""

    shards: Sequence[str]  # the names of all
    parts: int  # number of parts that write the shards
    words: Sequence[str]  # words of the command line
    asked: Mapping[str, str]  # what each part must be given
    probe: str  # what shows whether another machine makes the same images
    versions: str  # versions of the libraries that make the probe image

    def to_json(self) -> dict[str, Any]:
        return {
            "dsprep_plan": VERSION,
            "shards": list(self.shards),
            "parts": self.parts,
            "command": list(self.words),
            "asked": dict(self.asked),
            "images": [self.probe, self.versions],
        }

    @classmethod
    def from_json(cls, values: Any) -> PlanFacts:
        """Read the facts of a plan; raises ValueError if they are not those of one."""
        if not isinstance(values, dict) or "dsprep_plan" not in values:
            raise ValueError("it has no version")
        if (version := values["dsprep_plan"]) != VERSION:
            raise ValueError(f"it has version {version!s:.20}, and this dsprep reads {VERSION}")
        names, parts, words, asked, images = (
            values[name] for name in ("shards", "parts", "command", "asked", "images")
        )
        if not isinstance(asked, dict):
            raise ValueError(f"its asked is {asked!r:.100}")
        for texts in (names, words, list(asked.values()), images):
            if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
                raise ValueError(f"{texts!r:.100} is no list of texts")
        if type(parts) is not int or not 0 < parts < _MOST_PARTS:
            raise ValueError(f"{parts!r:.100} parts")
        shown, libraries = images
        return cls(names, parts, words, asked, shown, libraries)


def save_plan(plan: Plan, parts: int) -> bytes:
    """Return the plan of a run in parts, and what was asked for, as the bytes of a file."""
    from dsprep.plan.values import values_for  # loads every source

    require_shared(plan)
    file, tables = BytesIO(), list[pl.DataFrame]()
    names = [shard.name for shard in plan.shards]
    told = PlanFacts(names, parts, plan.job.words(), _asked(plan.job), *probe_of(plan.job))
    with ZipFile(file, "w") as saved:
        # Members that only have a name have no time of day, but the first that a zip file can have.
        saved.writestr(ZipInfo(_FACTS), json.dumps(told.to_json()))
        saved.writestr(
            ZipInfo(_PLAN), json.dumps(values_for(plan.job.source).to_json(plan, tables))
        )
        for number, table in enumerate(tables):
            # A zip file has to know beforehand of a member that may be larger than 2 GiB.
            with saved.open(ZipInfo(_table(number)), "w", force_zip64=True) as member:
                write_table(table, member)
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
        told = _facts_in(saved)
        plan = _plan_in(saved, job)
        _check(plan)
    asked = {**told.asked, "--part": str(told.parts)}
    own = {**_asked(job), "--part": str(parts)}
    if other := sorted(name for name in {*asked, *own} if asked.get(name) != own.get(name)):
        raise DestinationError(
            f"{job.destination}: another command began a run in parts there (other "
            f"{', '.join(other)}); give one command for all parts, or remove what is there"
        )
    here, own_versions = probe_of(plan.job)
    if here != told.probe:
        raise DestinationError(
            f"{job.destination}: images would not be the same here as on the machine that made the "
            f"plan: {platform.node()} {differing(own_versions, told.versions, 'the other')}same "
            "libraries for all parts"
        )
    return plan


def _plan_in(saved: ZipFile, job: Job) -> Plan:
    """Read the plan of a file, for the job of a part."""
    from dsprep.plan.values import OWN_FIELDS, values_for  # loads every source

    tables = {number: _table(number) for number in range(len(saved.namelist()))}

    def table(number: int) -> pl.DataFrame:
        member = _member(saved, tables.pop(number))  # each table is read once
        # No name keeps the whole paths, which take more memory than the rest of a plan.
        return pl.DataFrame(with_short_paths(read_table(member).get_columns()))

    own = {name: getattr(job, name) for name in OWN_FIELDS} | {"base": None}
    plan = values_for(job.source).from_json(json.load(_member(saved, _PLAN)), table, own)
    if not isinstance(plan, Plan):
        raise ValueError("it holds something else")
    return plan


def _table(number: int) -> str:
    return f"{number}.table"


def _member(saved: ZipFile, name: str) -> IO[bytes]:
    """Open a member of a plan file, which is as large there as it is in memory."""
    if saved.getinfo(name).compress_type != ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    return saved.open(name)


def _check(plan: Plan) -> None:
    """Refuse a plan that would lose samples, or write files that are not those of the run."""
    bounds = [0, *(each.stop for each in plan.shards)]
    if bounds != [*(each.start for each in plan.shards), len(plan.catalog)]:
        raise ValueError("its shards do not hold each sample once")
    if sum(count for _, count in plan.sets) != len(plan.shards):
        raise ValueError("its sets do not hold each shard once")
    destination = plan.job.destination
    for name in plan.files():
        if not destination.may_hold(name) or name == destination.manifest.name:
            raise ValueError(f"a file cannot have the name {name!r}")
    names = {each.name for each in plan.shards}
    units = {f"units-{number:06d}" for number in range(len(names))}
    if len(names) < len(plan.shards) or (plan.job.writes_tree and names != units):
        raise ValueError("its shards have no names of their own")
    table = plan.catalog.table
    for column, named in (("side", plan.catalog.sides), ("list", plan.catalog.lists)):
        is_known = bool(named) == (column in table.columns)
        if not is_known or (named and not table[column].is_between(0, len(named) - 1).all()):
            raise ValueError(f"its column {column!r} has numbers without a name")


def require_source(plan: Plan, shards: Iterable[PlannedShard]) -> None:
    """Refuse a source that this machine does not see, or that has changed since it was planned."""
    destination = plan.job.destination
    if is_shared(plan.catalog.root):
        return
    for path, size, mtime, is_sample in inputs(plan, shards):
        try:
            found = facts(path)
        except OSError as error:
            raise SourceError(
                f"{path}: is in the plan, but {platform.node()} does not see it "
                f"({error.strerror}); let all machines see the source under one name or, if it has "
                f"changed, remove {destination} and give all parts again"
            ) from None
        if mtime and (found.mtime_ns > mtime or (is_sample and found != (size, mtime))):
            raise SourceError(
                f"{path}: has changed since the plan was made; put it back as it was, or remove "
                f"{destination} and give all parts again"
            )


def inputs(plan: Plan, shards: Iterable[PlannedShard]) -> Iterator[Input]:
    """Yield the files that shards are made from."""

    def samples() -> Iterator[tuple[str, int, int]]:
        for shard in shards:
            rows = widened(plan.catalog.table[shard.start : shard.stop])
            if "copy" in rows.columns:
                rows = rows.with_columns(path=original_expr())
            yield from rows.select("path", "size", "mtime").unique(maintain_order=True).iter_rows()

    return plan.catalog.reader.inputs(samples())


def probe_of(job: Job) -> tuple[str, str]:
    """Return what shows whether another machine makes the same images, and the versions here."""
    transform = job.images.probed
    return ("", "") if transform is None else (probe(transform), versions(transform))


def plan_facts(data: bytes, place: str) -> PlanFacts:
    """Return what a plan file says beside the plan."""
    with _opened(data, place) as saved:
        return _facts_in(saved)


def _facts_in(saved: ZipFile) -> PlanFacts:
    return PlanFacts.from_json(json.load(_member(saved, _FACTS)))


@contextmanager
def _opened(data: bytes, place: str) -> Iterator[ZipFile]:
    try:
        with ZipFile(BytesIO(data)) as saved:
            yield saved
    except (
        *(BadZipFile, ValueError, LookupError, TypeError, AttributeError, EOFError),
        *(OverflowError, RuntimeError, struct.error, zlib.error, DsprepError),
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    ) as error:
        raise DestinationError(
            f"{place}: is no plan of this version of dsprep ({error}); use one version for all "
            "parts, or delete it"
        ) from None


def _asked(job: Job) -> dict[str, str]:
    """Return what all parts of a run must be given."""
    given = {name: str(value) for name, value in job.given.items() if name not in _FREE}
    own = import_module("dsprep").__version__  # `dsprep` is the package above all modules
    return {"command": job.command, "version of dsprep": own, **given}
