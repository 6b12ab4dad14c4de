"""Pack images into the shards that training reads, and verify them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsprep.appending import append as append
    from dsprep.converting import convert as convert
    from dsprep.errors import DsprepError as DsprepError
    from dsprep.images.transform import Transform as Transform
    from dsprep.packing import pack as pack
    from dsprep.sharding import shard as shard
    from dsprep.sources.reading import make_source as make_source
    from dsprep.splitting import SplitReport as SplitReport
    from dsprep.splitting import split as split
    from dsprep.streaming import convert_stream as convert_stream
    from dsprep.verifying.verify import VerifyReport as VerifyReport
    from dsprep.verifying.verify import verify as verify
    from dsprep.writing import WriteReport as WriteReport

__version__ = "0.1.0"

_PUBLIC = {
    "append": "dsprep.appending",
    "DsprepError": "dsprep.errors",
    "WriteReport": "dsprep.writing",
    "SplitReport": "dsprep.splitting",
    "Transform": "dsprep.images.transform",
    "VerifyReport": "dsprep.verifying.verify",
    "make_source": "dsprep.sources.reading",
    "convert": "dsprep.converting",
    "convert_stream": "dsprep.streaming",
    "pack": "dsprep.packing",
    "shard": "dsprep.sharding",
    "split": "dsprep.splitting",
    "verify": "dsprep.verifying.verify",
}

__all__ = [
    "DsprepError",
    "WriteReport",
    "SplitReport",
    "Transform",
    "VerifyReport",
    "append",
    "convert",
    "convert_stream",
    "make_source",
    "pack",
    "shard",
    "split",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: workers, and ``--help``, need none of them."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dsprep' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
