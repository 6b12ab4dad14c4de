"""A directory as a place for files: its keys are the paths below it, with slashes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from dsprep.errors import StoreError
from dsprep.storage.base import Pages, Refused, RefusedKeys, Stored
from dsprep.storage.local import SCRATCH, open_regular

_PAGE = 1000

_KINDS = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "denied",
}


class FolderStore:
    """A directory. Links to files are files, links to directories are not entered."""

    def __init__(self, root: Path) -> None:
        """Take a directory."""
        self.root = root

    def url(self, key: str) -> str:
        """The path of a file."""
        return str(self.root / key)

    def close(self) -> None:
        """Nothing is open."""

    def list(self, prefix: str = "") -> Pages[Stored]:
        """Everything whose key begins so, in order of the keys' bytes."""
        # What lies in other directories than the prefix does need not be looked at.
        above = prefix.rpartition("/")[0]
        top = self._path(above) if above else self.root
        found = [each for each in self._walk(top, above) if each.key.startswith(prefix)]
        found.sort(key=lambda each: os.fsencode(each.key))
        for at in range(0, len(found), _PAGE):
            yield found[at : at + _PAGE]

    def stat(self, key: str) -> Stored | None:
        """What is known about a file; None if there is none, or a directory."""
        try:
            return _stored(key, self._path(key).stat())
        except OSError as error:
            if _KINDS.get(error.errno or 0) == "missing":
                return None
            raise self._error(key, "cannot be looked up", error) from None

    @contextmanager
    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> Iterator[FolderReading]:
        """Read a file, or a range of it; an ETag is not known here."""
        try:
            file = os.fdopen(open_regular(self._path(key)), "rb")
        except OSError as error:
            raise self._error(key, "cannot be read", error) from None
        with file:
            stored = _stored(key, os.fstat(file.fileno()))
            if stored is None:
                raise StoreError(f"{self.url(key)}: is not a file", "missing")
            file.seek(start)
            left = max(0, stored.size - start)
            yield FolderReading(file, stored, left if size is None else min(left, size))

    def put(self, key: str, data: bytes, *, new: bool = False, etag: str = "") -> Stored:
        """Store a small file; as files have no ETag, none can be a condition."""
        final = self._path(key)
        if etag:
            raise StoreError(f"{final}: a directory knows no ETags", "unsupported")
        hidden = self.root / SCRATCH
        temporary = hidden / f"{uuid4().hex}.partial"
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            hidden.mkdir(exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if new:
                os.link(temporary, final)  # which, unlike renaming, takes nobody's place
            else:
                temporary.replace(final)
        except FileExistsError:
            raise StoreError(f"{final}: is there already", "exists") from None
        except OSError as error:
            raise self._error(key, "cannot be written", error) from None
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
                hidden.rmdir()
        return Stored(key, len(data), final.stat().st_mtime)

    def delete(self, keys: Sequence[str]) -> RefusedKeys:
        """Delete files, and the directories that are empty then."""
        refused = []
        for key in keys:
            try:
                path = self._path(key)
                path.unlink(missing_ok=True)
                with suppress(OSError):
                    while (path := path.parent) != self.root:
                        path.rmdir()
            except OSError as error:
                refused.append(Refused(key, self._error(key, "cannot be deleted", error)))
            except StoreError as error:
                refused.append(Refused(key, error))
        return refused

    def _path(self, key: str) -> Path:
        """The file of a key, which cannot be outside of the directory."""
        if any(part in ("", ".", "..", SCRATCH) for part in key.split("/")) or "\0" in key:
            raise StoreError(f"{self.root}: {key!r} cannot be the path of a file in it")
        return self.root / key

    def _walk(self, directory: Path, key: str) -> Iterator[Stored]:
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    name = f"{key}/{entry.name}" if key else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != SCRATCH:
                            yield from self._walk(directory / entry.name, name)
                    elif (found := self._listed(name, entry)) is not None:
                        yield found
        except OSError as error:
            if _KINDS.get(error.errno or 0) != "missing":
                raise self._error(key, "cannot be listed", error) from None

    def _listed(self, key: str, entry: os.DirEntry[str]) -> Stored | None:
        try:
            return _stored(key, entry.stat())
        except FileNotFoundError:  # a broken link, or deleted just now
            return None

    def _error(self, key: str, what: str, error: OSError) -> StoreError:
        kind = _KINDS.get(error.errno or 0, "other")
        return StoreError(f"{self.root / key}: {what} ({error.strerror})", kind)


def _stored(key: str, told: os.stat_result) -> Stored | None:
    """A file; None if it is a directory, a device or the like."""
    return Stored(key, told.st_size, told.st_mtime) if stat.S_ISREG(told.st_mode) else None


class FolderReading:
    """The bytes of a file, or a range of them."""

    def __init__(self, file: BinaryIO, stored: Stored, size: int) -> None:
        """Read so many bytes of a file from where it stands."""
        self._file, self._stored, self._left = file, stored, size

    @property
    def stored(self) -> Stored:
        """What is known about the file."""
        return self._stored

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        try:
            data = self._file.read(min(size, self._left))
        except OSError as error:
            raise StoreError(f"{self._file.name}: cannot be read ({error.strerror})") from None
        if self._left and not data:
            raise StoreError(f"{self._file.name}: ends while it is read; something writes to it")
        self._left -= len(data)
        return data
