"""Make a training set ready: images in, shards out; any format to any other."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsprep.commands.append import append as append
    from dsprep.commands.convert import convert as convert
    from dsprep.commands.edit_lists import append_to_list as append_to_list
    from dsprep.commands.edit_lists import create_list as create_list
    from dsprep.commands.edit_lists import edit_list as edit_list
    from dsprep.commands.edit_lists import patch_list as patch_list
    from dsprep.commands.edit_lists import relabel_lists as relabel_lists
    from dsprep.commands.inspect_lists import check_list as check_list
    from dsprep.commands.inspect_lists import diff_lists as diff_lists
    from dsprep.commands.inspect_lists import list_stats as list_stats
    from dsprep.commands.inspect_lists import merge_lists as merge_lists
    from dsprep.commands.inspect_lists import sample_list as sample_list
    from dsprep.commands.pack import pack as pack
    from dsprep.commands.shard import shard as shard
    from dsprep.commands.split import split as split
    from dsprep.commands.stream import convert_stream as convert_stream
    from dsprep.commands.write import WriteReport as WriteReport
    from dsprep.errors import DestinationError as DestinationError
    from dsprep.errors import DsprepError as DsprepError
    from dsprep.errors import OptionError as OptionError
    from dsprep.errors import SourceError as SourceError
    from dsprep.errors import StoreError as StoreError
    from dsprep.images.transform import Transform as Transform
    from dsprep.progress import Progress as Progress
    from dsprep.sources.reading import Source as Source
    from dsprep.sources.reading import make_source as make_source
    from dsprep.splits.report import SplitReport as SplitReport
    from dsprep.storage.s3.config import S3Config as S3Config
    from dsprep.syncing.plan import Rule as Rule
    from dsprep.syncing.report import SyncReport as SyncReport
    from dsprep.syncing.sync import clean_uploads as clean_uploads
    from dsprep.syncing.sync import sync as sync
    from dsprep.verifying.indexing import index as index
    from dsprep.verifying.report import IndexReport as IndexReport
    from dsprep.verifying.report import VerifyReport as VerifyReport
    from dsprep.verifying.verify import verify as verify

__version__ = "0.1.0"

_PUBLIC = {
    "DestinationError": "dsprep.errors",
    "DsprepError": "dsprep.errors",
    "IndexReport": "dsprep.verifying.report",
    "OptionError": "dsprep.errors",
    "Progress": "dsprep.progress",
    "Rule": "dsprep.syncing.plan",
    "S3Config": "dsprep.storage.s3.config",
    "Source": "dsprep.sources.reading",
    "SourceError": "dsprep.errors",
    "SplitReport": "dsprep.splits.report",
    "StoreError": "dsprep.errors",
    "SyncReport": "dsprep.syncing.report",
    "Transform": "dsprep.images.transform",
    "VerifyReport": "dsprep.verifying.report",
    "WriteReport": "dsprep.commands.write",
    "append": "dsprep.commands.append",
    "append_to_list": "dsprep.commands.edit_lists",
    "check_list": "dsprep.commands.inspect_lists",
    "clean_uploads": "dsprep.syncing.sync",
    "convert": "dsprep.commands.convert",
    "convert_stream": "dsprep.commands.stream",
    "create_list": "dsprep.commands.edit_lists",
    "diff_lists": "dsprep.commands.inspect_lists",
    "edit_list": "dsprep.commands.edit_lists",
    "index": "dsprep.verifying.indexing",
    "list_stats": "dsprep.commands.inspect_lists",
    "make_source": "dsprep.sources.reading",
    "merge_lists": "dsprep.commands.inspect_lists",
    "pack": "dsprep.commands.pack",
    "patch_list": "dsprep.commands.edit_lists",
    "relabel_lists": "dsprep.commands.edit_lists",
    "sample_list": "dsprep.commands.inspect_lists",
    "shard": "dsprep.commands.shard",
    "split": "dsprep.commands.split",
    "sync": "dsprep.syncing.sync",
    "verify": "dsprep.verifying.verify",
}

__all__ = list(_PUBLIC)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: workers, and ``--help``, need none of them."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dsprep' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
