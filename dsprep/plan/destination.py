"""The destination of a data set, and the names of its files there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from dsprep.dataset.find import Place, data_set_beside
from dsprep.dataset.manifest import scratch_of
from dsprep.dataset.names import MANIFEST
from dsprep.errors import OptionError
from dsprep.formats import TABLES, format_of_file, lies_with_side, writes_tree
from dsprep.formats.base import NUMBER_IN_NAME
from dsprep.frozen import Frozen
from dsprep.opening import GivenPath, opened
from dsprep.storage.files import canonical
from dsprep.storage.local import stage_for
from dsprep.storage.store import Store, scheme_of, store_of

DEFAULT_NAME = "train"  # the default prefix of names of shards

_ADDRESS = "[a-z][a-z0-9+.-]*://"

_LONGEST_NAME = 200  # bytes of a name: a file name has at most 255, and numbers follow


class Destination(Frozen):
    """A directory of shards, or one file with its companions.

    A directory holds one data set: shards, ``manifest.json``, ``classes.txt``, … . The companions
    of a single file carry its whole name, ``train.rec.manifest.json``, so that ``val.rec`` and
    ``train.tar`` can stand beside it. So do those of a directory that holds shards alone: it is
    ``apart`` from them, and the names of its shards begin with its own.

    Where a store has no rename, the directory is a stage on this machine: files are written there,
    sent, and removed.
    """

    directory: Path  # where all files are written, the manifest among them
    # the name of the one shard, or of the folder; None for numbered shards
    single: str | None = None
    # what is before the names of the files in a store that they are sent to; None if they stay in
    # the directory
    remote: str | None = None
    apart: str | None = None  # the directory in it that holds shards alone; None if there is none

    @property
    def own_name(self) -> str:
        """What the names of companions begin with; empty if they have plain names."""
        return self.single or self.apart or ""

    def companion(self, name: str) -> Path:
        return self.directory / (f"{self.own_name}.{name}" if self.own_name else name)

    def shard(self, name: str) -> str:
        """Return the name that a shard, or an index of shards, has below the directory."""
        return f"{self.apart}/{name}" if self.apart else name

    def in_folder(self, path: str) -> str:
        """Return the name that a file of a folder has below the directory."""
        return f"{self.own_name}/{path}"

    def known_as(self, name: str) -> str:
        """Return the name of a companion that other tools know by a name of their own."""
        return self.companion(name).name if self.apart else name

    @property
    def place(self) -> Path:
        """The directory that the shards lie in."""
        return self.directory / (self.apart or "")

    def may_hold(self, name: str) -> bool:
        """Whether a name, which may come from anywhere, is that of a file of this data set."""
        above, slash, base = name.rpartition("/")
        is_here = not slash or (self.apart is not None and above == self.apart)
        with_side = slash and "/" not in above and above not in ("", ".", "..")
        return (is_here and base not in ("", ".", "..")) or bool(with_side and lies_with_side(base))

    @property
    def stem(self) -> str:
        """The name of the one shard without its suffix; empty for numbered shards."""
        single = self.single or ""
        found = format_of_file(single)
        return (found and single.removesuffix(".gz").removesuffix(found.suffix)) or single

    @property
    def manifest(self) -> Path:
        return self.companion("manifest.json")

    @property
    def scratch(self) -> Path:
        """The directory for an unfinished run's state; there is none when it is done."""
        return self.directory / scratch_of(self.own_name)

    def prefixes_below(self, root: str) -> tuple[str, ...]:
        """Return the prefixes of paths of this data set below a directory."""
        where = os.path.relpath(os.path.realpath(self.directory), os.path.realpath(root))
        if where.split("/")[0] == "..":
            return ()
        below = "" if where == "." else where + "/"
        if not self.own_name:
            return (below,)
        own = [f"{self.apart}/"] if self.apart else []
        own += [f"{self.stem or self.apart}.", f"{self.scratch.name}/"]
        return tuple(below + name for name in own)

    def url(self, name: str) -> str:
        """Return the path of a file, or its address in a store."""
        return str(self.directory / name) if self.remote is None else f"{self.remote}{name}"

    def __str__(self) -> str:
        return self.url(self.own_name)


def require_name(name: str) -> str:
    """Return a prefix of names of shards, or a pattern of them, if files can have it."""
    if not name:
        return name
    if not name.isprintable() or "/" in name or name.startswith("."):
        raise OptionError(f"--name {name!r}: cannot be the beginning of a file name")
    if re.search("[{}]", NUMBER_IN_NAME.sub("", name, count=1)):
        raise OptionError(f"--name {name!r}: braces only hold the number, as in {{i}} or {{i:03d}}")
    if name == "manifest":
        raise OptionError("--name manifest: is the name of another file; choose another")
    if len(name.encode()) > _LONGEST_NAME:
        raise OptionError(f"--name {name!r}: is longer than {_LONGEST_NAME} bytes")
    return name


