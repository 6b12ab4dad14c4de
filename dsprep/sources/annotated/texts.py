"""Annotations in a file for each image, as YOLO and Pascal VOC have them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dsprep.annotations.objects import Objects
from dsprep.errors import DamagedFiles
from dsprep.sources.annotated.annotated import Annotations, some_lines
from dsprep.storage.files import read_sized
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll


class ToldByFile(NamedTuple):
    """What a file tells, in brief."""

    objects: int  # how many it tells
    size: int  # the bytes that these take as JSON, at most, besides the boxes
    classes: Collection[Any]  # classes that objects have
    facts: Mapping[str, int]  # what else is there, and how often
    image: Any = None  # what it tells of the whole image


class Texts(Annotations):
    """Annotations in a file for each image: a place is its path below a root, and its size.

    Or, if the file lies in an archive, its content.
    """

    root: str

    @abstractmethod
    def parse(self, data: bytes) -> Objects:
        """Return the objects that a file tells."""

    @abstractmethod
    def look(self, data: bytes) -> ToldByFile:
        """Return what a file tells."""

    def data(self, place: tuple[str, int | bytes]) -> bytes:
        path, size = place
        if isinstance(size, bytes):
            return size
        found = read_sized(f"{self.root.rstrip('/')}/{path}", size)
        if found is None:
            raise ValueError(f"{path} has changed: it had {size} bytes when it was listed")
        return found

    def opened(self, places: Sequence[Any]) -> AbstractContextManager[Callable[[int], Objects]]:
        return nullcontext(lambda at: self.parse(self.data(places[at])))


@dataclass
class TextsSummary:
    """Counts, sizes and problems of the files of annotations, in the order of the files."""

    counts: list[int] = field(default_factory=list)  # how many objects each tells
    # the bytes that these take as JSON, at most, besides the boxes
    texts: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    classes: set[Any] = field(default_factory=set)  # classes that objects have
    facts: Counter[str] = field(default_factory=Counter)  # what else is there, and how often
    images: list[Any] = field(default_factory=list)  # what each tells of the whole image
    problems: list[str] = field(default_factory=list)  # what is wrong with some files
    damaged: list[str] = field(default_factory=list)  # these files

    @property
    def digest(self) -> str:
        return sha256(b"".join(self.digests)).hexdigest()


_FILES_AT_ONCE = 512  # files that a worker looks at in a call


def look_at(
    annotations: Texts, places: Sequence[tuple[str, int | bytes]], run_all: RunAll
) -> TextsSummary:
    """Read the files of annotations; refuse them if any is damaged."""
    starts = range(0, len(places), _FILES_AT_ONCE)
    tasks = [(annotations, places[start : start + _FILES_AT_ONCE]) for start in starts]
    found = TextsSummary()
    for part in run_all(look_at_some, tasks):
        found.counts += part.counts
        found.texts += part.texts
        found.digests += part.digests
        found.classes |= part.classes
        found.facts.update(part.facts)
        found.images += part.images
        found.problems += part.problems
        found.damaged += part.damaged
    if found.problems:
        count = len(found.problems)
        raise DamagedFiles(
            f"{annotations.root}: {format_count(count, 'file')} of annotations cannot be read: "
            f"correct or remove {'it' if count == 1 else 'them'}:",
            *some_lines(found.problems, count),
            paths=found.damaged,
        )
    return found


def look_at_some(task: tuple[Texts, Sequence[tuple[str, int | bytes]]]) -> TextsSummary:
    """Read some files of annotations, in a worker."""
    annotations, places = task
    digest, found = sha256(), TextsSummary()
    for path, size in places:
        try:
            data = annotations.data((path, size))
            look = annotations.look(data)
        except (ValueError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            found.problems.append(f"{path}: {why}")
            found.damaged.append(path)
            continue
        digest.update(b"%s\0%d\0" % (path.encode("utf-8", "surrogateescape"), len(data)))
        digest.update(data)
        found.counts.append(look.objects)
        found.texts.append(look.size)
        found.classes.update(look.classes)
        found.facts.update(look.facts)
        found.images.append(look.image)
    found.digests.append(digest.digest())
    return found
