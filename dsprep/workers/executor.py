"""What runs plain functions on plain data: processes of this machine, or a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

from dsprep.errors import RunStopped
from dsprep.workers.worker import Report

R = TypeVar("R")


class Executor(ABC):
    """Runs functions elsewhere; use it as a context manager, which ends what still runs.

    Functions must be importable by name, and their arguments and results picklable.
    """

    is_cluster = False  # whether calls may run on other machines, and more than once

    @property
    @abstractmethod
    def size(self) -> int:
        """The maximum number of calls that run at once."""

    @abstractmethod
    def run(
        self,
        function: Callable[..., R],
        arguments: Iterable[object],
        report: Report | None = None,
        beat: Callable[[], None] | None = None,
    ) -> Iterator[tuple[int, R]]:
        """Call a function with each of the arguments, and with a `Report` if one is given."""
        # Results come with the position of their argument. `beat` is called about once a second,
        # also while no worker reports anything.

    def map(
        self,
        function: Callable[..., R],
        arguments: Iterable[object],
        report: Report | None = None,
        beat: Callable[[], None] | None = None,
    ) -> list[R]:
        """Call a function with each of the arguments; the results are in their order."""
        results = dict(self.run(function, arguments, report, beat))
        return [results[position] for position in range(len(results))]

    def prepare(self, function: Callable[..., object], argument: object) -> None:
        """Let each other machine call this before all else, those that come later as well."""
        raise NotImplementedError  # this executor has no machines

    @abstractmethod
    def close(self) -> None:
        """End what still runs: it holds nothing that another run would not find."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WorkerFailed(RuntimeError):
    """A bug, or a value that no check has refused, ended a worker; the text is its traceback."""


class WorkerLost(RunStopped):
    """Each try at a call has ended with its worker; ``position`` is that of its argument."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position
