"""Plan files: what was planned comes back, and what anybody may have put there does no harm."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import polars as pl
import pytest

from dsprep.errors import DestinationError, DsprepError
from dsprep.plan.job import Job
from dsprep.plan.options import PackOptions
from dsprep.plan.plan import Plan, make_plan
from dsprep.plan.saved import load_plan, plan_facts, require_source, save_plan
from dsprep.plan.values import PlanValues
from dsprep.progress import Progress
from dsprep.run.write import new_job
from dsprep.sources.annotation_kinds import own_annotation_kinds
from dsprep.sources.kinds import own_kinds
from dsprep.workers.engine import open_executor
from tests.foreign.sets import DATA

WRONG = (None, True, -1, 0.5, "x", "\0", [], {}, [[]], {"tuple": ["x"]}, {"a": 1, "b": 2})
REFUSED = r"plan\.zip: is no plan of this version of dsprep \(.+\); use one version for all"


@dataclass
class Saved:
    """A plan file, as its members."""

    job: Job
    plan: Plan
    members: dict[str, bytes]

    @property
    def data(self) -> bytes:
        return zipped(self.members)

    def load(self, members: Mapping[str, bytes] = MappingProxyType({})) -> Plan:
        """Load the plan, with other members."""
        return load_plan(zipped(self.members | members), self.job, "plan.zip", 2)


def zipped(members: dict[str, bytes], method: int = ZIP_STORED) -> bytes:
    with ZipFile(file := io.BytesIO(), "w", method) as saved:
        for name, data in members.items():
            saved.writestr(name, data)
    return file.getvalue()


def saved_of(place: Path, *sources: object, **options: Any) -> Saved:
    asked = PackOptions(
        sources=tuple(map(str, sources)), dest=str(place / "out"), to="webdataset", **options
    )
    job = new_job("pack", asked)
    with open_executor(1) as pool:
        plan = make_plan(job, pool, Progress())
    with ZipFile(io.BytesIO(save_plan(plan, 2))) as file:
        return Saved(job, plan, {name: file.read(name) for name in file.namelist()})


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return saved_of(tmp_path_factory.mktemp("saved"), DATA / "class-folder")


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return saved_of(tmp_path_factory.mktemp("saved"), DATA / "detection")


def test_the_same_plan_is_the_same_file(photos: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_another_time(*_: object) -> tuple[int, ...]:
        return 2031, 2, 3, 4, 5, 6, 0, 34, 0

    data = save_plan(photos.plan, 2)
    monkeypatch.setattr("time.localtime", at_another_time)
    assert save_plan(photos.plan, 2) == data


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value in JSON."""
    yield path
    items = enumerate(value) if isinstance(value, list) else ()
    for name, each in value.items() if isinstance(value, dict) else items:
        yield from places(each, (*path, name))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    whole = deepcopy(value)
    inner = whole
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = new
    return whole


def same(one: Any, other: Any) -> bool:
    tables: list[list[pl.DataFrame]] = [[], []]
    values = PlanValues((*own_kinds().kinds, *own_annotation_kinds().kinds))
    plain = [values.to_json(each, own) for each, own in zip((one, other), tables, strict=True)]
    return plain[0] == plain[1] and all(map(pl.DataFrame.equals, *tables))


def test_a_plan_is_the_same_again(photos: Saved, boxes: Saved) -> None:
    for saved in (photos, boxes):
        again = saved.load()
        assert same(again, saved.plan)
        assert not same(again, replace(saved.plan, estimated=True))
        assert (again.job.source, again.job.given) == (saved.job.source, saved.job.given)


def test_no_value_of_another_type_does_harm(photos: Saved, boxes: Saved) -> None:
    """Each value is replaced; what is accepted may be there, such as None."""
    refused = 0
    cases = [(photos, "plan.json"), (boxes, "plan.json"), (photos, "facts.json")]
    for saved, member in cases:
        plain = json.loads(saved.members[member])
        for number, way in enumerate(ways := list(places(plain))):
            data = json.dumps(changed(plain, way, WRONG[number % len(WRONG)])).encode()
            try:
                plan = saved.load({member: data})
                require_source(plan, plan.shards)
            except DsprepError as error:
                assert "\n" not in str(error)
                refused += 1
        assert len(ways) > 10
    assert refused > 700


@pytest.mark.parametrize(
    ("member", "old", "new"),
    [
        ("facts.json", b'"dsprep_plan": 2', b'"dsprep_plan": 1'),
        ("facts.json", b'"dsprep_plan": 2, ', b""),
        ("facts.json", b'"parts": 2', b'"parts": 0'),
        ("facts.json", b'"parts": 2', b'"parts": 1000000000'),
        ("facts.json", b'"parts": 2', b'"parts": 2.0'),
        ("facts.json", b'"command": [', b'"command": [1, '),
        ("facts.json", b'"command": [', b'"command": {}, "other": ['),
        ("plan.json", b'"webdataset-format"', b'"dsprep.formats.webdataset:WebDataset"'),
        ("plan.json", b'"keys_known": true', b'"keys_are_known": true'),
        ("plan.json", b'"type": "class"', b'"type": "object"'),
        ("plan.json", b'"label": "label"', b'"label": "lable"'),
        ("plan.json", b'"sides": {"tuple": []}', b'"sides": {"tuple": ["train"]}'),
    ],
)
def test_another_plan_is_refused(photos: Saved, member: str, old: bytes, new: bytes) -> None:
    data = photos.members[member]
    assert old in data
    with pytest.raises(DestinationError, match=REFUSED):
        photos.load({member: data.replace(old, new)})


def test_a_plan_file_that_is_none_is_refused(photos: Saved) -> None:
    whole = photos.members
    for members in (
        {"plan.json": b"[" * 99_999},
        {"plan.json": b'{"tuple": [' * 200 + b"]}" * 200},
        {"plan.json": whole["plan.json"][:-5]},
        {"plan.json": b"[1, 2]"},
        {"plan.json": whole["plan.json"].replace(b'{"table": 0}', b'{"table": 9}')},
        {"facts.json": b"[" * 99_999},
        {"facts.json": json.dumps([["a.tar"], 2, ["pack"]]).encode()},
        {"0.table": whole["0.table"][:-9]},
    ):
        with pytest.raises(DestinationError, match=REFUSED):
            photos.load(members)
    for data in (b"", b"PK", photos.data[:-9], zipped({}), zipped(whole, ZIP_DEFLATED)):
        for read in (partial(load_plan, job=photos.job, parts=2), plan_facts):
            with pytest.raises(DestinationError, match=REFUSED):
                read(data, place="plan.zip")


def test_a_table_that_would_fill_the_memory_is_not_read(
    photos: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.plan.tables.LARGEST_TABLE", 10)
    with pytest.raises(DestinationError, match="rows, more than fit into memory"):
        photos.load({})
