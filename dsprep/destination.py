"""Where a data set goes, and what its files are called there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dsprep.errors import OptionError
from dsprep.formats import format_of_file


@dataclass(frozen=True)
class Destination:
    """A directory of shards, or one file with its companions.

    A directory holds one data set: shards, ``manifest.json``, ``classes.txt``, … . With a single
    file ``train.rec`` the companions are named after it, ``train.manifest.json``, so that
    ``val.rec`` can stand beside it.

    Attributes:
        directory: Where all files are.
        single: The name of the one shard, or None for numbered shards.
        stem: That name without what tells its format, or the empty string.
    """

    directory: Path
    single: str | None = None
    stem: str = ""

    def companion(self, name: str) -> Path:
        """The path of ``manifest.json`` and the like."""
        return self.directory / (f"{self.stem}.{name}" if self.stem else name)

    @property
    def manifest(self) -> Path:
        """The path of the manifest."""
        return self.companion("manifest.json")

    @property
    def scratch(self) -> Path:
        """The directory for an unfinished run's state; there is none when it is done."""
        return self.directory / (f".{self.stem}.dsprep" if self.stem else ".dsprep")

    def __str__(self) -> str:
        """The path that the user gave."""
        return str(self.directory / self.single if self.single else self.directory)


def parse_destination(path: str, format_name: str | None) -> tuple[Destination, str]:
    """Tell a single file from a directory, by the end of its name.

    Args:
        path: What the user gave.
        format_name: The format that was asked for, or None.

    Returns:
        The destination, and the format's name.

    Raises:
        OptionError: If the file's name tells another format, or none is known.
    """
    if not path:
        raise OptionError("the destination is empty")
    where = Path(path)
    told = None if where.is_dir() or path.endswith("/") else format_of_file(path)
    if told is None:
        if format_name is None:
            raise OptionError(
                f"{path}: say which format to write: --format webdataset, tfrecord or recordio"
            )
        return Destination(where), format_name
    if format_name not in (None, told.name):
        raise OptionError(f"{path}: is a name for {told.name}, but --format says {format_name}")
    stem = where.name.removesuffix(".gz").removesuffix(told.suffix)
    return Destination(where.parent, where.name, stem or where.name), told.name
