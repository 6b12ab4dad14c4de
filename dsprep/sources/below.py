"""The files below a directory, wherever that is: a disk is scanned, S3 gives a listing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread

from dsprep.sources.objects import scan_objects
from dsprep.sources.scan import RunAll, Scanned, scan
from dsprep.storage.urls import is_s3


def scan_below(
    root: str,
    extensions: frozenset[str] | None,
    run_all: RunAll = map,
    only: Collection[str] | None = None,
) -> Iterator[Scanned]:
    """Find the images below a directory; see :func:`dsprep.sources.scan.scan`."""
    if is_s3(root):
        return scan_objects(root, extensions, only)
    return scan(root, extensions, run_all, only)


@contextmanager
def importing_polars() -> Iterator[None]:
    """Import polars meanwhile, which takes a quarter of a second."""

    def load() -> None:
        with suppress(BaseException):  # it will fail again where it is used
            import_module("polars")

    importing = Thread(target=load)
    importing.start()
    try:
        yield
    finally:
        importing.join()
