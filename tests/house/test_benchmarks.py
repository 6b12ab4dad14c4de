"""The benchmark's page, chart and README.md show the figures of docs/benchmarks.json."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scripts.bench.data import SMALL, DataSet, ensure, of_images, of_size
from scripts.bench.report import documents
from scripts.bench.results import Figures, load, merge, save

ROOT = Path(__file__).parents[2]
FIGURES = load(ROOT / "docs" / "benchmarks.json")


def test_all_documents_show_the_same_figures() -> None:
    for path, text in documents(FIGURES, ROOT).items():
        assert path.read_text("utf-8") == text, f"{path.name}: run python -m scripts.bench --report"


def test_every_figure_names_its_commit() -> None:
    assert FIGURES.results
    assert all(result.commit for result in FIGURES.results)


def test_a_part_replaces_only_its_contests(tmp_path: Path) -> None:
    (first, *_) = FIGURES.results
    again = Figures(FIGURES.machine, {}, 1, [replace(first, runs=first.runs[:1], commit="later")])
    save(merge(FIGURES, again), tmp_path / "results.json")
    merged = load(tmp_path / "results.json")
    assert [r for r in merged.results if r.contest == first.contest] == again.results
    others, left = (
        sorted((r for r in found.results if r.contest != first.contest), key=repr)
        for found in (FIGURES, merged)
    )
    assert left == others
    assert merged.data == FIGURES.data


def test_a_larger_data_set_is_made_of_hard_links(tmp_path: Path) -> None:
    small = replace(SMALL, files=6, classes=2, pictures=1)
    made = DataSet(of_size(small, 20 * small.size), tmp_path)
    ensure(made)
    files = list(made.root.rglob("*.jpg"))
    assert (len(files), len({file.stat().st_ino for file in files})) == (20, 6)


def test_a_data_set_of_given_images_repeats_them(tmp_path: Path) -> None:
    given = DataSet(replace(SMALL, files=3, classes=1, pictures=3), tmp_path / "given")
    given.cache.mkdir()
    ensure(given)
    made = DataSet(of_images(replace(SMALL, files=7, classes=2), given.root), tmp_path)
    ensure(made)
    contents = {file.read_bytes() for file in made.root.rglob("*.jpg")}
    assert len(contents) == 7
