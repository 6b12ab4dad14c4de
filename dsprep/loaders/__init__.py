"""The frameworks' own readers, as judges of shards.

Each is an extra, and is imported only when asked for.

A loader is a module with one function, ``count_samples(path)``, that reads a shard as a training
job would, images decoded, and returns how many samples it got. It runs in a process of its own,
because MXNet ends the process at a record that it cannot decode.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from dsprep.errors import OptionError

LOADERS = {"mxnet": "recordio", "tensorflow": "tfrecord", "webdataset": "webdataset"}
"""The format that each framework reads."""


def require_loader(name: str, format_name: str) -> None:
    """Refuse a framework that is not installed, or does not read the format."""
    if LOADERS[name] != format_name:
        raise OptionError(
            f"--loader {name}: reads {LOADERS[name]}, but these shards are {format_name}"
        )
    if find_spec(name) is None:
        raise OptionError(f"--loader {name}: is not installed; pip install 'dsprep[{name}]'")


def count_samples(task: tuple[str, str]) -> int | str:
    """Read a shard with a framework."""
    name, path = task
    try:
        count: int = import_module(f"dsprep.loaders.{name}_loader").count_samples(path)
    except Exception as error:  # whatever a framework raises is its verdict on the shard
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
    return count
