"""``join`` of folders of files: a tree of all their files, which are linked or copied.

The listings of the folders are read one after another, and make units as other runs of folders
have them. A file that two folders have in the same way is taken once.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from itertools import count
from typing import TypeAlias

from dsprep.dataset.find import DataSet
from dsprep.dataset.joined import joined_folders, merges_classes
from dsprep.dataset.manifest import FileEntry, Manifest
from dsprep.dataset.names import MANIFEST
from dsprep.errors import DestinationError, SourceError
from dsprep.formats.base import TreeFormat
from dsprep.formats.listing import LISTING, Listed, read_listing, taken_error
from dsprep.plan.destination import Destination, parse_destination
from dsprep.plan.job import UNIT_BYTES
from dsprep.progress import Progress
from dsprep.run.complete import publish_beside, publish_manifest
from dsprep.run.finished import damages
from dsprep.run.folder import finish_folder, hashes_twice
from dsprep.run.receipt import Receipt
from dsprep.run.state import RunState
from dsprep.run.target import target_of
from dsprep.storage.stored import crc32c
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

_MOST_SAMPLES = 10_000  # of a unit: small files take as long as their number says


class _Folder(NamedTuple):
    """A data set to join: a folder of files."""

    name: str  # what users call it
    destination: Destination  # where it was written
    metadata: frozenset[str]  # the paths of its files that describe all samples
    numbers: Mapping[int, int]  # what the numbers of its classes become

    @property
    def listing(self) -> str:
        return self.destination.url(self.destination.companion(LISTING).name)


# The numbers of a folder and of a sample in its listing, the folder, and the sample as joined.
_Placed: TypeAlias = tuple[tuple[int, int], _Folder, Listed]


class FolderUnion:
    """The samples of several folders, each of them once."""

    def __init__(self, sets: Sequence[DataSet]) -> None:
        """Read the listings of folders, and refuse files that these cannot have together."""
        self.sets = sorted(sets, key=_first_path)
        whole = joined_folders(self.sets)
        layout = replace(self.sets[0].recorded.layout, schema=whole.schema)
        assert isinstance(layout, TreeFormat)
        self.layout = layout
        self._folders = [_folder_of(each, whole) for each in self.sets]
        self._dropped: frozenset[tuple[int, int]] = frozenset()
        self._numbered = False
        ids, size, samples = array("q"), 0, 0
        twice, above = hashes_twice(self._noting(ids))
        if twice:
            self._dropped = self._repeated(twice, above)
            ids = array("q", (listed.id for _, listed in self.samples()))
        self._numbered = len(set(ids)) < len(ids)
        for _, listed in self.samples():
            samples, size = samples + 1, size + listed.size
        self.whole = replace(
            whole, samples=samples, bytes=size, objects=None if self._dropped else whole.objects
        )

    @property
    def repeated(self) -> int:
        """How many samples are left out, because another folder has the same."""
        return len(self._dropped)

    def samples(self) -> Iterator[tuple[_Folder, Listed]]:
        """Yield each sample as the joined folder has it, with the folder that it comes from."""
        ids = count()
        for place, folder, listed in self._all():
            if place not in self._dropped:
                yield folder, listed._replace(id=next(ids)) if self._numbered else listed

    def units(self) -> Iterator[list[tuple[_Folder, Listed]]]:
        """Yield the samples in units of work."""
        unit: list[tuple[_Folder, Listed]] = []
        size = 0
        for sample in self.samples():
            if unit and (size >= UNIT_BYTES or len(unit) >= _MOST_SAMPLES):
                yield unit
                unit, size = [], 0
            unit.append(sample)
            size += sample[1].size
        yield unit

    def require_whole(self) -> None:
        """Refuse folders that lack a file, or have one of another size."""
        for each, folder in zip(self.sets, self._folders, strict=True):
            with _as_source():
                wrong = damages(target_of(folder.destination), each.manifest)
            if wrong:
                name, why = wrong[0]
                raise SourceError(
                    f"{folder.destination.url(name)}: {why}; check it with dsprep verify "
                    f"{folder.name}"
                )

    def _all(self) -> Iterator[_Placed]:
        # Those of folders are in the order of their paths, and so are those of one machine.
        yield from merge(*map(_placed, count(), self._folders), key=_path_of)

    def _noting(self, ids: array[int]) -> Iterator[Listed]:
        for _, _, listed in self._all():
            ids.append(listed.id)
            yield listed

    def _repeated(self, twice: set[int], above: set[str]) -> frozenset[tuple[int, int]]:
        """Return the places of samples that an earlier folder has; refuse those that differ."""
        found: dict[str, tuple[_Folder, Listed]] = {}
        repeated = set()
        for place, folder, listed in self._all():
            paths = [file.path for file in listed.files if hash(file.path) in twice]
            for path in paths:
                if path in above:
                    raise taken_error(listed.key, path)
                before, known = found.setdefault(path, (folder, listed))
                if known is listed:
                    continue
                if before is folder or known._replace(id=0) != listed._replace(id=0):
                    raise _differs(folder, before, path, listed, known)
                repeated.add(place)
        return frozenset(repeated)


def _placed(number: int, folder: _Folder) -> Iterator[_Placed]:
    """Yield the samples of a folder."""
    with _listing_errors(folder):
        for position, listed in enumerate(read_listing(folder.listing)):
            yield (number, position), folder, _as_joined(folder, listed)


def _path_of(placed: _Placed) -> str:
    listed = placed[2]
    return listed.files[0].path if listed.files else listed.key


def _first_path(one: DataSet) -> tuple[str, str]:
    """Return what folders are put in order by: the first path in each, then its manifest."""
    destination = _destination_of(one)
    listing = destination.url(destination.companion(LISTING).name)
    with _listing_errors(_Folder(one.name, destination, frozenset(), {})):
        first = next(read_listing(listing), None)
    return first.key if first else "", one.manifest.digest


def _destination_of(one: DataSet) -> Destination:
    path = one.path.removesuffix(f".{MANIFEST}")
    return parse_destination(path, one.manifest.format)[0]


def _folder_of(one: DataSet, whole: Manifest) -> _Folder:
    folder = _Folder(one.name, _destination_of(one), frozenset(), {})
    layout = one.recorded.layout
    assert isinstance(layout, TreeFormat)
    with _listing_errors(folder):
        lines = layout.metadata_lines(lambda: read_listing(folder.listing), Counter())
        metadata = frozenset(path for path, _ in lines)
    numbers: dict[int, int] = {}
    if merges_classes(one.manifest) and whole.classes is not None:
        places = {name: number for number, name in enumerate(whole.classes)}
        own = one.manifest.classes or ()
        numbers = {number: places[name] for number, name in enumerate(own)}
    return folder._replace(metadata=metadata, numbers=numbers)


def _as_joined(folder: _Folder, listed: Listed) -> Listed:
    """Return a sample without the files that describe all, its class having the new number."""
    if any(file.path in folder.metadata for file in listed.files):
        own = tuple(file for file in listed.files if file.path not in folder.metadata)
        listed = listed._replace(files=own)
    if isinstance(listed.label, int) and folder.numbers:
        listed = listed._replace(label=folder.numbers.get(listed.label, listed.label))
    return listed


def _differs(
    folder: _Folder, before: _Folder, path: str, listed: Listed, known: Listed
) -> SourceError:
    """Return the error for two samples that have a file of one path, and are not the same."""
    if before is folder:
        return SourceError(f"{folder.listing}: lists {path} twice; check it with dsprep verify")
    own = {file.path: (file.bytes, file.crc32c) for file in known.files}
    file = next(file for file in listed.files if file.path == path)
    is_same = own.get(path) == (file.bytes, file.crc32c)
    what = "with another label or other fields" if is_same else "with other bytes"
    return SourceError(
        f"{folder.destination.url(folder.destination.in_folder(path))}: {before.name} has this "
        f"file {what}; rename or remove one of them, and convert that folder again"
    )


@contextmanager
def _listing_errors(folder: _Folder) -> Iterator[None]:
    """Raise SourceError for a listing that is missing or damaged."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SourceError(
            f"{folder.listing}: cannot be read ({why}); check it with dsprep verify {folder.name}"
        ) from None


