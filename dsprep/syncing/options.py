"""The options of ``sync``.

Importing this must stay cheap: ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import Options, field, option
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.storage.s3.config import S3Config

_run = partial(option, "Run")
_files = partial(option, "Files")
_transfers = partial(option, "Transfers")


class Rule(NamedTuple):
    """One ``--include`` or ``--exclude``."""

    include: bool  # whether the filter includes or excludes files
    pattern: str  # `*` is anything, slashes included; `?` one character; `[ab]` one of these


class SyncOptions(Options):
    """The options of ``sync``."""

    source: AnyPath = field(kw_only=False)
    destination: AnyPath = field(kw_only=False)
    rules: Sequence[Rule] = ()  # the command line has --include and --exclude
    size_only: bool = _files("Treat files of the same size as equal.", default=False)
    delete: bool = _files("Delete files that SRC lacks, if all else succeeded.", default=False)
    max_delete: int | None = _files(
        "Do nothing if more than N files would be deleted.", metavar="N", least=0
    )
    verify: bool = _files(
        "Prove all files by their checksums on S3, including those that this run did not send. "
        "Unchanged local files are read again.",
        default=False,
    )
    follow_links: bool = _files("Follow links in SRC (default), or exclude them.", default=True)
    concurrency: int | None = _transfers("Requests at once.  [default: 8]")
    part_size: int | str | None = _transfers("Size of parts.  [default: 32MiB, or what it takes]")
    bandwidth: float | None = _transfers("Maximum total speed, such as 50MB/s.")
    abort_on_exit: bool = _transfers(
        "Abort unfinished transfers when stopped, instead of keeping them to resume.", default=False
    )
    dry_run: bool = _run("Print what would be done, write nothing.", default=False)
    config: S3Config | None = None  # how S3 is reached, and how objects are kept there
    events: Callable[..., object] | None = None  # called with each event and its facts
