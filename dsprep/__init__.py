"""Make a training set ready: images in, shards out; any format to any other."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsprep.benching.bench import bench as bench
    from dsprep.benching.bench_report import BenchReport as BenchReport
    from dsprep.editing.edit_lists import append_to_list as append_to_list
    from dsprep.editing.edit_lists import create_list as create_list
    from dsprep.editing.edit_lists import edit_list as edit_list
    from dsprep.editing.edit_lists import patch_list as patch_list
    from dsprep.editing.edit_lists import relabel_lists as relabel_lists
    from dsprep.editing.inspect_lists import check_list as check_list
    from dsprep.editing.inspect_lists import diff_lists as diff_lists
    from dsprep.editing.inspect_lists import list_stats as list_stats
    from dsprep.editing.inspect_lists import merge_lists as merge_lists
    from dsprep.editing.inspect_lists import sample_list as sample_list
    from dsprep.errors import DestinationError as DestinationError
    from dsprep.errors import DsprepError as DsprepError
    from dsprep.errors import OptionError as OptionError
    from dsprep.errors import SourceError as SourceError
    from dsprep.errors import StoreError as StoreError
    from dsprep.images.transform import Transform as Transform
    from dsprep.inspecting.dedup import DedupReport as DedupReport
    from dsprep.inspecting.dedup import dedup as dedup
    from dsprep.inspecting.inspect import inspect as inspect
    from dsprep.inspecting.inspect_report import InspectReport as InspectReport
    from dsprep.progress import Progress as Progress
    from dsprep.run.augment import augment as augment
    from dsprep.run.join import join as join
    from dsprep.run.stream import convert_stream as convert_stream
    from dsprep.run.write import append as append
    from dsprep.run.write import convert as convert
    from dsprep.run.write import pack as pack
    from dsprep.run.write import shard as shard
    from dsprep.run.write_report import WriteReport as WriteReport
    from dsprep.sources.source import Source as Source
    from dsprep.sources.source import make_source as make_source
    from dsprep.splitting.split import SplitReport as SplitReport
    from dsprep.splitting.split import split as split
    from dsprep.storage.s3.config import S3Config as S3Config
    from dsprep.syncing.options import Rule as Rule
    from dsprep.syncing.report import SyncReport as SyncReport
    from dsprep.syncing.sync import clean_uploads as clean_uploads
    from dsprep.syncing.sync import sync as sync
    from dsprep.training.cost import CostReport as CostReport
    from dsprep.training.cost import cost as cost
    from dsprep.training.sagemaker import SagemakerReport as SagemakerReport
    from dsprep.training.sagemaker import sagemaker as sagemaker
    from dsprep.training.serve import ServeReport as ServeReport
    from dsprep.training.serve import serve as serve
    from dsprep.verifying.indexing import index as index
    from dsprep.verifying.report import IndexReport as IndexReport
    from dsprep.verifying.report import VerifyReport as VerifyReport
    from dsprep.verifying.status import StatusReport as StatusReport
    from dsprep.verifying.status import status as status
    from dsprep.verifying.verify import verify as verify

__version__ = "0.1.0"

_PUBLIC = {
    "dsprep.benching.bench": "bench",
    "dsprep.benching.bench_report": "BenchReport",
    "dsprep.editing.edit_lists": "append_to_list create_list edit_list patch_list relabel_lists",
    "dsprep.editing.inspect_lists": "check_list diff_lists list_stats merge_lists sample_list",
    "dsprep.errors": "DestinationError DsprepError OptionError SourceError StoreError",
    "dsprep.images.transform": "Transform",
    "dsprep.inspecting.dedup": "DedupReport dedup",
    "dsprep.inspecting.inspect": "inspect",
    "dsprep.inspecting.inspect_report": "InspectReport",
    "dsprep.progress": "Progress",
    "dsprep.run.augment": "augment",
    "dsprep.run.join": "join",
    "dsprep.run.stream": "convert_stream",
    "dsprep.run.write": "append convert pack shard",
    "dsprep.run.write_report": "WriteReport",
    "dsprep.sources.source": "Source make_source",
    "dsprep.splitting.split": "SplitReport split",
    "dsprep.storage.s3.config": "S3Config",
    "dsprep.syncing.options": "Rule",
    "dsprep.syncing.report": "SyncReport",
    "dsprep.syncing.sync": "clean_uploads sync",
    "dsprep.training.cost": "CostReport cost",
    "dsprep.training.sagemaker": "SagemakerReport sagemaker",
    "dsprep.training.serve": "ServeReport serve",
    "dsprep.verifying.indexing": "index",
    "dsprep.verifying.report": "IndexReport VerifyReport",
    "dsprep.verifying.status": "StatusReport status",
    "dsprep.verifying.verify": "verify",
}
"""The public names of each module."""

_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: workers, and ``--help``, need none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dsprep' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
