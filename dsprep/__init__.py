"""Make a training set ready: images in, shards out; any format to any other."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsprep.appending import append as append
    from dsprep.converting import convert as convert
    from dsprep.errors import DsprepError as DsprepError
    from dsprep.images.transform import Transform as Transform
    from dsprep.indexing.index import IndexReport as IndexReport
    from dsprep.indexing.index import index as index
    from dsprep.packing import pack as pack
    from dsprep.sharding import shard as shard
    from dsprep.sources.reading import make_source as make_source
    from dsprep.splits.report import SplitReport as SplitReport
    from dsprep.splitting import split as split
    from dsprep.streaming import convert_stream as convert_stream
    from dsprep.verifying.report import VerifyReport as VerifyReport
    from dsprep.verifying.verify import verify as verify
    from dsprep.writing import WriteReport as WriteReport

__version__ = "0.1.0"

_PUBLIC = {
    "DsprepError": "dsprep.errors",
    "IndexReport": "dsprep.indexing.index",
    "SplitReport": "dsprep.splits.report",
    "Transform": "dsprep.images.transform",
    "VerifyReport": "dsprep.verifying.report",
    "WriteReport": "dsprep.writing",
    "append": "dsprep.appending",
    "convert": "dsprep.converting",
    "convert_stream": "dsprep.streaming",
    "index": "dsprep.indexing.index",
    "make_source": "dsprep.sources.reading",
    "pack": "dsprep.packing",
    "shard": "dsprep.sharding",
    "split": "dsprep.splitting",
    "verify": "dsprep.verifying.verify",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: workers, and ``--help``, need none of them."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dsprep' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
