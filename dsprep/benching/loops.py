"""Runs of a loop: a fresh process each, with its steps and what resources it took."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dsprep.benching.cells import BenchData, Cell, loop_of
from dsprep.errors import DsprepError
from dsprep.storage.files import absolute, common_path, open_file
from dsprep.storage.local import open_regular
from dsprep.tuples import NamedTuple

_SAMPLE_SECONDS = 0.25  # between two looks at the memory
_TICKS = os.sysconf("SC_CLK_TCK")
_AT_ONCE = 1 << 20
# No lines that mean nothing to a user, and no question to PyPI for a newer version.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "LITDATA_DISABLE_VERSION_CHECK": "1"}


class Step(NamedTuple):
    """One step of a loop."""

    seconds: float
    images: int
    size: int | None  # bytes of their files, if the reader tells


@dataclass
class LoopRun:
    """What one process did."""

    steps: list[Step] = field(default_factory=list)
    reader: str = ""  # its name and version
    cpu: float = 0.0  # seconds of all its processes, without its start
    memory: int = 0  # largest sum of all its processes, shared pages counted once
    from_device: int = 0  # bytes that the processes read from a disk
    idle: float = 0.0  # cores of the machine that had nothing to do, on average
    requests: int | None = None  # requests to S3; None if not counted
    fetched: int | None = None  # bytes of the answers


class LoopError(Exception):
    """A loop failed; the text says why."""


class LoopOptions(NamedTuple):
    """The options of a run of a training loop."""

    work: str
    batch: int
    shuffle: int
    steps: int
    compute: float
    cached: bool = False


def run_loop(
    cell: Cell, data: Sequence[str], asked: LoopOptions, each: Callable[[Step], object]
) -> LoopRun:
    """Run the loop of a combination with data as :func:`reached` gives it.

    Raises:
        LoopError: If it fails, or makes fewer steps.
    """
    way = cell.access.partition(":")[0]
    options = json.dumps({**asked._asdict(), "workers": cell.workers, **cell.data.keywords})
    command = [str(loop_of(cell.reader, way)), *data]
    with tempfile.TemporaryDirectory(prefix="dsprep-bench-") as scratch:
        notes = os.path.join(scratch, "requests") if way in ("boto3", "s3fs") else None
        if notes:
            command = [str(Path(__file__).with_name("count_requests.py")), notes, *command]
        with open(os.path.join(scratch, "errors"), "w+b") as errors:
            # What a loop unpacks goes with the directory, however the loop ends.
            environment = {**_QUIET, **os.environ, "LOOP_OPTIONS": options, "TMPDIR": scratch}
            run, code = _watch([sys.executable, "-P", *command], environment, errors.fileno(), each)
            if code or len(run.steps) < max(asked.steps, 1):
                errors.seek(max(os.path.getsize(errors.name) - _AT_ONCE, 0))
                said = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
                made = f"exit code {code}, {len(run.steps)} of {asked.steps} steps"
                raise LoopError(f"{said[:500]} ({made})".lstrip())
        if notes:
            sizes = _lines_of(notes)
            run.requests, run.fetched = len(sizes), sum(map(int, sizes))
    return run


def start_once(reader: str) -> None:
    """Start a loop without data: what it imports is no longer read from a device later."""
    command = [sys.executable, "-P", str(loop_of(reader, "file"))]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _watch(
    command: Sequence[str],
    environment: Mapping[str, str],
    errors: int,
    each: Callable[[Step], object],
) -> tuple[LoopRun, int]:
    run, before = LoopRun(), _read_from_devices()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        start_new_session=True,  # so that all its processes are found, and ended
    )
    ended = threading.Event()
    looking = threading.Thread(target=_look_at_memory, args=(process.pid, run, ended), daemon=True)
    looking.start()
    at_start, idle_before, began = 0.0, 0.0, 0.0
    try:
        assert process.stdout is not None
        for line in process.stdout:
            values = _parse(line)
            if "reader" in values:
                run.reader, began = str(values["reader"]), time.monotonic()
                at_start, idle_before = _cpu_of(process.pid), _idle_time()
            elif "seconds" in values:
                run.steps.append(Step(values["seconds"], values["images"], values["bytes"]))
                each(run.steps[-1])
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        run.idle = (_idle_time() - idle_before) / (time.monotonic() - began)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        ended.set()
        looking.join()
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
    run.cpu = max(used.ru_utime + used.ru_stime - at_start, 0.0)
    run.memory = max(run.memory, used.ru_maxrss * 1024)
    # What a process and those that it waited for have read is added to its parent's count.
    run.from_device = _read_from_devices() - before
    return run, process.returncode


def _parse(line: bytes) -> dict[str, Any]:
    """Read a line of a loop; libraries may print lines of their own."""
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _lines_of(path: str) -> list[str]:
    """Return the lines of a small file that may not be there."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _read_from_devices() -> int:
    """Return how many bytes this process, and those that it waited for, read from devices."""
    lines = _lines_of("/proc/self/io")
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes")), 0)


