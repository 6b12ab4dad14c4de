"""Calls on the machines of a cluster, which may die, or fall silent and come back.

A call whose worker is lost is tried again, elsewhere if possible. So a call may run more than once,
even at the same time; the first try to end counts. Each try tells now and then what it has done so
far; what earlier tries have told already is not reported again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeVar

from dsprep.errors import DestinationError, DsprepError, OptionError, SourceError
from dsprep.opening import began_in
from dsprep.progress import WAITS
from dsprep.tuples import NamedTuple
from dsprep.workers.executor import Executor, WorkerFailed, WorkerLost
from dsprep.workers.worker import Report, name_machine

R = TypeVar("R")

BEAT = 1.0  # seconds between two signs of life of a try
SILENT_AFTER = 30.0  # seconds without one after which a call is tried elsewhere, too
BEGINS_WITHIN = 60.0  # the same before the first sign: a try may also wait for a free core
_MOST_TRIES = 4
_LOOK_EVERY = 0.5  # seconds between two looks at the signs of life


class Call(NamedTuple):
    """A call, as plain data; ``number`` is that of the try."""

    number: int
    function: tuple[str, str]  # its module and its name
    argument: object
    directory: str  # the working directory of the driver, for relative paths
    reports: bool = False
    # function that a process calls once, before its first call of the run
    first: Call | None = None


class Sign(NamedTuple):
    """A sign of life of a try: where it runs, what it has done so far, and what it waits for."""

    machine: str
    done: Sequence[Any] = ()  # the arguments of all reports, added up
    waits: str = ""


class Answer(NamedTuple):
    """The result of a try at a call."""

    kind: str  # "done", "error" (one of dsprep's), "crash" (any other error), "lost" (its worker)
    value: Any
    done: Sequence[Any] = ()


class Machines(Protocol):
    """What a cluster has to offer. A handle stands for a try that was submitted."""

    def cores(self) -> int: ...

    def describe(self) -> str:
        """Return what the cluster is now, such as ``3 nodes, 24 cores``."""

    def submit(self, call: Call, avoid: Collection[str] = ()) -> Any:
        """Begin a try, if possible not on these machines; returns its handle."""

    def everywhere(self, call: Call) -> list[Answer]:
        """Make a call on each machine that answers now."""

    def wait(self, handles: Sequence[Any], seconds: float) -> Sequence[Any]:
        """Wait until one of them has ended, at most so long; returns those that have."""

    def answer(self, handle: Any) -> Answer:
        """Return how a try has ended."""

    def signs(self, needless: Collection[int]) -> Mapping[int, Sign]:
        """Return the last sign of each try that has given one since this was asked last.

        Tries with ``needless`` numbers end at once if they have not begun.
        """

    def close(self) -> None:
        """End all tries."""


class _Try:
    def __init__(self, position: int, number: int) -> None:
        self.position, self.number = position, number
        self.machine = ""  # name of the machine, known after the first sign of life
        self.seen, self.is_silent = time.monotonic(), False

    def falls_silent(self, now: float) -> bool:
        """Return whether it has given no sign of life for too long, which is so from now on."""
        patience = SILENT_AFTER if self.machine else BEGINS_WITHIN
        self.is_silent = now - self.seen > patience
        return self.is_silent


class _Tries:
    """The calls of a run that have not ended, and the tries at them."""

    def __init__(
        self, machines: Machines, call: Callable[[object], Call], report: Report | None
    ) -> None:
        """Begin none yet; ``call`` makes a call of an argument."""
        self._machines, self._call, self._report = machines, call, report
        self.calls: dict[int, object] = {}  # the arguments of the calls that have not ended
        self.tries: dict[Any, _Try] = {}  # each try by the handle that the engine gave
        self._begun = Counter[int]()  # the tries at each call
        self._reported: dict[int, Sequence[Any]] = {}  # what was reported of each call

    def begin(self, position: int, argument: object) -> None:
        """Begin the first try at a call."""
        self.calls[position] = argument
        self._attempt(position)

    def look(self) -> None:
        """Hear the signs of tries, and try again what has fallen silent."""
        signs, now = self._machines.signs(self._needless()), time.monotonic()
        for each in list(self.tries.values()):
            if (sign := signs.get(each.number)) is not None:
                each.machine, each.seen, each.is_silent = sign.machine, now, False
                self._tell(each.position, sign.done)
                if sign.waits:
                    WAITS.tell(sign.waits)
            elif each.position in self.calls and not each.is_silent and each.falls_silent(now):
                self._try_again(each, "a worker gave no sign of life")

    def end(self, handle: Any) -> tuple[int, Any] | None:
        """Return the number and the result of the call of a try that has ended.

        None if the call goes on, or has ended by another try.
        """
        this, answer = self.tries.pop(handle), self._machines.answer(handle)
        position = this.position
        if position not in self.calls:
            return None
        if answer.kind == "done":
            self._tell(position, answer.done)
            del self.calls[position]
            return position, answer.value
        if any(it.position == position and not it.is_silent for it in self.tries.values()):
            return None  # an error may only mean that another try has finished the work
        if answer.kind != "lost":
            _value(answer)
        self._try_again(this, answer.value)
        return None

    def _attempt(self, position: int, avoid: Collection[str] = ()) -> None:
        self._begun[position] += 1
        call = self._call(self.calls[position])
        handle = self._machines.submit(call, avoid)
        self.tries[handle] = _Try(position, call.number)

    def _tell(self, position: int, done: Sequence[Any]) -> None:
        """Report what a try has done and no try at the same call has told before."""
        if self._report is None or not done or position not in self.calls:
            return
        before = self._reported.get(position, ())
        if any(new := _beyond(done, before)):
            self._reported[position] = _added(before, new)
            self._report(*new)

    def _try_again(self, this: _Try, why: str) -> None:
        """Try a call again, unless it has been tried often enough."""
        position = this.position
        if self._begun[position] < _MOST_TRIES:
            silent = {each.machine for each in self.tries.values() if each.is_silent}
            self._attempt(position, {this.machine, *silent} - {""})
            return
        # A try that has not begun may wait for a core, for which there is no limit.
        left = [each for each in self.tries.values() if each.position == position]
        if all(each.is_silent and each.machine for each in left):
            raise WorkerLost(
                f"{why}, {self._begun[position]} times; give the same command again to continue",
                position,
            )

    def _needless(self) -> list[int]:
        """Return the tries that have not begun, at calls that have ended or that another makes."""
        tries = self.tries.values()
        alive = {each.position for each in tries if each.machine and not each.is_silent}
        wanted = self.calls.keys() - alive
        unbegun = (each for each in tries if not each.machine)
        return [each.number for each in unbegun if each.position not in wanted]


class Cluster(Executor):
    """The executor on machines that may be lost."""

    is_cluster = True

    def __init__(self, machines: Machines, workers: int | None) -> None:
        """Run up to ``workers`` calls at once; by default one for each core of the machines."""
        if workers is not None and workers < 1:
            raise OptionError(f"--workers {workers}: one at least is needed")
        self._machines, self._workers = machines, workers
        self._first: Call | None = None
        self._submitted = 0

    @property
    def size(self) -> int:
        return self._workers or max(1, self._machines.cores())

    def __str__(self) -> str:
        return self._machines.describe()

    def prepare(self, function: Callable[..., object], argument: object) -> None:
        self._first = self._call(function, argument)
        for answer in self._machines.everywhere(self._first):
            if answer.kind != "lost":  # calls are lost when a machine has just gone
                _value(answer)

    def _call(self, function: Callable[..., object], argument: object, **more: Any) -> Call:
        self._submitted += 1
        name = function.__module__, function.__qualname__
        return Call(self._submitted, name, argument, began_in() or os.getcwd(), **more)

    def run(
        self,
        function: Callable[..., R],
        arguments: Iterable[object],
        report: Report | None = None,
        beat: Callable[[], None] | None = None,
    ) -> Iterator[tuple[int, R]]:
        more = {"reports": report is not None, "first": self._first}
        tries = _Tries(self._machines, partial(self._call, function, **more), report)
        waiting = enumerate(arguments)
        looked = time.monotonic()
        while True:
            while len(tries.calls) < self.size and (following := next(waiting, None)) is not None:
                tries.begin(*following)
            if not tries.calls:
                return
            ended = self._machines.wait(list(tries.tries), _LOOK_EVERY)
            if time.monotonic() - looked >= _LOOK_EVERY:
                looked = time.monotonic()
                tries.look()
                if beat is not None:
                    beat()
            for handle in ended:
                if (result := tries.end(handle)) is not None:
                    yield result

    def close(self) -> None:
        self._machines.close()


def _value(answer: Answer) -> Any:
    """Return the value of an answer, or raise its error."""
    if answer.kind == "error":
        raise answer.value
    if answer.kind != "done":
        raise WorkerFailed(f"a worker failed:\n{answer.value}")
    return answer.value


def _added(one: Sequence[Any], two: Sequence[Any]) -> Sequence[Any]:
    return [a + b for a, b in zip(one, two, strict=True)] if one else list(two)


def _beyond(done: Sequence[Any], told: Sequence[Any]) -> Sequence[Any]:
    """Return what has been done and not been told: numbers, or the last of lists."""
    if not told:
        return done
    pairs = zip(done, told, strict=True)
    return [a[len(b) :] if isinstance(a, list) else max(a - b, 0) for a, b in pairs]


_prepared = set[int]()  # numbers of preparing calls that this process has made


def answer(call: Call, machine: str, name: str, tell: Callable[[int, Sign], None]) -> Answer:
    """Make a call in a worker process, and give signs of life until it has ended.

    ``machine`` identifies the machine; ``name`` is what messages call it.
    """
    name_machine(name)
    with suppress(OSError):  # then what is read and written must have absolute paths
        os.chdir(call.directory)
    try:
        with _signs(call.number, machine, tell) as report:
            if call.first is not None and call.first.number not in _prepared:
                _invoke(call.first)
                _prepared.add(call.first.number)
            value = _invoke(call, *([report] if call.reports else []))
            return Answer("done", value, report.done)
    except DsprepError as error:
        # It may be wrong on one machine only.
        if isinstance(error, SourceError | DestinationError) and name not in str(error):
            error.args = (f"{error.args[0]} (on {name})", *error.args[1:])
        return Answer("error", error)
    except MemoryError:
        full = f"a worker on {name} ran out of memory; try fewer --workers"
        return Answer("error", DsprepError(full))
    except BaseException:
        import traceback  # slow to load

        return Answer("crash", f"on {name}:\n{traceback.format_exc()}")


def _invoke(call: Call, *more: Any) -> Any:
    module, name = call.function
    return getattr(import_module(module), name)(call.argument, *more)


class _Done:
    """Adds up what a call reports."""

    done: Sequence[Any] = ()

    def __call__(self, *done: Any) -> None:
        self.done = _added(self.done, done)


@contextmanager
def _signs(number: int, machine: str, tell: Callable[[int, Sign], None]) -> Iterator[_Done]:
    report, over, waits = _Done(), threading.Event(), [""]

    def beat() -> None:
        while True:
            with suppress(Exception):  # the driver is gone, and this process ends soon
                tell(number, Sign(machine, report.done, waits[0]))
            waits[0] = ""
            if over.wait(BEAT):
                return

    WAITS.listen(lambda text: waits.__setitem__(0, text))
    thread = threading.Thread(target=beat, name="signs of life", daemon=True)
    thread.start()
    try:
        yield report
    finally:
        over.set()
        thread.join()
