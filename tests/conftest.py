"""Fixtures of all tests: the frameworks that judge the shards, and the installed command."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from tests.missing import framework

if TYPE_CHECKING:
    from tests.here import Here

pytest_plugins = ["tests.browser", "tests.hangs", "tests.servers.fixtures"]

# Machines may be busy: how long a test takes says nothing. And what fails is to be of a change, not
# of luck: the examples are always the same; `make fuzz` tries others.
settings.register_profile(
    "dsprep",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("dsprep"), max_examples=500, derandomize=False
)
settings.load_profile("dsprep")

# Read by TensorFlow when it loads, here or in a subprocess: no log lines, no GPU, one way to round.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")


def free_memory() -> int:
    """Return how many bytes of memory may still be taken: of the machine, and of its container."""
    facts = Path("/proc/meminfo").read_text().split()
    free = int(facts[facts.index("MemAvailable:") + 1]) << 10
    with suppress(OSError, ValueError):  # no container, or one without a limit
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{each}").read_text()) for each in ("max", "current")
        )
        free = min(free, limit - used)
    return free


# A run on a disk waits for it (fsync) twice as long as it computes. Directories of tests take some
# hundred megabytes at a time; they are in memory if it has much more room. --basetemp is stronger.
MEMORY = "/dev/shm"
with suppress(OSError, ValueError):
    may_run = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    room = min(shutil.disk_usage(MEMORY).free, free_memory() // 2)
    if may_run and os.access(MEMORY, os.W_OK) and room > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


# Garbage is looked for rarely, as in the command, and never among the collected tests.
gc.set_threshold(50_000)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each reason to skip once, with the number of tests."""
    skipped = (each.longrepr for each in terminalreporter.stats.get("skipped", []))
    reasons = Counter(str(each[2]).removeprefix("Skipped: ") for each in skipped)
    for reason, tests in reasons.items():
        count = "1 test" if tests == 1 else f"{tests} tests"
        terminalreporter.write_line(f"left out: {count}: {reason}", yellow=True)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what `sync` remembers out of the user's cache directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def mxnet() -> ModuleType:
    return framework("mxnet")


@pytest.fixture(scope="session")
def im2rec(mxnet: ModuleType) -> ModuleType:
    """MXNet's `tools/im2rec.py`, which its package holds and does not import."""
    place = Path(str(mxnet.__file__)).parent / "tools" / "im2rec.py"
    spec = importlib.util.spec_from_file_location("im2rec", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tensorflow() -> ModuleType:
    return framework("tensorflow")


@pytest.fixture(scope="session")
def webdataset() -> ModuleType:
    return framework("webdataset")


class Finished(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def command() -> Path:
    """The installed `dsprep`."""
    command = Path(sys.executable).with_name("dsprep")
    assert command.exists(), f"{command} is missing: install dsprep (`make setup`)"
    return command


@pytest.fixture(scope="session")
def run_cli(command: Path) -> Callable[..., Finished]:
    """Call `dsprep` as a shell would: `run_cli("pack", source, dest, "-q")`.

    Whatever a test does to it, it never shows a traceback.
    """

    def run(
        *args: object,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
        under: tuple[str, ...] = (),
    ) -> Finished:
        done = subprocess.run(
            [*under, command, *map(str, args)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def run_here() -> Iterator[Callable[..., Finished]]:
    """Call `dsprep` as `run_cli` does, in this process: `run_here("pack", source, dest, "-q")`."""
    from tests.here import Here

    here = Here()
    yield here
    here.end()


OF_PROCESSES = ("benching", "house", "run", "storage", "syncing", "values", "workers")
"""The rooms whose tests are about processes, or start them."""


@pytest.fixture
def lasting(run_here: Here) -> Iterator[None]:
    """`dsprep.pack` and the others have the workers of `run_here`."""
    with run_here.lasting():
        yield


@pytest.fixture(autouse=True, scope="module")
def _lasting_in_most_rooms(request: pytest.FixtureRequest, run_here: Here) -> Iterator[None]:
    """Spare tests that are about something else the start of workers in each run."""
    room = request.path.relative_to(Path(__file__).parent).parts[0]
    with nullcontext() if room in OF_PROCESSES else run_here.lasting():
        yield


class Running:
    """A command that was started, in a process group of its own, with all its descendants."""

    def __init__(self, command: Path, args: tuple[object, ...]) -> None:
        self._mark = f"DSPREP_TEST={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self.process = subprocess.Popen(
            [command, *map(str, args)],
            env={**os.environ, name: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, timeout: float = 60) -> Finished:
        """Wait for it to end; it has never shown a traceback."""
        out, err = self.process.communicate(timeout=timeout)
        assert "Traceback" not in err, err
        return Finished(self.process.returncode, out, err)

    def family(self) -> list[int]:
        """The ids of it and its descendants that are still alive."""
        return [int(each.name) for each in Path("/proc").glob("[0-9]*") if self._is_of_us(each)]

    def workers(self) -> list[int]:
        """The ids of its worker processes."""
        return [each for each in self.family() if each != self.process.pid]

    def kill(self) -> None:
        """Kill all of the family, some of whom may be ending just now."""
        for process in self.family():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _is_of_us(self, process: Path) -> bool:
        try:
            return self._mark.encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            return False  # it has ended, or is none of ours


@pytest.fixture
def start_cli(command: Path) -> Iterator[Callable[..., Running]]:
    """Start `dsprep` and return at once; what still runs at the end of the test is killed."""
    started: list[Running] = []

    def start(*args: object) -> Running:
        started.append(Running(command, args))
        return started[-1]

    yield start
    for running in started:
        with running.process:  # waits for it, and closes its pipes
            running.kill()
