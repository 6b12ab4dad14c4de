"""A chart of the speed of dsprep beside its peers, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from math import ceil, floor, log2

from .goals import Row

# In pixels: the picture, where bars and the names of their data sets begin and end, heights.
_WIDTH, _DATA, _LEFT, _RIGHT = 800, 352, 368, 740
_TOP, _BAR, _GAP = 78, 18, 12

# It brings its own background, so it can be read on a page of either color.
_STYLE = """
.card{fill:#fff;stroke:#d0d7de} text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif}
text{fill:#1f2328} .title{font-size:17px;font-weight:600} .work{font-weight:600}
.quiet{fill:#59636e;font-size:12px} .right{text-anchor:end} .middle{text-anchor:middle}
.grid{stroke:#d0d7de} .one{stroke:#59636e;stroke-width:1.5}
.faster{fill:#00897b} .slower{fill:#d4793a}
@media (prefers-color-scheme:dark){.card{fill:#0d1117;stroke:#3d444d} text{fill:#f0f6fc}
.quiet{fill:#9198a1} .grid{stroke:#2a313c} .one{stroke:#9198a1}
.faster{fill:#2fb5a5} .slower{fill:#e0894d}}
"""


def draw(rows: Sequence[Row], title: str, note: str) -> str:
    """Draw a bar for each row that has a speed; rows of the same work stand together.

    The axis is logarithmic, so twice as fast and half as fast look equally far from 1.

    Args:
        rows: The rows.
        title: What the chart shows.
        note: Where its figures are from.
    """
    speeds = [row.speed for row in rows if row.speed]
    low, high = floor(log2(min(speeds, default=1))), ceil(log2(max(speeds, default=2)))

    def x(speed: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (log2(speed) - low) / (high - low)

    marks: list[str] = []
    y = _TOP
    for (work, against), group in groupby(rows, key=lambda row: (row.work, row.against)):
        bars = [(row.data, row.speed) for row in group if row.speed]
        if not bars:
            continue
        marks += (_text(20, y + 13, work, "work"), _text(20, y + 30, f"against {against}", "quiet"))
        for number, (data, speed) in enumerate(bars):
            marks += _bar(y + number * _BAR, data, speed, x(1), x(speed))
        y += _BAR * max(2, len(bars)) + _GAP
    grid = "".join(_grid_line(2.0**power, x(2.0**power), y) for power in range(low, high + 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 32}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>\n"
        f'<rect class="card" x=".5" y=".5" width="{_WIDTH - 1}" height="{y + 31}" rx="8"/>\n'
        f"{_text(20, 34, title, 'title')}\n{grid}\n"
        + "\n".join(marks)
        + f"\n{_text(20, y + 16, note, 'quiet')}\n</svg>\n"
    )


def _bar(y: float, data: str, speed: float, one: float, end: float) -> Iterator[str]:
    left, right = sorted((one, end))
    kind = "faster" if speed >= 1 else "slower"
    yield _text(_DATA, y + 13, data, "quiet right")
    yield (
        f'<rect class="{kind}" x="{left:.1f}" y="{y + 2}" width="{max(right - left, 1):.1f}" '
        f'height="{_BAR - 4}" rx="2"/>'
    )
    # Beside the bar's end that is on the right, where nothing covers it.
    yield _text(right + 6, y + 13, f"{speed:.{2 if speed < 1 else 1 if speed < 10 else 0}f}")


def _grid_line(speed: float, x: float, bottom: float) -> str:
    name = f"{speed:g}" if speed >= 1 else f"1/{1 / speed:g}"
    kind = "one" if speed == 1 else "grid"
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom - 4}"/>'
        f"{_text(x, _TOP - 12, name, 'quiet middle')}"
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'
