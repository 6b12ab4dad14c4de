"""The names that samples get in a folder, and its list: pure functions on what listings say."""

from __future__ import annotations

from collections.abc import Iterable

from dsprep.formats.folder import METADATA, Listed
from dsprep.formats.names import cut_stem
from dsprep.lst import fits_lst, format_lst


class Names:
    """Chooses the name of each sample of a folder, one after the other: the first come keep theirs.

    A name that another file or directory has gets a number: ``a.jpg``, ``a_1.jpg``. So do all files
    of that sample. A directory that has the name of a file gets one, too.
    """

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._directories: dict[str, str] = {"": ""}
        self._made = {""}
        self._numbers: dict[str, int] = {}

    def choose(self, sample: Listed) -> Listed:
        """The sample under the name that it gets."""
        directory, _, name = sample.stem.rpartition("/")
        chosen = self._directory(directory)
        stem = wanted = f"{chosen}/{name}" if chosen else name
        endings = [file.path[len(sample.stem) :] for file in sample.files]
        longest = max(len(ending.encode()) for ending in endings)
        while any(self._is_taken(stem + ending) for ending in endings):
            stem = _numbered(wanted, self._next(wanted), longest)
        self._files.update(stem + ending for ending in endings)
        if stem == sample.stem:
            return sample
        files = tuple(
            file._replace(path=stem + ending)
            for file, ending in zip(sample.files, endings, strict=True)
        )
        return sample._replace(stem=stem, files=files, wanted=sample.wanted or sample.files[0].path)

    def _is_taken(self, path: str) -> bool:
        is_reserved = path.rpartition("/")[2] == METADATA
        return is_reserved or path in self._files or path in self._made

    def _directory(self, wanted: str) -> str:
        """The directory that stands for one: itself, unless a file has its name."""
        chosen = self._directories.get(wanted)
        if chosen is None:
            above, _, name = wanted.rpartition("/")
            above = self._directory(above)
            plain = chosen = f"{above}/{name}" if above else name
            while chosen in self._files:
                chosen = _numbered(plain, self._next(plain), 0)
            self._directories[wanted] = chosen
            self._made.add(chosen)
        return chosen

    def _next(self, wanted: str) -> int:
        number = self._numbers[wanted] = self._numbers.get(wanted, 0) + 1
        return number


def _numbered(stem: str, number: int, room: int) -> str:
    suffix = f"_{number}"
    return cut_stem(stem, room + len(suffix)) + suffix


def format_list(samples: Iterable[Listed]) -> tuple[str, int]:
    """The ``.lst`` of a folder."""
    rows = [(each.id, each.label, each.files[0].path) for each in samples]
    kept = [
        (id, (label,) if isinstance(label, int) else label, path)
        for id, label, path in rows
        if label is not None and fits_lst(path)
    ]
    if not any(label is not None for _, label, _ in rows):
        return "", 0
    ids = [id for id, _, _ in kept]
    if len(set(ids)) < len(ids):
        ids = list(range(len(ids)))
    labels = [label for _, label, _ in kept]
    return format_lst(ids, labels, [path for _, _, path in kept]), len(rows) - len(kept)
