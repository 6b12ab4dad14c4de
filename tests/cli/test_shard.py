"""`dsprep shard`: a data set cut again, shuffled, or a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from dsprep.formats import FORMATS, IN_SPANS, SHARDED
from dsprep.formats.stream import ShardStream
from dsprep.units import parse_size
from tests.attack.trees import contents, manifest, names
from tests.conftest import Finished
from tests.images import jpeg

RunHere = Callable[..., Finished]

COUNTS = {"cat": 3, "dog": 6, "owl": 12}
TOTAL = sum(COUNTS.values())
COPIED = [name for name in IN_SPANS if name in SHARDED]
"""The formats whose samples are copied as they are."""


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory, run_here: RunHere) -> dict[str, Path]:
    """The same samples in each format, in shards of five."""
    root = tmp_path_factory.mktemp("sets")
    photos = root / "photos"
    for number, (name, count) in enumerate(COUNTS.items()):
        (photos / name).mkdir(parents=True)
        for each in range(count):
            data = jpeg(100 * number + each, (16 + 8 * each, 12))
            (photos / name / f"{each:03}.jpg").write_bytes(data)
    found = {}
    for name in COPIED:
        found[name] = root / name
        size = ("--samples-per-shard", 5) if name != "folder" else ()
        assert run_here("convert", photos, found[name], "--to", name, *size, "-qj1").code == 0
    return found


def shards(dest: Path, name: str) -> list[Path]:
    return sorted(dest.glob(f"*{FORMATS[name].suffix}"))


def encoded(dest: Path, name: str) -> list[list[bytes]]:
    """The encoded samples of each shard."""
    found = []
    for path in shards(dest, name):
        data = path.read_bytes()
        with ShardStream(str(path)) as stream:
            spans = [(each.offset, each.size) for each in FORMATS[name]().read(stream)]
        found.append([data[offset : offset + size] for offset, size in spans])
    return found


def keys(dest: Path, name: str = "webdataset") -> list[str]:
    found = []
    for path in shards(dest, name):
        with ShardStream(str(path)) as stream:
            found += [each.sample.key for each in FORMATS[name]().read(stream)]
    return found


def flat(lists: Sequence[Sequence[bytes]]) -> list[bytes]:
    return [each for part in lists for each in part]


def classes(found: Sequence[str]) -> Counter[str]:
    return Counter(key.partition("/")[0] for key in found)


class TestSizes:
    @pytest.mark.parametrize("name", COPIED)
    @pytest.mark.parametrize(
        ("options", "counts"),
        [
            (("--samples-per-shard", 8), [8, 8, 5]),
            (("--samples-per-shard", 2), [2] * 10 + [1]),
            (("--shards", 3), [7, 7, 7]),
            (("--target-size", "200MB"), [21]),
            (("--samples-per-shard", 5, "--name", "train-all"), [5, 5, 5, 5, 1]),
        ],
        ids=str,
    )
    def test_samples_stay_as_they_are_in_their_order(
        self,
        run_here: RunHere,
        sets: dict[str, Path],
        tmp_path: Path,
        name: str,
        options: tuple[object, ...],
        counts: list[int],
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("shard", sets[name], dest, *options, "-qj1") == (0, "", "")
        found = encoded(dest, name)
        assert [len(each) for each in found] == counts
        assert flat(found) == flat(encoded(sets[name], name))
        assert manifest(dest)["classes"] == list(COUNTS)
        assert run_here("verify", dest, "-qj1") == (0, "", "")

    @pytest.mark.parametrize("name", COPIED)
    def test_no_shard_is_larger_than_was_asked(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, name: str
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("shard", sets[name], dest, "--target-size", "20480", "-qj1").code == 0
        sizes = [path.stat().st_size for path in shards(dest, name)]
        assert max(sizes) <= 20480
        assert all(sum(pair) > 20480 * 0.6 for pair in pairwise(sizes[:-1]))

    def test_two_limits_hold(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path
    ) -> None:
        name, dest = COPIED[0], tmp_path / "out"
        found = {}
        for size, most in (("20480", 2), ("20480", 50), ("1MB", 5)):
            limits = ("--target-size", size, "--samples-per-shard", most)
            args = (sets[name], dest, *limits, "--overwrite", "-qj1")
            assert run_here("shard", *args).code == 0
            assert max(path.stat().st_size for path in shards(dest, name)) <= parse_size(size)
            found[size, most] = [len(each) for each in encoded(dest, name)]
            assert max(found[size, most]) <= most
        assert len(found["20480", 50]) < len(found["20480", 2])
        assert len(found["1MB", 5]) == 5 and sum(found["1MB", 5]) == TOTAL
        assert manifest(dest)["options"]["size"] == {
            "target": 1_000_000, "shards": None, "samples": 5
        }  # fmt: skip
        refused = run_here("shard", sets[name], tmp_path / "x", *limits, "--shards", 3)
        assert (refused.code, "--shards fixes their size" in refused.err) == (2, True)

    @pytest.mark.parametrize("name", COPIED)
    def test_as_many_for_each_reader_with_about_as_many_bytes(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, name: str
    ) -> None:
        largest = max(map(len, flat(encoded(sets[name], name))))
        for number, options in enumerate((("--target-size", "14KB"), ("--shards", 4), ())):
            dest = tmp_path / str(number)
            more = ("--multiple-of", 3, "-qj1")
            assert run_here("shard", sets[name], dest, *options, *more).code == 0
            found = [sum(map(len, each)) for each in encoded(dest, name)]
            assert len(found) == {"--shards": 6, None: 3}.get(next(iter(options), None), len(found))
            assert len(found) % 3 == 0
            assert max(found) - min(found) <= 2 * largest
        refused = run_here("shard", sets[name], tmp_path / "x", "--multiple-of", 22)
        assert refused.code in (2, 4)
        assert not (tmp_path / "x").exists()

    @pytest.mark.parametrize("name", COPIED)
    def test_merged_into_one_file(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, name: str
    ) -> None:
        path = tmp_path / f"all{FORMATS[name].suffix}"
        assert run_here("shard", *shards(sets[name], name), path, "-qj1").code == 0
        assert encoded(tmp_path, name) == [flat(encoded(sets[name], name))]

    @pytest.mark.parametrize(
        ("name", "to"),
        [
            *((name, "parquet") for name in COPIED),
            ("webdataset", "tfrecord"),
            ("tfrecord", "webdataset"),
            ("recordio", "webdataset"),
            ("tfrecord", "recordio-protobuf"),
        ],
    )
    def test_into_another_format_as_convert_does(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, name: str, to: str
    ) -> None:
        for verb in ("shard", "convert"):
            size = ("--to", to, "--samples-per-shard", 8, "-qj1")
            assert run_here(verb, sets[name], tmp_path / verb, *size).code == 0
        cut, converted = (contents(tmp_path / verb) for verb in ("shard", "convert"))
        assert cut == converted

    def test_webdataset_reads_what_was_cut(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, webdataset: ModuleType
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("shard", sets["webdataset"], dest, "--shards", 4, "-qj1").code == 0

        def read(root: Path) -> list[tuple[object, ...]]:
            files = [str(path) for path in shards(root, "webdataset")]
            samples = webdataset.WebDataset(files, shardshuffle=False)
            return [(each["__key__"], each["cls"], each["jpg"]) for each in samples]

        assert read(dest) == read(sets["webdataset"])
        assert len(read(dest)) == TOTAL


class TestShuffle:
    @pytest.mark.parametrize("name", COPIED)
    def test_all_samples_in_an_order_that_the_seed_tells(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, name: str
    ) -> None:
        orders = {}
        for number, seed in enumerate((1, 1, 2)):
            dest = tmp_path / str(number)
            options = ("--shards", 2, "--shuffle", "--seed", seed, f"-qj{number + 1}")
            assert run_here("shard", sets[name], dest, *options).code == 0
            orders[number] = encoded(dest, name)
        assert orders[0] == orders[1]
        assert orders[0] != orders[2]
        before = flat(encoded(sets[name], name))
        for found in orders.values():
            assert flat(found) != before
            assert sorted(flat(found)) == sorted(before)

    def test_over_all_shards(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path
    ) -> None:
        """However the source was cut, the order is the same: no window, no buffer."""
        source = sets["webdataset"]
        assert run_here("shard", source, tmp_path / "all.tar", "-qj1").code == 0
        options = ("--shuffle", "--seed", 5, "--shards", 3, "-qj1")
        for name, given in (("five", source), ("one", tmp_path / "all.tar")):
            assert run_here("shard", given, tmp_path / name, *options).code == 0
        assert keys(tmp_path / "one") == keys(tmp_path / "five")
        for path in shards(tmp_path / "one", "webdataset"):
            with ShardStream(str(path)) as stream:
                held = [each.sample.key for each in FORMATS["webdataset"]().read(stream)]
            assert len(classes(held)) > 1


class TestSelection:
    @pytest.mark.parametrize(
        ("expression", "wanted"),
        [
            ("class = 'cat'", {"cat": 3}),
            ("label = 1 OR key = 'owl/003'", {"dog": 6, "owl": 1}),
            ("key LIKE '%/00_' AND NOT class IN ('dog')", {"cat": 3, "owl": 10}),
            ("index < 5", {"cat": 3, "dog": 2}),
        ],
    )
    @pytest.mark.parametrize("name", ["webdataset", "tfrecord"])
    def test_filter(
        self,
        run_here: RunHere,
        sets: dict[str, Path],
        tmp_path: Path,
        name: str,
        expression: str,
        wanted: dict[str, int],
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("shard", sets[name], dest, "--filter", expression, "-qj1").code == 0
        assert classes(keys(dest, name)) == wanted
        taken = set(keys(dest, name))
        before = zip(keys(sets[name], name), flat(encoded(sets[name], name)), strict=True)
        assert flat(encoded(dest, name)) == [data for key, data in before if key in taken]

    def test_filter_by_size(self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path) -> None:
        source = sets["tfrecord"]
        sizes = sorted(map(len, flat(encoded(source, "tfrecord"))))
        expression = f"size > {sizes[9]}"
        assert run_here("shard", source, tmp_path / "x", "--filter", expression, "-qj1").code == 0
        found = flat(encoded(tmp_path / "x", "tfrecord"))
        assert sorted(map(len, found)) == [size for size in sizes if size > sizes[9]]

    def test_filter_by_columns_of_a_table(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path
    ) -> None:
        table = tmp_path / "quality.csv"
        lines = [f"{key},{n / 10}\n" for n, key in enumerate(keys(sets["webdataset"])[:15])]
        table.write_text("key,quality\n" + "".join(lines))
        options = ("--filter", "quality >= 0.5 AND class != 'owl'", "--filter-table", table)
        assert run_here("shard", sets["webdataset"], tmp_path / "x", *options, "-qj1").code == 0
        assert keys(tmp_path / "x") == keys(sets["webdataset"])[5:9]

    @pytest.mark.parametrize(
        "expression", ["__import__('os')", "size >", "colour = 3", "key = 'none'", "1; DROP"]
    )
    def test_what_is_no_filter_is_refused(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, expression: str
    ) -> None:
        done = run_here("shard", sets["webdataset"], tmp_path / "x", "--filter", expression)
        assert done.code in (2, 4)
        assert len(done.err.strip().splitlines()) <= 3
        assert names(tmp_path) == []


class TestPromises:
    @pytest.mark.parametrize("name", COPIED)
    @pytest.mark.parametrize(
        "options", [("--samples-per-shard", 2), ("--shuffle", "--shards", 5)], ids=str
    )
    def test_any_number_of_workers_writes_the_same_bytes(
        self,
        run_here: RunHere,
        sets: dict[str, Path],
        tmp_path: Path,
        name: str,
        options: tuple[object, ...],
    ) -> None:
        for workers in (1, 4):
            dest = tmp_path / str(workers)
            assert run_here("shard", sets[name], dest, *options, "-qj", workers).code == 0
        assert contents(tmp_path / "1") == contents(tmp_path / "4")

    @pytest.mark.parametrize(
        "options", [("--samples-per-shard", 2), ("--shuffle", "--shards", 2), ("--shards", 3)]
    )
    def test_a_dry_run_tells_and_writes_nothing(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path, options: tuple[object, ...]
    ) -> None:
        source = sets["webdataset"]
        before = contents(source)
        planned = run_here("shard", source, tmp_path / "x", *options, "--dry-run", "-j1")
        assert planned.code == 0
        assert "nothing was written" in planned.out
        assert names(tmp_path) == []
        assert run_here("shard", source, tmp_path / "x", *options, "-qj1").code == 0
        for path in shards(tmp_path / "x", "webdataset"):
            assert path.name in planned.out
        assert contents(source) == before

    def test_again_does_nothing_and_otherwise_is_refused(
        self, run_here: RunHere, sets: dict[str, Path], tmp_path: Path
    ) -> None:
        call = ("shard", sets["webdataset"], tmp_path / "x", "-j1", "--shards")
        assert run_here(*call, 3).code == 0
        before = contents(tmp_path)
        again = run_here(*call, 3)
        assert again.code == 0
        assert "already sharded" in again.out
        assert run_here(*call, 2).code == 5
        assert contents(tmp_path) == before
        assert run_here(*call, 2, "--overwrite").code == 0
        assert len(shards(tmp_path / "x", "webdataset")) == 2

    def test_the_destination_is_not_the_source(
        self, run_here: RunHere, sets: dict[str, Path]
    ) -> None:
        before = contents(sets["tfrecord"])
        assert run_here("shard", sets["tfrecord"], sets["tfrecord"], "--shards", 2).code in (2, 5)
        assert contents(sets["tfrecord"]) == before


@pytest.mark.parametrize("name", ["set", "one.parquet"])
def test_parquet_with_a_manifest_is_a_source(
    run_here: RunHere, sets: dict[str, Path], tmp_path: Path, name: str
) -> None:
    source, dest = tmp_path / name, tmp_path / "out"
    to = () if source.suffix else ("--to", "parquet")
    assert run_here("convert", sets["webdataset"], source, *to, "-j1").code == 0
    done = run_here("shard", source, dest, "--to", "webdataset", "-j1")
    assert (done.code, done.err) == (0, "")
    assert len(keys(dest)) == TOTAL