def require_local(path: str) -> None:
    """Refuse an address, rather than take it for a directory called ``https:``."""
    if not scheme_of(path) and re.match(_ADDRESS, path, re.IGNORECASE):
        raise OptionError(
            f"{path}: is an address, and dsprep works on files and s3://; copy what is there, or "
            "pipe one shard through dsprep convert - -"
        )


def require_apart(path: str, source: str) -> None:
    """Refuse to write shards among the images that they are made of."""
    for each in (path, source):
        require_local(each)
    if canonical(path) == canonical(source):
        raise OptionError(f"{path}: is the source as well; choose another directory for the shards")


def take_sources(sources: str | Sequence[str], dest: str) -> tuple[str, tuple[str, ...]]:
    """Return the first of the sources that a command reads, and the others."""
    every = (sources,) if isinstance(sources, str) else tuple(sources)
    if not all(every) or not every:
        raise OptionError("the source is empty; name a directory, an archive or shards")
    for source in every:
        require_apart(dest, source)
    return every[0], every[1:]


def parse_destination(
    path: str, format_name: str | None, apart: bool = False
) -> tuple[Destination, str]:
    """Return the destination and its format; the suffix of a name distinguishes a single file.

    A directory has its companions beside it if they lie ``apart``, as those of tables always do.
    """
    apart = apart or format_name in TABLES
    if not path:
        raise OptionError("the destination is empty")
    if path == "-":
        raise OptionError("-: only dsprep convert - - writes to stdout; name a directory or a file")
    require_local(path)
    store, key = store_of(path)
    if store.has_rename:
        destination, found = _on_disk(path, format_name, apart)
    else:
        destination, found = _in_store(store, key, path, format_name, apart)
    if found is None and format_name is None:
        raise OptionError(f"{path}: its name has no format; give --to FORMAT")
    return destination, found or str(format_name)


def _on_disk(path: str, format_name: str | None, apart: bool) -> tuple[Destination, str | None]:
    """Return a destination on a disk, and the format that its name has."""
    is_tree = writes_tree(format_name)
    is_file = not (is_tree or path.endswith("/") or os.path.isdir(opened(path)))
    found = _format_of(path, format_name) if is_file else None
    where = GivenPath(path)
    if is_tree and where.name in ("", ".."):
        # companions of a folder are named after it
        where = GivenPath(os.path.abspath(opened(path)))
    if is_tree or found is not None:
        return Destination(where.parent, where.name), found
    return apart_from(path) if apart else Destination(where), None


def _in_store(
    store: Store, key: str, path: str, format_name: str | None, apart: bool
) -> tuple[Destination, str | None]:
    """Return a destination whose files are sent to a store, and the format that its key has."""
    is_tree = writes_tree(format_name)
    found = None if key.endswith("/") or is_tree else _format_of(key, format_name)
    above, slash, name = key.removesuffix("/").rpartition("/")
    place = store.url(above + slash)
    if found is not None:
        return Destination(stage_for(store.url(key)), name, place), found
    if is_tree or apart:
        stage = stage_for(f"{place}{_require_own_name(name, path)}")
        if is_tree:
            return Destination(stage, name, place), None
        return Destination(stage, remote=place, apart=name), None
    place = store.url(key if not key or key.endswith("/") else key + "/")
    return Destination(stage_for(place), remote=place), None


def apart_from(path: str) -> Destination:
    """Return a directory on a disk that holds shards alone."""
    where = GivenPath(path)
    if where.name in ("", "..") or where.is_symlink():  # companions are beside the directory itself
        where = GivenPath(os.path.realpath(where))
    return Destination(where.parent, apart=_require_own_name(where.name, path))


def place_of(path: str) -> Destination:
    """Return a directory on a disk that a data set lies in, or a run is writing to."""
    if os.path.realpath(opened(path)) == "/":
        return Destination(GivenPath(path))
    found = apart_from(path)
    is_apart = found.scratch.is_dir()
    if not is_apart and (beside := data_set_beside(Place(path))) is not None:
        is_apart = not beside.is_of_other_version and bool(beside.manifest.directory)
    is_own = os.path.exists(opened(os.path.join(path, MANIFEST)))
    return found if is_apart and not is_own else Destination(GivenPath(path))


def _require_own_name(name: str, path: str) -> str:
    """Return the name of a directory, which its companions have as well."""
    if not name:
        raise OptionError(
            f"{path}: nothing can lie beside it, where the manifest of shards alone is; name a "
            "directory below it"
        )
    return name


def _format_of(path: str, format_name: str | None) -> str | None:
    """Return the format that the name of a file has; None if it is the name of a directory."""
    found = format_of_file(path)
    if found is None:
        return None
    plain = path.removesuffix(".gz").removesuffix(".zstd")
    can_be = path.endswith(".gz") and found().with_options(gzip=True).compressed
    if plain != path and not can_be:
        raise OptionError(f"{path}: only TFRecord shards can be compressed; name it {plain}")
    if format_name not in (None, found.name):
        raise OptionError(
            f"{path}: is a name for {found.name}, but the format to write is {format_name}; "
            "choose another name"
        )
    return found.name
