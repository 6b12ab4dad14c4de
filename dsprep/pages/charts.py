"""Charts as inline SVG: text, so that a page needs no script. Colors are classes of the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from dsprep.printable import visible
from dsprep.tuples import NamedTuple

_WIDTH, _BAR, _HEIGHT = 400, 34, 200  # in units of the drawing, which the page scales to its width
_COLORS = 6  # classes c0, c1, … that a page has


class Bar(NamedTuple):
    """A bar of a chart."""

    name: str
    value: float
    text: str  # the value as people write it
    color: int = 0


class Line(NamedTuple):
    """A line of a chart: values at equal distances."""

    name: str
    values: Sequence[float]


def bars(title: str, given: Sequence[Bar]) -> str:
    """Draw horizontal bars from 0, each below its name."""
    most = max((bar.value for bar in given), default=0.0) or 1.0
    parts = []
    for at, bar in enumerate(given):
        y = at * _BAR
        length = max(bar.value / most * (_WIDTH - 90), 1.0)
        parts += [
            f'<text x="0" y="{y + 12}">{escape(_short(bar.name))}</text>',
            f'<rect class="c{bar.color % _COLORS}" x="0" y="{y + 17}" width="{length:.1f}" '
            f'height="11" rx="2"/>',
            f'<text class="quiet" x="{length + 6:.1f}" y="{y + 27}">{escape(bar.text)}</text>',
        ]
    return _drawing(title, len(given) * _BAR, parts)


def lines(title: str, given: Sequence[Line], unit: str) -> str:
    """Draw lines over equal steps, with an axis from 0 and a key below."""
    most = max((value for line in given for value in line.values), default=0.0) or 1.0
    top = _round_up(most)
    parts = [*_grid(top, unit)]
    for number, line in enumerate(given):
        style, y = f"l{number % _COLORS}", _HEIGHT + 18 + number * 16
        style += " dashed" if number // _COLORS % 2 else ""
        distance = (_WIDTH - 50) / max(len(line.values) - 1, 1)
        points = " ".join(
            f"{44 + at * distance:.1f},{_HEIGHT - value / top * (_HEIGHT - 12):.1f}"
            for at, value in enumerate(line.values)
        )
        # A single value is a dot: the line's round cap.
        points += f" {points}" if len(line.values) == 1 else ""
        parts += [
            f'<polyline class="line {style}" points="{points}"/>',
            f'<line class="line {style}" x1="1" x2="19" y1="{y - 4}" y2="{y - 4}"/>',
            f'<text x="26" y="{y}">{escape(_short(line.name))}</text>',
        ]
    return _drawing(title, _HEIGHT + 10 + len(given) * 16, parts)


def histogram(
    title: str, given: Sequence[Line], ticks: Sequence[tuple[float, str]], unit: str
) -> str:
    """Draw bins of equal width, those of all lines over another, and a key if there are several.

    Ticks are texts below, and where: 0 is the left end, and 1 the right one.
    """
    top = _round_up(max((value for line in given for value in line.values), default=0.0) or 1.0)
    parts, across = [*_grid(top, unit)], _WIDTH - 50
    for number, line in enumerate(given):
        color, y, width = number % _COLORS, _HEIGHT + 36 + number * 16, across / len(line.values)
        steps = "".join(
            f"V{_HEIGHT - value / top * (_HEIGHT - 12):.1f}h{width:.3f}" for value in line.values
        )
        parts.append(f'<path class="area c{color} l{color}" d="M44 {_HEIGHT}{steps}V{_HEIGHT}"/>')
        if len(given) > 1:
            parts += [
                f'<rect class="c{color}" x="1" y="{y - 9}" width="18" height="10" rx="2"/>',
                f'<text x="26" y="{y}">{escape(_short(line.name))}</text>',
            ]
    for share, text in ticks:
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        place = f'x="{44 + share * across:.1f}" y="{_HEIGHT + 14}" text-anchor="{anchor}"'
        parts.append(f'<text class="quiet" {place}>{escape(text)}</text>')
    return _drawing(title, _HEIGHT + 22 + (len(given) > 1) * (6 + len(given) * 16), parts)


def bar(share: float, color: int) -> str:
    """Draw a bar alone, of a share of the width that the page gives it."""
    shape = f'<rect class="c{color % _COLORS}" width="{100 * share:.2f}" height="1"/>'
    return f'<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">{shape}</svg>'


def _grid(top: float, unit: str) -> Iterator[str]:
    for part in range(5):
        y = _HEIGHT - part / 4 * (_HEIGHT - 12)
        yield f'<line class="grid" x1="44" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        value = f"{top * part / 4:.3g} {escape(unit)}"
        yield f'<text class="quiet" x="0" y="{y + 4:.1f}">{value}</text>'


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 4, 8, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value * 0.999)


def _short(name: str, limit: int = 58) -> str:
    name = visible(name)
    return name if len(name) <= limit else "…" + name[1 - limit :]


def _drawing(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )
