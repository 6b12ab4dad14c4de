"""The page of benchmarks, its chart and README.md show the figures of docs/benchmarks.json."""

from __future__ import annotations

from pathlib import Path

from scripts.bench.report import documents
from scripts.bench.results import load

ROOT = Path(__file__).parents[2]


def test_all_documents_show_the_same_figures() -> None:
    figures = load(ROOT / "docs" / "benchmarks.json")
    for path, text in documents(figures, ROOT).items():
        assert path.read_text("utf-8") == text, f"{path.name}: run python -m scripts.bench --report"


def test_every_figure_names_its_commit() -> None:
    results = load(ROOT / "docs" / "benchmarks.json").results
    assert results and all(result.commit for result in results)
