"""Run a command whole and tell what it took: time, processor time, memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Command = tuple[str, ...]

# Programs that are installed have been compiled; where nothing may be cached, each run would do it.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}

_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.01
_MESSAGE_CHARS = 1000


class CommandError(Exception):
    """A command did not end with exit code 0; the text is the end of what it said."""


@dataclass(frozen=True)
class Run:
    """One timed run. All in seconds.

    Attributes:
        wall: From the start of the first command to the exit of the last.
        durable: The same, until a `sync` that follows has written everything to the disk.
        cpu: User and system time of all its processes.
    """

    wall: float
    durable: float
    cpu: float


@dataclass
class Memory:
    """Peak memory of one run, in bytes.

    Attributes:
        total: Largest sum of all processes at one time, pages shared among them counted once (PSS).
        workers: Peak resident set (RSS) of each process but the first of each command, by pid.
    """

    total: int = 0
    workers: dict[int, int] = field(default_factory=dict)

    @property
    def worker(self) -> int:
        """The largest worker's peak resident set."""
        return max(self.workers.values(), default=0)


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of descendants whose own parent ends, so that their time is counted."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


@contextmanager
def disowned() -> Iterator[None]:
    """What starts meanwhile and goes into the background is none of ours."""
    adopt_orphans(False)
    try:
        yield
    finally:
        adopt_orphans()


def time_run(commands: Sequence[Command], cwd: Path, env: Mapping[str, str] | None = None) -> Run:
    """Run commands one after the other and measure their time.

    Everything written before is on the disk when the clock starts, so that no run pays for another.

    Args:
        commands: The commands.
        cwd: Where they run.
        env: Variables to add to the environment.

    Raises:
        CommandError: If one fails.
    """
    os.sync()
    cpu = _cpu_of_children()
    start = time.perf_counter()
    for command in commands:
        ended_well(command, cwd, env)
    wall = time.perf_counter() - start
    os.sync()
    durable = time.perf_counter() - start
    _reap()
    return Run(*(round(value, 4) for value in (wall, durable, _cpu_of_children() - cpu)))


def touch_memory(size: int) -> None:
    """Use as much memory, and free it.

    A virtual machine that has given free memory back to its host gets it again page by page, which
    takes longer than what is measured. Memory that is in use is not taken away from anybody.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    if size := min(size, free * 9 // 10):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, size, flags=flags).close()


def ended_well(command: Command, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a command; the arguments are those of `time_run`.

    Raises:
        CommandError: If it fails.
    """
    _run(command, cwd, env, lambda process: process.wait())


def memory_of_run(
    commands: Sequence[Command], cwd: Path, env: Mapping[str, str] | None = None
) -> Memory:
    """Run commands one after the other and sample their memory.

    Sampling slows a run down, which is why this one is not timed. The arguments are those of
    `time_run`.

    Raises:
        CommandError: If one fails.
    """
    memory = Memory()

    def sample(process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            _sample(process.pid, memory)
            time.sleep(_SAMPLE_SECONDS)

    for command in commands:
        _run(command, cwd, env, sample)
    _reap()
    return memory


def _run(
    command: Command,
    cwd: Path,
    env: Mapping[str, str] | None,
    watch: Callable[[subprocess.Popen[bytes]], object],
) -> None:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**ENVIRONMENT, **(env or {})},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        watch(process)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-_MESSAGE_CHARS:]
            raise CommandError(f"exit code {process.returncode}: {said.strip()}")


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap() -> None:
    """Wait for adopted processes: only then is their time added to the children's."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def _sample(first: int, memory: Memory) -> None:
    total = 0
    for pid in _descendants(os.getpid()):
        peak = _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM:")
        total += _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:")
        if pid == first:
            # Exact where there is one process; the samples may miss its peak.
            memory.total = max(memory.total, peak)
        else:
            # The last value, not the largest: before its exec, a child shows its parent's memory.
            memory.workers[pid] = peak or memory.workers.get(pid, 0)
    memory.total = max(memory.total, total)


def _descendants(ancestor: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            # pid (name) state ppid …, and the name may hold blanks and parentheses.
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found = list(children.get(ancestor, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    yield from found


def _kilobytes(path: Path, name: str) -> int:
    """A value of a /proc file of `Name:  123 kB` lines, in bytes; 0 once the process has ended."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
