"""Write docs/images/demo.svg: a terminal in which a folder is packed, verified and converted.

The commands run on the images of `make demo`, and the picture shows what they print.
"""

from __future__ import annotations

import html
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scripts.demo_images import write_images

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
COMMANDS = (
    "dsprep pack images shards --to webdataset --target-size 200KB",
    "dsprep verify shards --against images",
    "dsprep convert shards records --to tfrecord",
)
WIDTH, LINE, LETTER = 96, 19, 8.43  # columns; height and width of a character in pixels
TYPED, READ = 0.7, 0.9  # seconds to type a command, and to read what it prints
STYLE = """
rect{fill:#1b2b34} text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;
fill:#d8dee9;white-space:pre} .c{fill:#5fb3b3;font-weight:bold} .s{fill:#fff}
g{animation:on .01s backwards} @keyframes on{from{opacity:0}}
@media (prefers-reduced-motion:reduce){g{animation:none}}
"""


def run_commands() -> Iterator[tuple[str, list[str]]]:
    """Run the commands in a new directory; yield each one and the lines that it prints."""
    with tempfile.TemporaryDirectory() as directory:
        write_images(Path(directory, "images"))
        for command in COMMANDS:
            done = subprocess.run(
                command.split(), cwd=directory, capture_output=True, text=True, check=False
            )
            if done.returncode not in (0, 3):
                raise SystemExit(f"{command}: {done.stderr}")
            lines = [line for line in done.stdout.split("\n") if not line.startswith("  time")]
            yield command, [line[:WIDTH] for line in lines if line]


def draw(commands: Iterator[tuple[str, list[str]]]) -> str:
    """Return the picture: each command appears, then what it prints."""
    rows, seconds, y = [], 0.0, 1.6 * LINE
    for command, lines in commands:
        rows.append(_row(f'<tspan class="c">$</tspan> {html.escape(command)}', y, seconds, "s"))
        seconds += TYPED
        for line in lines:
            y += LINE
            rows.append(_row(html.escape(line), y, seconds))
        seconds += READ
        y += 1.6 * LINE
    width = round(WIDTH * LETTER + 2 * LINE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {round(y)}" role="img">'
        f"<title>dsprep in a terminal</title><style>{STYLE}</style>"
        f'<rect width="100%" height="100%" rx="8"/>{"".join(rows)}</svg>\n'
    )


def _row(text: str, y: float, seconds: float, kind: str = "") -> str:
    return (
        f'\n<g style="animation-delay:{seconds:.1f}s">'
        f'<text x="{LINE}" y="{y:.0f}" class="{kind}">{text}</text></g>'
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(run_commands()), "utf-8")