def _stat(pid: str | int) -> list[str]:
    """Return the fields of a process's state, from the third on."""
    lines = _lines_of(f"/proc/{pid}/stat")
    return lines[0].rpartition(")")[2].split() if lines else []


def _cpu_of(pid: int) -> float:
    found = _stat(pid)
    return sum(map(int, found[11:15])) / _TICKS if found else 0.0


def _idle_time() -> float:
    """Return for how long cores of this machine have had nothing to do, all together."""
    ticks = _lines_of("/proc/stat")[0].split()
    return (int(ticks[4]) + int(ticks[5])) / _TICKS


def _look_at_memory(session: int, run: LoopRun, ended: threading.Event) -> None:
    while not ended.wait(_SAMPLE_SECONDS):
        pids = [each for each in os.listdir("/proc") if each.isdigit()]
        ours = [pid for pid in pids if (found := _stat(pid)) and found[3] == str(session)]
        run.memory = max(run.memory, sum(map(_memory_of, ours)))


def _memory_of(pid: str) -> int:
    lines = _lines_of(f"/proc/{pid}/smaps_rollup")
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


@contextmanager
def reached(cell: Cell, copy: str | None) -> Iterator[Sequence[str]]:
    """Yield the data that a loop is given, by the way to it; ``copy`` is where a copy lies."""
    data = cell.data
    if cell.access == "fifo":
        with _pipes(data.files) as pipes:
            yield pipes
    elif cell.access.startswith("cmd:"):
        command = cell.access.removeprefix("cmd:")
        quoted = (shlex.quote(absolute(file)) for file in data.files)
        yield [f"pipe:{command.replace('{url}', file)}" for file in quoted]
    else:
        given = [copy or data.name] if data.format == "folder" else files_of(cell, copy)
        # Whole paths: a file in this directory may be called `--work`, or `pipe:` and a command.
        yield [*map(absolute, given)]


def files_of(cell: Cell, copy: str | None) -> Sequence[str]:
    """Return the files that a loop reads in the end: those of the data set, or of its copy."""
    if copy is None:
        return cell.data.files
    top = copied_from(cell.data)
    return [os.path.join(copy, file.removeprefix(top).lstrip("/")) for file in cell.data.files]


def copied_from(data: BenchData) -> str:
    """Return the directory on S3 that is copied for a data set."""
    if data.format == "folder":
        return data.name.rstrip("/")
    return common_path([*data.files]) if len(data.files) > 1 else os.path.dirname(data.files[0])


@contextmanager
def _pipes(files: Sequence[str]) -> Iterator[list[str]]:
    """Make a named pipe for each file, which gives the file to whoever opens it."""
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="dsprep-bench-") as directory:
        pipes = [os.path.join(directory, f"{at:06}.tar") for at in range(len(files))]
        threads = []
        for pipe, file in zip(pipes, files, strict=True):
            os.mkfifo(pipe)
            threads.append(threading.Thread(target=partial(_feed, file, pipe, over), daemon=True))
            threads[-1].start()
        try:
            yield pipes
        finally:
            over.set()
            for pipe, thread in zip(pipes, threads, strict=True):
                # the thread waits until the pipe has a reader: open it for a moment
                while thread.is_alive():
                    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
                    thread.join(0.01)


def _feed(file: str, pipe: str, over: threading.Event) -> None:
    """Write a file to a pipe, again and again."""
    while not over.is_set():
        # Buffered, as a write without a buffer ends early if a signal comes: bytes would be lost.
        with suppress(DsprepError, OSError), open(pipe, "wb") as out:
            if not over.is_set():
                # The next reader gets another pipe: this one may not have seen its end by then.
                os.mkfifo(f"{pipe}.next")
                os.replace(f"{pipe}.next", pipe)
                with open_file(file) as data:
                    shutil.copyfileobj(data, out, _AT_ONCE)
