"""The report: results as a page of Markdown, a chart, and a sentence of README.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

from . import reshards
from .chart import draw
from .contests import SECONDS, TARGETS
from .goals import Row, rows, seconds, show_bytes, show_seconds
from .results import Figures, Result
from .s3.goals import s3_rows
from .s3.report import s3_section
from .tables import table

_NOTES_BEGIN = "<!-- notes: written by hand, kept when this page is generated -->"
_NOTES_END = "<!-- end of notes -->"

_README_BEGIN = "<!-- benchmarks: `make bench` writes this -->"
_README_END = "<!-- end of benchmarks -->"

_TITLE = "Speed of dsprep with its default options; 1 is the speed of the other tool"

_INTRODUCTION = """\
# Benchmarks

{achieved}

![{title}](images/benchmarks.svg)

`make bench` measures dsprep beside tools that do the same work, and writes this page and
`benchmarks.json`, which holds all figures. The programs of the peers are in `scripts/bench/peers`.
Lists, the start and memory are in the table only."""

_METHOD = """\
## Method

- Data sets are generated: pictures whose frequencies fall as those of photographs do, with objects
  that cover one another; each file has its own bytes. They lie in class folders, all in the page
  cache. The dry run's list (`listed`) names 1,000 files again and again, by hard links.
- A time is that of whole processes, from start to exit: the median of up to {runs} runs, in which
  the contenders take turns, in the opposite order every other round. A contender that has been
  timed for {seconds:g} s has no further run (resizing: 25 s; S3: {s3_seconds:g} s).
- Each run writes to a new directory, and begins when everything written before is on the disk. A
  round before, which is not timed, warms the caches up, has Python compile all programs, and
  samples memory. Before a run, as much memory is used and freed as it will need, because a virtual
  machine may have given its free memory back to the host.
- dsprep waits until its shards are on the disk (`fsync`) before it gives them their names; no peer
  does. The table of goals compares the times until exit all the same, so dsprep's time includes
  the disk's, and its peers' does not. How the copies compare when everybody waits for the disk,
  and when nobody has to, is in the table after it.
- Copies: dsprep with its default options, though the peers check nothing; the last column gives
  its time with `--check none`.
- Shards are of {targets}. GNU tar and im2rec
  write one file, and beside im2rec so does dsprep. im2rec makes its list first; the two commands
  are added up.
- Each further GB: a folder of four times as many photographs (`more`) and `photos` are copied to a
  directory in memory; the difference of the times is divided by that of the bytes written.
- Resizing: dsprep and im2rec begin with the same `.lst`, and write one `.rec`. PSNR is the mean
  over the images of a seeded sample, each against its original, decoded in full and resized by
  Lanczos to the output's size.
- The plan of a `.lst`: `dsprep pack --dry-run` with the 1,281,167 lines of `listed`.
- Times that `--dry-run` tells: each is asked once, before the first run.
- The plan of 10,000,000 samples: `scripts/simulate.py`, which makes up the catalog of a folder, in
  one process that writes nothing.
- Augmented copies: one of each image of `birds`, turned, moved, zoomed, mirrored and brightened at
  random; folder to folder, JPEG of quality 90 (Keras: 75, its only one). The script of Pillow warps
  once, on black; dsprep and Keras fill with the nearest pixels.
- Lists: made of the folder `small`; everything else is done to the list of `listed` and two edits
  of it, in each of which one line in a thousand is removed, one is relabeled and 1,000 are new. The
  pandas programs do the least that gives the same answer, and check nothing.
- What begins with shards: dsprep packed the data set into eight of them before. Converting keeps
  eight shards, and nobody decodes images. Re-sharding writes shards of {cuts};
  GNU tar copies the same shards into one file, and waits for the disk as dsprep does (`sync FILE`).
- The zip holds the first half of the classes of `small`, deflated as `zip` does. `unzip` writes
  the files, and `dsprep pack` packs them; the two commands are added up.
- The stream is one shard of two copies of `photos`, and comes and goes through pipes. The same
  shard is converted as a file, too, for the memory that this takes beside that for eight shards.
  Both run once, as only their memory is judged.
- Memory is the largest sum of all processes at one time, shared pages counted once (PSS); that of
  a worker is the largest resident set (RSS) of any process but the first.