@contextmanager
def _as_source() -> Iterator[None]:
    try:
        yield
    except DestinationError as error:
        raise SourceError(str(error)) from None


def write_units(union: FolderUnion, state: RunState, progress: Progress) -> list[str]:
    """Link or copy what is not done to the destination; return the names of all units."""
    target, names = state.target, list[str]()
    state.share_units()
    for number, unit in enumerate(union.units()):
        name = f"units-{number:06d}"
        names.append(name)
        if name in state.done:
            continue
        data = b"".join(listed.to_json() for _, listed in unit)
        target.partial(name).write_bytes(data)
        receipt = FileEntry(target.listing(name), len(data), crc32c(data))
        urls = {
            file.path: folder.destination.url(folder.destination.in_folder(file.path))
            for folder, listed in unit
            for file in listed.files
        }
        state.hold.check()
        written = Receipt(len(unit), [receipt])
        target.leave(name, written, urls)
        state.done[name] = written
        progress.advance(len(unit), sum(listed.size for _, listed in unit))
    return names


def finish(
    union: FolderUnion, names: Iterable[str], state: RunState, beside: Mapping[str, bytes]
) -> None:
    """Give the joined folder its name, and write what stands beside it, the manifest last."""
    whole, target = union.whole, state.target
    finished = finish_folder(union.layout, names, state.units, target, whole.classes, Counter())
    files = publish_beside(target, {**finished.companions, **beside})
    publish_manifest(state, replace(whole, bytes=finished.size, files=[finished.listing, *files]))


def notes_on(union: FolderUnion) -> list[str]:
    """Return what the report says of samples that several folders have."""
    if not union.repeated:
        return []
    repeated = format_count(union.repeated, "sample")
    return [f"{repeated} left out, because another folder has the same"]
