"""What is sent, in which order, and what is deleted."""

from __future__ import annotations

import pytest

from dsprep.storage.stored import Stored
from dsprep.syncing.options import Rule, SyncOptions
from dsprep.syncing.plan import INDEXES, MANIFEST, SHARDS, Filters, plan_sync, rank_of, why_not
from dsprep.syncing.sides import unfit


def options(*rules: Rule, delete: bool = False) -> SyncOptions:
    return SyncOptions("", "", rules=rules, delete=delete)


def files(**sizes: int) -> dict[str, Stored]:
    return {path: Stored(path, size, 0.0, f"{size}-1") for path, size in sizes.items()}


def test_a_plan() -> None:
    ours, theirs = files(new=1, same=2, other=3), files(same=2, other=4, gone=5)
    plan = plan_sync(ours, theirs, options(delete=True))
    assert [(pair.path, by) for pair, by in plan.sends] == [("new", "missing"), ("other", "size")]
    assert plan.same == {"same": "etag"}
    assert plan.deletions == ["gone"]
    assert plan.bytes == 4


def test_nothing_is_deleted_unless_that_is_asked_for() -> None:
    assert plan_sync(files(a=1), files(b=1), options()).deletions == []


def test_what_is_left_out_is_neither_sent_nor_deleted() -> None:
    given = options(Rule(False, "tmp*"), delete=True)
    plan = plan_sync(files(tmp1=1, a=1), files(tmp2=1), given)
    assert [pair.path for pair, _ in plan.sends] == ["a"]
    assert plan.deletions == []


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("train-00000.tar", SHARDS),
        ("a/train.rec", SHARDS),
        ("images/cat/1.jpg", SHARDS),
        ("train.idx", INDEXES),
        ("a/train.lst", INDEXES),
        ("classes.txt", INDEXES),
        ("train.tar.classes.txt", INDEXES),
        ("manifest.json", MANIFEST),
        ("a/train.tar.manifest.json", MANIFEST),
        ("my-manifest.json", SHARDS),
    ],
)
def test_ranks(path: str, rank: int) -> None:
    assert rank_of(path) == rank


def test_the_largest_of_each_rank_goes_first() -> None:
    sizes = {"manifest.json": 1, "b.tar": 1, "a.tar": 1, "c.tar": 9, "a.idx": 2}
    plan = plan_sync(files(**sizes), {}, options())
    assert [[pair.path for pair in rank] for rank in plan.by_rank()] == [
        ["c.tar", "a.tar", "b.tar"],
        ["a.idx"],
        ["manifest.json"],
    ]


def test_a_manifest_waits_for_what_lies_beside_and_below_it() -> None:
    waiting = [
        path
        for path in ("manifest.json", "a/manifest.json", "b/manifest.json")
        if why_not(path, (), (), ["a/x.tar"])
    ]
    assert waiting == ["manifest.json", "a/manifest.json"]


def test_a_manifest_names_only_what_is_there() -> None:
    assert why_not("manifest.json", ["1", "2"], ["1", "2", "3"], ()) == ""
    assert "it names 2, 4" in why_not("manifest.json", ["4", "1", "2"], ["1", "3"], ())


def test_what_a_manifest_of_the_source_names_is_never_deleted() -> None:
    assert plan_sync({}, files(a=1, b=1), options(delete=True), named={"a"}).deletions == ["b"]


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a\0", "b" * 256]
)
def test_keys_that_are_no_files(key: str) -> None:
    assert unfit(key)


@pytest.mark.parametrize("key", ["a", "a b/c+%.tar", "ü/ねこ.jpg", "..a/b..", "b" * 255])
def test_keys_that_are_files(key: str) -> None:
    assert not unfit(key)


@pytest.mark.parametrize(
    ("rules", "path", "admitted"),
    [
        ("", "a.tar", True),
        ("-*", "a.tar", False),
        ("-* +*.tar", "a.tar", True),
        ("-* +*.tar", "deep/er/a.tar", True),
        ("-* +*.tar", "a.idx", False),
        ("+*.tar -*", "a.tar", False),
        ("-tmp/*", "tmp/a/b", False),
        ("-tmp/*", "other/tmp/a", True),
        ("-?.tar", "a.tar", False),
        ("-?.tar", "ab.tar", True),
        ("-[ab].tar", "b.tar", False),
        ("-A.tar", "a.tar", True),
        ("-*.tar", "line\nbreak.tar", False),
    ],
)
def test_the_last_match_wins(rules: str, path: str, admitted: bool) -> None:
    made = [Rule(rule[0] == "+", rule[1:]) for rule in rules.split()]
    assert Filters(made).admit(path) is admitted


@pytest.mark.parametrize(
    ("rules", "unseen", "may"),
    [
        ("", "tmp/", True),
        ("-tmp/*", "tmp/", False),
        ("-tmp*", "tmp/", False),
        ("-tmp", "tmp/", True),
        ("-tmp/*.tar", "tmp/", True),
        ("-*", "tmp/", False),
        ("-* +*.tar", "tmp/", True),
        ("+*.tar -*", "tmp/", False),
        ("-tmp/*", "tmp", True),
        ("-tmp*", "tmp", False),
    ],
)
def test_what_may_take_part_of_what_was_not_seen(rules: str, unseen: str, may: bool) -> None:
    made = [Rule(rule[0] == "+", rule[1:]) for rule in rules.split()]
    assert Filters(made).may_admit(unseen) is may
