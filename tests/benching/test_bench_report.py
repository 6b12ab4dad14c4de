"""The page of ``bench -o``, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsprep.benching.bench_report import BenchReport, BenchRow, write_page
from dsprep.benching.figures import Figures
from tests.browser import Browser

WAYS = ("boto3", "s3fs", "download", "cmd:aws s3 cp {url} - --no-progress", "fifo", "file", "FSx")

TEXTS = """[...document.querySelectorAll("svg")].flatMap(svg => {
    const box = svg.getBoundingClientRect()
    return [...svg.querySelectorAll("text")].filter(text => {
        const each = text.getBoundingClientRect()
        return each.left < box.left || each.right > box.right || each.bottom > box.bottom + 1
    }).map(text => text.textContent)
})"""
"""The texts that leave their drawing."""

STYLES = """[...document.querySelectorAll("polyline")].map(line => {
    const style = getComputedStyle(line)
    return style.stroke + style.strokeDasharray
})"""

SHAPES = """[...document.querySelectorAll("figure svg")].map(svg => [
    svg.getBoundingClientRect().width, svg.querySelectorAll("rect").length,
    svg.querySelectorAll("polyline").length
])"""

SMALLEST = """Math.min(...[...document.querySelectorAll("svg text")].map(
    text => text.getBoundingClientRect().height))"""


def row(at: int, way: str) -> BenchRow:
    """A row with figures as long as they become."""
    data = f"s3://a-bucket-with-a-long-name/photographs/of-2026/webdataset-100MB-{at}"
    speed = 123_456.7 / (at + 1) ** 2
    mean = 4 / speed
    return BenchRow(
        data=data,
        format="webdataset",
        reader="webdataset 1.0.2",
        access=way,
        workers=at,
        name=f"{data} with webdataset by {way}, {at} workers",
        figures=Figures(
            *(speed, 1e5 * speed, mean, mean**2, mean, 2 * mean, 9 * mean, 1.25, 7.5, 3e9, 0.0)
        ),
        noise=0.25,
        requests=100_000,
        fetched=10**11,
        windows=[(mean * (1 + (step * 7 % 5) / 20), mean**2) for step in range(20)],
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with many rows, long names, and one that failed."""
    place = tmp_path_factory.mktemp("page")
    rows = [row(at, way) for at, way in enumerate(WAYS)]
    failed = BenchRow("photos", "folder", "raw", "file", 2, "photos with raw", error="no " * 99)
    notes = [f"{'a_name_without_any_place_to_break_' * 4}: 3 shards for 2 readers"]
    sentence = f"{rows[0].name}: 123,457 images/s, the most; the processor limits it."
    report = BenchReport("measured", [*rows, failed], sentence, notes, "train", 4, 8, 2**34, 1.0)
    write_page(report, str(place))
    return place / "index.html"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_whole_and_asks_for_nothing(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    color = "getComputedStyle(document.body).backgroundColor"

    view = browser.open(page, width, dark, (TEXTS, SHAPES, SMALLEST, color, STYLES))

    assert (view.requests, view.loaded, view.messages) == ([], [], [])
    assert view.overflow == 0
    outside, (speeds, times), smallest, back, styles = view.answers
    assert outside == []
    assert speeds[1] == times[2] == len(WAYS)
    assert len(set(styles)) == len(WAYS), "two lines look the same"
    assert min(speeds[0], times[0]) > 300
    assert smallest >= 9, "text that nobody can read"
    assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert "<script" not in view.dom
