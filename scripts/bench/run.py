"""Hold a contest: every contender once for its memory and its output, then in turns for time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .commands import OUT
from .contests import Contender, Contest
from .data import ensure
from .measure import Command, CommandError, memory_of_run, time_run, touch_memory
from .results import Result


def hold(contest: Contest, place: str, directory: Path, runs: int) -> list[Result]:
    """Hold a contest.

    The first round warms the caches up and is not timed. In the timed rounds the contenders take
    turns, so that what else the machine does meets all of them, until their time is spent. Every
    other round goes the other way, as a place in the round may be a better one than another.

    Args:
        contest: The contest.
        place: What `directory` is: `disk` or `memory`.
        directory: Where outputs go for as long as they are needed.
        runs: How many timed rounds.
    """
    results = {c: Result(contest.name, place, c.name) for c in contest.contenders}
    for number in range(1 + runs * contest.rounds):
        turns = [*results.items()]
        for contender, result in reversed(turns) if number % 2 else turns:
            if result.error is not None or (result.runs and result.spent >= contest.seconds):
                continue
            try:
                with new_directory(directory) as out:
                    commands = _commands(contender, out)
                    if number == 0:
                        if contest.tells and contender == contest.contenders[0]:
                            result.told = _told(commands)
                        _look_at(contest, commands, out, result)
                    else:
                        touch_memory(result.written + result.memory)
                        result.runs.append(time_run(commands, out))
            except CommandError as error:
                result.error = str(error)
                print(f"{contest.name}: {contender.name}: {error}", file=sys.stderr, flush=True)
    return list(results.values())


def _look_at(contest: Contest, commands: list[Command], out: Path, result: Result) -> None:
    memory = memory_of_run(commands, out)
    result.memory, result.worker = memory.total, memory.worker
    result.written = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if contest.copies and contest.data and result.written < (size := ensure(contest.data)):
        raise CommandError(f"wrote {result.written} of {size} bytes")
    if contest.psnr_images and contest.data:
        result.psnr = _psnr(contest.data.root, out / "train.rec", contest.psnr_images)


def _told(commands: list[Command]) -> float | None:
    """How long the last of some commands will take, as its dry run says."""
    command = (*commands[-1], "--dry-run", "--json")
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise CommandError(f"--dry-run: {ended.stderr.strip()[-1000:]}")
    return float(json.loads(ended.stdout)["seconds"]) or None


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """A new directory for outputs, deleted when done with."""
    out = directory / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        yield out
    finally:
        shutil.rmtree(out)


def _commands(contender: Contender, out: Path) -> list[Command]:
    """The commands that write there."""
    return [
        tuple(word.replace(OUT, str(out)) for word in command) for command in contender.commands
    ]


def _psnr(root: Path, rec: Path, images: int) -> float:
    command = (sys.executable, str(Path(__file__).with_name("psnr.py")), root, rec, str(images))
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise CommandError(f"psnr.py: {ended.stderr.strip()[-1000:]}")
    return float(json.loads(ended.stdout)["psnr"])
