"""The catalog: its rules, its order, its keys and its digests."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.catalog import COLUMNS, LABEL_COLUMNS, Catalog
from dsprep.sample import key_expr, key_of
from dsprep.sources.readers import FileReader

WRAP = 2**64 - 1

# Names that a file can have, rich in what matters to keys.
names = st.text("aB._é 猫", min_size=1, max_size=8).filter(lambda name: name not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
AT_ONCE = st.sampled_from((7, 100, 1 << 16))  # rows that are worked on at once


def make(
    paths: list[str], classes: tuple[str, ...] | None = None, root: str = "root", **columns: Any
) -> Catalog:
    count = len(paths)
    values = {
        "index": range(count),
        "path": paths,
        "size": [100] * count,
        "mtime": [7] * count,
    } | columns
    types = {name: (COLUMNS | LABEL_COLUMNS)[name] for name in values}
    return Catalog(pl.DataFrame(values, schema=types), root, classes, FileReader(root))


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator as its authors published it (https://prng.di.unimi.it/splitmix64.c)."""

    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WRAP
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WRAP
        return z ^ (z >> 31)

    state = mix(seed & WRAP)
    return [mix((state + i * 0x9E3779B97F4A7C15) & WRAP) for i in range(1, count + 1)]


# Rules


def test_a_catalog_may_be_empty() -> None:
    catalog = make([], cls=[])
    assert len(catalog) == 0
    assert catalog.collisions() == []
    assert catalog.samples_per_class() == {}
    assert len(catalog.shuffle(0)) == 0


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame({"path": ["a.jpg"]}),
        make(["a.jpg"]).table.select("path", "index", "size", "mtime"),
        make(["a.jpg"]).table.cast({"index": pl.UInt32}),
        make(["a.jpg"]).table.with_columns(extra=1),
        make(["a.jpg"], cls=[0]).table.with_columns(label=pl.lit([1.0])),
    ],
)
def test_the_columns_are_fixed(table: pl.DataFrame) -> None:
    with pytest.raises(ValueError, match="columns"):
        Catalog(table, "root", None, FileReader("root"))


def test_nulls_are_refused() -> None:
    with pytest.raises(ValueError, match="nulls"):
        make(["a.jpg", "b.jpg"], cls=[0, None])


def test_empty_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="empty label"):
        make(["a.jpg", "b.jpg"], label=[[1.0], []])


@pytest.mark.parametrize("number", [-1, 2])
def test_class_numbers_are_those_of_classes(number: int) -> None:
    make(["a.jpg"], cls=[number])
    with pytest.raises(ValueError, match="2 classes"):
        make(["a.jpg"], ("cat", "dog"), cls=[number])


@pytest.mark.parametrize(
    ("columns", "label"), [({}, None), ({"cls": [1]}, "cls"), ({"label": [[0.5]]}, "label")]
)
def test_label_column(columns: dict[str, Any], label: str | None) -> None:
    assert make(["a.jpg"], **columns).label_column == label


# Order


def test_shuffle_is_what_it_was() -> None:
    catalog = make([f"{number}.jpg" for number in range(10)])
    assert catalog.shuffle(0).table["index"].to_list() == [2, 4, 6, 8, 5, 1, 7, 0, 9, 3]
    assert catalog.shuffle(1).table["index"].to_list() == [7, 4, 8, 1, 2, 6, 5, 0, 9, 3]


@given(st.integers(-(2**70), 2**70), st.integers(0, 300), AT_ONCE)
def test_shuffle_is_splitmix64(seed: int, count: int, at_once: int) -> None:
    catalog = make([f"{number}.jpg" for number in range(count)])
    numbers = splitmix64(seed, count)
    expected = sorted(range(count), key=numbers.__getitem__)
    with patch("dsprep.catalog.AT_ONCE", at_once):
        assert catalog.shuffle(seed).table["index"].to_list() == expected
        assert catalog.shuffled_rows(seed, 5).to_list() == expected[:5]


def test_shuffle_moves_whole_rows_and_leaves_the_rest() -> None:
    catalog = make(["a.jpg", "b.jpg", "c.jpg"], ("x", "y", "z"), cls=[0, 1, 2], size=[5, 6, 7])
    shuffled = catalog.shuffle(3)
    assert shuffled.table.sort("index").equals(catalog.table)
    assert (shuffled.root, shuffled.classes) == (catalog.root, catalog.classes)


# Counts


def test_samples_per_class_counts_absent_classes_too() -> None:
    catalog = make(["a.jpg", "b.jpg", "c.jpg"], ("x", "y", "z"), cls=[2, 0, 2])
    assert list(catalog.samples_per_class().items()) == [(0, 1), (1, 0), (2, 2)]


def test_samples_per_class_without_some() -> None:
    catalog = make(["a.jpg", "b.jpg", "c.jpg"], ("x", "y"), cls=[1, 0, 1])
    assert catalog.samples_per_class(without=["c.jpg", "b.jpg"]) == {0: 0, 1: 1}


