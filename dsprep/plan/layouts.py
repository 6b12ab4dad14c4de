"""From the options of a command to a format with its options."""

from __future__ import annotations

from dsprep.errors import OptionError
from dsprep.formats import FORMATS, Format
from dsprep.formats.folder import AugmentedFolder
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset


def make_layout(
    format_name: str,
    *,
    gzip: bool = False,
    features: str | None = None,
    metadata: bool = False,
    prefix: str = "",
) -> Format:
    """Return a format with the options that a user gave."""
    if format_name not in FORMATS:
        raise OptionError(f"format {format_name}: choose one of {', '.join(FORMATS)}")
    if format_name == TFRecord.name:
        return TFRecord(features or "dsprep", gzip)
    if format_name == WebDataset.name:
        return WebDataset(metadata)
    if format_name == AugmentedFolder.name:
        return AugmentedFolder(prefix=prefix)
    return FORMATS[format_name]()
