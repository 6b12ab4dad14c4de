"""The images below a place on S3, from one listing, as a scan of a directory finds them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import Literal

from dsprep.findings import Finding
from dsprep.sources.scan import LEFT_BEHIND, Directory, Scanned
from dsprep.storage.base import Stored
from dsprep.storage.objects import as_source, bucket_and_key, facts_of, prefix_of

_NO_PATH = "an empty part, . or .. in the key is no part of a path"

_Verdict = Literal["taken", "hidden", "passed by", "bad"]


def scan_objects(
    root: str, extensions: frozenset[str] | None, only: Collection[str] | None = None
) -> Iterator[Scanned]:
    """Find the images below a place on S3; the arguments are those of a scan of a directory."""
    with as_source(root):
        store, key = bucket_and_key(root)
        prefix = prefix_of(key)
        listing = _Listing(extensions, only)
        for page in store.list(prefix):
            yield listing.sort(prefix, page)


class _Listing:
    """A listing that is being read, page by page."""

    def __init__(self, extensions: frozenset[str] | None, only: Collection[str] | None) -> None:
        self._extensions, self._only = extensions, only
        self._verdicts: dict[str, _Verdict] = {"": "taken"}
        self._found: list[Directory] = []
        self._findings: list[Finding] = []

    def sort(self, prefix: str, page: list[Stored]) -> Scanned:
        """Tell images from what lies there besides."""
        self._found, self._findings = [], []
        paths: list[str] = []
        sizes, mtimes = array("q"), array("q")
        for stored in page:
            path = stored.key[len(prefix) :]
            if self._takes(path, stored.size):
                size, mtime = facts_of(stored)
                paths.append(path)
                sizes.append(size)
                mtimes.append(mtime)
        return Scanned("\0".join(paths), sizes, mtimes, self._found, self._findings)

    def _takes(self, path: str, size: int) -> bool:
        """Whether an object is an image; if not, what it is instead is noted."""
        directory, _, name = path.rpartition("/")
        verdict = self._verdicts.get(directory) or self._judge(directory)
        if verdict in ("hidden", "passed by") or (not name and not size):
            return False  # an object of no bytes that ends in a slash stands for a directory
        stem, _, extension = name.rpartition(".")
        is_image = self._extensions is None or (
            extension.lower() in self._extensions and stem != ""
        )
        if verdict == "bad" or path[:1] == "/" or name in (".", "..") or "\0" in name:
            kind = "bad-name" if is_image else "not-an-image"
            self._findings.append(Finding(kind, path.replace("\0", "\\x00"), _NO_PATH))
        elif name[:1] == "." or name in LEFT_BEHIND:
            self._findings.append(Finding("hidden", path))
        elif not is_image or not name:
            self._findings.append(Finding("not-an-image", path))
        else:
            return True
        return False

    def _judge(self, directory: str) -> _Verdict:
        """Look at a directory for the first time, after those that it lies in."""
        above, _, name = directory.rpartition("/")
        verdict = self._verdicts.get(above) or self._judge(above)
        if verdict == "taken":
            if directory[0] == "/" or name in ("", ".", "..") or "\0" in name:
                verdict = "bad"
            elif name[0] == "." or name in LEFT_BEHIND:
                verdict = "hidden"
                self._findings.append(Finding("hidden", directory + "/"))
            else:
                self._found.append(Directory(directory))
                if self._only is not None and directory not in self._only:
                    verdict = "passed by"
        self._verdicts[directory] = verdict
        return verdict