- MB is a million bytes."""


def markdown(figures: Figures, notes: str) -> str:
    """Write the page.

    Args:
        figures: What was measured.
        notes: What was written by hand below the table of goals.
    """
    targets, cuts = (
        ", ".join(f"{show_bytes(size)} ({name})" for name, size in sizes.items())
        for sizes in (TARGETS, reshards.TARGETS)
    )
    judged = _judged(figures)
    parts = [
        _INTRODUCTION.format(achieved=achieved(judged), title=_TITLE),
        "## Goals",
        _goals(judged),
        _NOTES_BEGIN,
        notes,
        _NOTES_END,
        "## Copying, and the disk",
        _copies(figures.results),
        _told(figures.results),
        s3_section(figures.results),
        _METHOD.format(
            runs=figures.runs, seconds=SECONDS, s3_seconds=2 * SECONDS, targets=targets, cuts=cuts
        ),
        "## Data sets",
        table(
            ("data set", "files >", "bytes >", "a file >"),
            [
                (name, f"{files:,}", show_bytes(size), f"{size / files / 1000:,.1f} kB")
                for name, (files, size) in figures.data.items()
            ],
        ),
        "## Machine",
        table(("", ""), list(figures.machine.items())),
        "## Every figure",
        _figures(figures.results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def chart(figures: Figures) -> str:
    """Draw the picture of what `achieved` counts."""
    measured = ", ".join(sorted({result.commit for result in figures.results}))
    machine = f"{figures.machine['cores']} cores, {figures.machine['processor']}"
    note = f"Measured by make bench at commit {measured}; {machine}"
    return draw(_judged(figures), _TITLE, note)


def achieved(judged: Sequence[Row]) -> str:
    """Say in a sentence how the speed of dsprep compares."""
    speeds = [row.speed for row in judged if row.speed is not None]
    faster = sum(speed >= 1 for speed in speeds)
    return (
        f"With its default options, dsprep is faster than the other tool in {faster} of "
        f"{len(speeds)} comparisons, and {median(speeds or [1]):.1f} times as fast in the median."
    )


def with_speed(readme: str, figures: Figures) -> str:
    """Put the sentence and the chart into README.md, in place of those of an earlier benchmark."""
    before, begin, rest = readme.partition(_README_BEGIN)
    _, end, after = rest.partition(_README_END)
    if not end:
        raise ValueError(f"README.md: no {_README_BEGIN} or no {_README_END}")
    text = f"{achieved(_judged(figures))}\n\n![{_TITLE}](docs/images/benchmarks.svg)"
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _judged(figures: Figures) -> list[Row]:
    return [*rows(figures.results), *s3_rows(figures.results)]


def notes_of(page: str) -> str:
    """Return what was written by hand in a page that was generated before."""
    return page.partition(_NOTES_BEGIN)[2].partition(_NOTES_END)[0].strip()


def documents(figures: Figures, root: Path) -> dict[Path, str]:
    """Return all files of a repository that show figures, with their text."""
    page, readme = root / "docs" / "benchmarks.md", root / "README.md"
    return {
        page: markdown(figures, notes_of(page.read_text("utf-8"))),
        root / "docs" / "images" / "benchmarks.svg": chart(figures),
        readme: with_speed(readme.read_text("utf-8"), figures),
    }


def _goals(judged: Iterable[Row]) -> str:
    verdicts = {True: "met", False: "**missed**", None: "–"}
    return table(
        (
            "work",
            "data set",
            "against",
            "dsprep >",
            "peer >",
            "result >",
            "goal >",
            "",
            "`--check none` >",
        ),
        [
            (
                row.work,
                row.data,
                row.against,
                row.ours,
                row.theirs,
                row.result,
                row.goal,
                verdicts[row.met],
                row.unchecked,
            )
            for row in judged
        ],
    )


def _copies(results: Sequence[Result]) -> str:
    """Times of the copies that were measured in both places, beside dsprep's without a check."""
    memory = {(r.contest, r.contender): r for r in results if r.place == "memory" and r.runs}
    both = [
        (result, memory[result.contest, result.contender])
        for result in results
        if result.place == "disk" and result.runs and (result.contest, result.contender) in memory
    ]
    lines = []
    for contest, pairs in groupby(both, key=lambda pair: pair[0].contest):
        times = [
            (on_disk.contender, (seconds(on_disk), _durable(on_disk), seconds(in_memory)))
            for on_disk, in_memory in pairs
        ]
        _, units = times[0]
        for contender, values in times:
            cells = [
                f"{show_seconds(value)} ({value / unit:.2f})"
                for value, unit in zip(values, units, strict=True)
            ]
            lines.append((contest, contender, *cells))
    heads = ("until exit >", "until on the disk >", "output in memory >")
    return table(("work", "contender", *heads), lines) if lines else "Not measured."


def _told(results: Sequence[Result]) -> str:
    """Times that `--dry-run` told, beside those that it took."""
    lines = [
        (result.contest, show_seconds(result.told), show_seconds(took), f"{result.told / took:.2f}")
        for result in results
        if result.told and result.runs
        for took in [seconds(result)]
    ]
    heads = ("work", "told >", "took >", "told / took >")
    return f"## Times that `--dry-run` tells\n\n{table(heads, lines)}" if lines else ""


def _figures(results: Sequence[Result]) -> str:
    heads = ("time >", "runs >", "fastest >", "slowest >", "processor >", "memory >", "worker >")
    return table(
        ("work", "output", "contender", *heads, "written >", "commit"),
        [(*_figure(result), result.commit) for result in results if result.place != "S3"],
    )


def _figure(result: Result) -> tuple[str, ...]:
    name = (result.contest, result.place, result.contender)
    if result.error or not result.runs:
        return (*name, *["failed"] * 8)
    walls = [run.wall for run in result.runs]
    return (
        *name,
        show_seconds(seconds(result)),
        str(len(walls)),
        show_seconds(min(walls)),
        show_seconds(max(walls)),
        show_seconds(median(run.cpu for run in result.runs)),
        show_bytes(result.memory) if result.memory else "–",
        show_bytes(result.worker) if result.worker else "–",
        show_bytes(result.written) if result.written else "–",
    )


def _durable(result: Result) -> float:
    return median(run.durable for run in result.runs)