def test_samples_per_class_without_names() -> None:
    catalog = make(["a.jpg", "b.jpg", "c.jpg"], cls=[7, -1, 7])
    assert list(catalog.samples_per_class().items()) == [(-1, 1), (7, 2)]
    assert make(["a.jpg"], label=[[1.0]]).samples_per_class() == {}


# Keys


@given(st.lists(paths, max_size=20))
def test_key_expr_is_key_of(paths: list[str]) -> None:
    keys = pl.DataFrame({"path": paths}, schema={"path": pl.String}).select(key_expr()).to_series()
    assert keys.to_list() == [key_of(path) for path in paths]
    assert make(paths).keys().to_list() == keys.to_list()


def test_key_expr_of_another_column() -> None:
    assert pl.DataFrame({"file": ["cat/a.x.JPG"]}).select(key_expr("file")).item() == "cat/a_x"


@given(st.lists(paths, max_size=30), AT_ONCE)
def test_collisions_are_all_paths_of_equal_keys(paths: list[str], at_once: int) -> None:
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(key_of(path), []).append(path)
    expected = sorted((key, group) for key, group in groups.items() if len(group) > 1)
    with patch("dsprep.catalog.AT_ONCE", at_once):
        assert make(paths).collisions() == expected


def test_collisions_by_name() -> None:
    catalog = make(["z/a.png", "a.x.jpg", "a_x.png", "z/a.jpg", "b.jpg"])
    assert catalog.collisions() == [
        ("a_x", ["a.x.jpg", "a_x.png"]),
        ("z/a", ["z/a.png", "z/a.jpg"]),
    ]


# Digests

CATALOG = make(["a/é.jpg", "b/2.jpg"], ("a", "b"), cls=[0, 1], size=[5, 6], mtime=[1, 2])


@pytest.mark.parametrize(
    ("digest", "expected"),
    [
        (CATALOG.digest(), "5ab935d20ce2590e088a89c54ab0623cc2c077b3279ae3163404db909c19ac2c"),
        (
            CATALOG.mtimes_digest(),
            "0c730b69905c5ef7a4ca5269f72365400bde2dd2c04eaf9bbb3d1c4a265a0131",
        ),
        (
            make(["a.jpg", "b.jpg"], label=[[0.5], [1.0, -2.0]]).digest(),
            "19de47ca679a185f88c49ed89ccf277e3a5d08a818e530f7d80d3b966e14fb2b",
        ),
        (
            make(["a.jpg"]).digest(),
            "cb6110731955a8fa48505b467edd12c3bedf6f157ffa65ebddf26a4948d07cbb",
        ),
    ],
)
def test_digests_are_what_they_were(digest: str, expected: str) -> None:
    assert digest == expected


def test_digest_is_of_content_alone() -> None:
    table = CATALOG.table.with_columns(mtime=pl.col("mtime") + 1)
    elsewhere = replace(CATALOG, table=pl.concat([table[:1], table[1:]]), root="elsewhere")
    assert elsewhere.digest() == CATALOG.digest()
    assert elsewhere.mtimes_digest() != CATALOG.mtimes_digest()


@pytest.mark.parametrize(
    "other",
    [
        replace(CATALOG, classes=("a", "c")),
        replace(CATALOG, classes=None),
        replace(CATALOG, table=CATALOG.table.reverse()),
        replace(CATALOG, table=CATALOG.table[:1]),
        replace(CATALOG, table=CATALOG.table.drop("cls")),
        replace(CATALOG, table=CATALOG.table.with_columns(index=pl.col("index") + 1)),
        replace(CATALOG, table=CATALOG.table.with_columns(size=pl.col("size") + 1)),
        replace(CATALOG, table=CATALOG.table.with_columns(cls=1 - pl.col("cls"))),
        replace(CATALOG, table=CATALOG.table.with_columns(path=pl.col("path") + "x")),
    ],
)
def test_digest_tells_contents_apart(other: Catalog) -> None:
    assert other.digest() != CATALOG.digest()


def test_digest_knows_where_values_end() -> None:
    digests = [
        make(["ab", "c"]).digest(),
        make(["a", "bc"]).digest(),
        make(["a", "b"], label=[[1.0, 2.0], [3.0]]).digest(),
        make(["a", "b"], label=[[1.0], [2.0, 3.0]]).digest(),
    ]
    assert len(set(digests)) == len(digests)


def test_digest_of_more_rows_than_are_hashed_at_once() -> None:
    count = 70_000
    sizes = random.Random(0).choices(range(10**6), k=count)
    catalog = make([f"{number}.jpg" for number in range(count)], size=sizes)
    sizes[-1] += 1
    changed = make([f"{number}.jpg" for number in range(count)], size=sizes)
    assert catalog.digest() != changed.digest()
    chunks = pl.concat([catalog.table[:3], catalog.table[3:]], rechunk=False)
    assert replace(catalog, table=chunks).digest() == catalog.digest()
