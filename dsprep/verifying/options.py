"""The options of ``verify`` and ``shard index``, declared as :mod:`dsprep.declared` says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import Options, field, option
from dsprep.plan.options import EngineOptions, workers_field

if TYPE_CHECKING:
    from dsprep.progress import Progress
    from dsprep.schema import Choice
    from dsprep.sources.source import Source

_check, _index = partial(option, "Check"), partial(option, "Index")


class _Checked(Options):
    dest: AnyPath = field(kw_only=False)
    workers: int | None = workers_field
    progress: Progress | None = None  # receives the progress


class VerifyOptions(EngineOptions, _Checked):
    """The options of ``verify``."""

    decode: bool = _check("Decode every image.", default=False)
    against: Source | AnyPath | None = _check(
        "Compare every sample with the source that it was made from: a directory, an archive, "
        "shards. The manifest knows the options of that run; name files again that lie outside of "
        "SOURCE, such as --list FILE.",
        metavar="SOURCE",
    )
    filter_table: AnyPath | None = _check(
        "The table of that run that left samples out.", metavar="FILE"
    )
    loader: str | None = _check(
        "Also read the shards with this framework, which must be installed.",
        choices=("mxnet", "tensorflow", "webdataset", "streaming"),
    )
    max_pixels: int | None = _check("Report images with more pixels as a problem.")
    choice: Choice | None = None  # what the fields of shards without a manifest are
    download: bool = _check(
        "Read every file back from a store such as S3 instead of comparing the checksums that it "
        "keeps.",
        default=False,
    )


class IndexOptions(_Checked):
    """The options of ``shard index``."""

    kinds: Sequence[str] = ()  # kinds of indexes to write; --kind on the command line
    check: bool = _index(
        "Write nothing; report missing and wrong indexes as problems.", default=False
    )
    energon: bool = _index(
        "Write what NVIDIA Megatron-Energon reads, SHARD.tar.idx and .nv-meta/, and only indexes "
        "that --kind names besides.",
        default=False,
    )
    overwrite: bool = _index(
        "Replace a manifest that is not of these shards, a file with the name of the wids index, "
        "and dataset.yaml and split.yaml of Energon that others wrote.",
        default=False,
    )
    dry_run: bool = option("Run", "Print what would be done, write nothing.", default=False)


class StatusOptions(Options):
    """The options of ``status``."""

    dest: AnyPath = field(kw_only=False)
