"""``verify`` of a data set on S3: by what HEADs tell of its files, or by reading them back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from dsprep.errors import StoreError
from dsprep.progress import Progress
from dsprep.storage.base import FATAL, Stored, ignore
from dsprep.storage.pace import Pace
from dsprep.storage.parts import Range
from dsprep.storage.proof import known_crc32c
from dsprep.storage.readback import read_back
from dsprep.units import format_count, format_size, format_some
from dsprep.verifying.inspection import Problem
from dsprep.verifying.listed import claims_of_folder
from dsprep.verifying.published import Claim, Published, find_published
from dsprep.verifying.receipts import difference, false_totals
from dsprep.verifying.report import VerifyReport

_AT_ONCE = 16
"""Requests."""


@dataclass
class _File:
    """A file that should be there, and what was found out about it."""

    claim: Claim  # what it should be
    stored: Stored | None = None  # what is there; None if nothing is, or nobody knows
    by: str = ""  # what shows that it is right, as in the report
    wrong: str = ""  # what is wrong with it; empty if nothing is
    doubted: str = ""  # what was wrong by the server's checksum, before its bytes were read

    def look(self, published: Published) -> None:
        """Compare it by a HEAD."""
        place, file = published.place, self.claim.file
        try:
            self.stored = place.store.stat(place.key(file.name))
        except StoreError as error:
            if error.kind in FATAL:
                raise
            self.wrong = _without_url(error, place.url(file.name))
            return
        if self.stored is None:
            self.wrong = "is in the manifest, but not there"
            return
        crc32c, self.by = known_crc32c(self.stored) or (None, "size")
        self.wrong = difference(file, self.stored.size, crc32c)
        if self.wrong and self.by == "metadata" and self.has_size:
            self.wrong += ", as its metadata has it"

    @property
    def is_doubtful(self) -> bool:
        """Whether only the server's checksum tells that it is another file."""
        return bool(self.wrong and self.by == "checksum" and self.has_size)

    @property
    def has_size(self) -> bool:
        """Whether it is as large as it should be."""
        return self.stored is not None and self.stored.size == self.claim.file.bytes

    def compare_bytes(self, crc32c: int | StoreError, url: str) -> None:
        """Compare it by its bytes, whatever a HEAD has told."""
        self.by = "download"
        if isinstance(crc32c, StoreError):
            self.wrong = _without_url(crc32c, url)
        else:
            self.wrong = difference(self.claim.file, self.claim.file.bytes, crc32c)


def verify_stored(dest: str, download: bool, progress: Progress) -> VerifyReport:
    """Verify what manifests on S3 name."""
    began = time.monotonic()
    named = find_published(dest)
    pace = Pace(_AT_ONCE)
    try:
        reports = [_verify(each, download, pace, progress) for each in named.sets]
    finally:
        pace.stop()
        pace.close()
    proof = sum((each.proof for each in reports), Counter[str]())
    return VerifyReport(
        destination=dest,
        format=" and ".join(dict.fromkeys(each.layout.name for each in named.sets)),
        manifest=True,
        shards=sum(each.shards for each in reports),
        samples=sum(each.samples for each in reports),
        bytes=sum(each.bytes for each in reports),
        checked=_checked(reports, proof),
        problems=[*chain.from_iterable(each.problems for each in reports), *named.problems],
        seconds=time.monotonic() - began,
        proof=proof,
        notes=list(chain.from_iterable(each.notes for each in reports)),
    )


def _checked(reports: Sequence[_Found], proof: Counter[str]) -> list[str]:
    if not reports:  # no manifest could be read
        return ["manifest"]
    return ["manifest", "sizes", *([] if set(proof) == {"size"} else ["checksums"])]


@dataclass(frozen=True)
class _Found:
    """What was found of one data set; as in the report."""

    shards: int
    samples: int
    bytes: int
    problems: Sequence[Problem]
    proof: Counter[str]
    notes: Sequence[str]


def _verify(published: Published, download: bool, pace: Pace, progress: Progress) -> _Found:
    """Verify one data set."""
    problems = list(_problems_of_set(published))
    files = [_File(claim) for claim in published.claims()]
    is_folder = published.layout.is_tree
    if is_folder:
        claims, wrong = claims_of_folder(published)
        files += map(_File, claims)
        problems += wrong
    told = _shared(progress.advance)
    progress.begin("verifying", sum(file.claim.samples for file in files), 0)
    try:

        def look(file: _File) -> None:
            file.look(published)
            if not download:
                told(file.claim.samples, 0)

        pace.each(look, files)
        for file in files:
            file.doubted = file.wrong if file.is_doubtful else ""
        doubted = [file for file in files if file.doubted]
        _read_back(published, files if download else doubted, pace, told if download else ignore)
    finally:
        progress.end()
    url = published.place.url
    problems += [
        Problem(url(each.claim.file.name), None, "", each.wrong) for each in files if each.wrong
    ]
    data = [each for each in files if each.claim.is_data and each.stored]
    return _Found(
        shards=0 if is_folder else len(data),
        samples=sum(each.claim.samples for each in data if not each.wrong),
        bytes=sum(each.stored.size for each in data if each.stored),
        problems=problems,
        proof=Counter(each.by for each in files if not each.wrong),
        notes=list(_notes(doubted)),
    )


def _notes(doubted: Sequence[_File]) -> Iterator[str]:
    """Say which files were read back, as the server's checksum is not that of the manifest."""
    right = sorted(file.claim.file.name for file in doubted if not file.wrong)
    if doubted:
        size = format_size(sum(file.claim.file.bytes for file in doubted))
        count = format_count(len(doubted), "file")
        yield f"{count} read back ({size}), whose checksum on the server is not the manifest's"
    if right:
        yield f"the server keeps a wrong checksum, and the bytes are right: {format_some(right)}"


def _problems_of_set(published: Published) -> Iterator[Problem]:
    place = published.place
    if published.scratch in place.deeper:
        message = "an unfinished run is there: give its command again"
        yield Problem(place.url(published.scratch + "/"), None, "", message)
    if not published.layout.is_tree:
        for message in false_totals(published.manifest):
            yield Problem(place.url(published.manifest_name), None, "", message)


def _read_back(
    published: Published, files: Sequence[_File], pace: Pace, told: Callable[[int, int], None]
) -> None:
    """Read all files back that can be what they should be."""
    place = published.place
    left = [(file, file.stored) for file in files if file.stored is not None and file.has_size]

    def on_part(index: int, part: Range) -> None:
        (file, stored), end = left[index], part.start + part.size
        before, after = (file.claim.samples * at // stored.size for at in (part.start, end))
        told(after - before, part.size)

    for listener in (on_part, ignore):  # what seems wrong is read again: it may be the network
        values = read_back(place.store, [stored for _, stored in left], pace, listener)
        for (file, _), value in zip(left, values, strict=True):
            file.compare_bytes(value, place.url(file.claim.file.name))
        left = [each for each in left if each[0].wrong]


def _shared(advance: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Let several threads call what tells progress."""
    lock = threading.Lock()

    def told(samples: int, size: int) -> None:
        with lock:
            advance(samples, size)

    return told


def _without_url(error: StoreError, url: str) -> str:
    """A message to stand behind a file's URL."""
    return str(error).removeprefix(f"{url}: ")
