"""Every error that dsprep raises on purpose; anything else that escapes is a bug.

The class decides the exit code; docs/architecture.md has the table. The role of a path decides the
class: what is missing, denied or unreachable is 4 where the command reads and 5 where it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dsprep.printable import visible

REJECTS_EXIT_CODE = 3
INTERRUPTED_EXIT_CODE = 130


class DsprepError(Exception):
    """Root of the errors that a user can cause and can fix.

    The message names the file, says what is wrong with it and what to do. Each argument is a line
    of it: a line break in one of them is part of a name, and is escaped like all that names may
    hold and a terminal would obey.
    """

    exit_code = 1

    def __init__(self, message: str, *lines: str) -> None:
        super().__init__(message, *lines)

    def __str__(self) -> str:
        return "\n".join(map(visible, self.args))


class OptionError(DsprepError):
    """An option, or a combination of options, that makes no sense."""

    exit_code = 2


class SourceError(DsprepError):
    """The source is missing, cannot be read, or contradicts itself."""

    exit_code = 4


class OtherVersion(SourceError):
    """A manifest is of another version; where it is not needed, it is taken for absent."""


class UnknownClass(SourceError):
    """A class of the source is not in the file that lists the classes, whose reader names it."""


class DamagedFiles(SourceError):
    """Some files of annotations are damaged: ``paths``, below the directory of all of them."""

    def __init__(self, message: str, *lines: str, paths: Sequence[str] = ()) -> None:
        super().__init__(message, *lines)
        self.paths = paths


class UnclearLabels(OptionError):
    """Several ``columns`` of a table may be the labels."""

    def __init__(self, message: str, *lines: str, columns: Sequence[str] = ()) -> None:
        super().__init__(message, *lines)
        self.columns = columns


class ApartMembers(SourceError):
    """A key comes twice in a tar; ``--from parts`` groups the members of a sample."""


class BadSample(DsprepError):
    """One sample cannot be packed; the message is the reason, and the sample becomes a reject."""

    exit_code = 3


class Misfit(BadSample):
    """A sample does not fit the schema of its data set."""


class BadImage(BadSample):
    """An image's bytes are not a whole image that the run can use."""


class LeftOut(BadSample):
    """A sample that is left out because the user wants that: it is counted, and no reject."""


class DamagedShard(DsprepError):
    """A shard's bytes break its format, from a byte of the decompressed shard on: ``offset``."""

    exit_code = 3

    def __init__(self, path: str, offset: int, problem: str) -> None:
        super().__init__(f"{path}: at byte {offset}: {problem}")
        self.path = path
        self.offset = offset
        self.problem = problem

    def __reduce__(self) -> tuple[type[DamagedShard], tuple[str, int, str]]:
        return DamagedShard, (self.path, self.offset, self.problem)


class DestinationError(DsprepError):
    """The destination refuses: it is in use, holds something else, is not writable, or is full."""

    exit_code = 5


class StoreError(DsprepError):
    """A place for files, such as a bucket on S3, refuses or fails.

    Attributes:
        kind: What a program may want to know: ``missing``, ``denied``, ``exists`` (a condition
            does not hold), ``expired`` (credentials), ``transient`` (throttled, broken, stalled:
            tried again, in vain), ``unsupported`` (the server does not know it), ``gone`` (an
            upload that is not there any more), ``damaged`` (bytes arrived that were not sent),
            ``other``.
        is_final: Whether it has been tried again as often as it may be.
    """

    def __init__(self, message: str, kind: str = "other", *lines: str) -> None:
        super().__init__(message, *lines)
        self.kind = kind
        self.is_final = False

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, ...]]:
        message, *lines = self.args
        return type(self), (message, self.kind, *lines)


class SourceStoreError(SourceError, StoreError):
    """A place on S3 that a command reads refuses or fails."""


class DestinationStoreError(DestinationError, StoreError):
    """A place on S3 that a command writes to refuses or fails."""


class RunStopped(DsprepError):
    """The run ended early but can be continued by giving the command again."""

    exit_code = 6


class Interrupted(RunStopped):
    """The user pressed Ctrl-C, or the process was asked to end."""

    exit_code = INTERRUPTED_EXIT_CODE


@contextmanager
def source_errors(path: object) -> Iterator[None]:
    """Raise errors of the operating system as those of a source."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
