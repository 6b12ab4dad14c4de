"""From the options of a command to a format with its options."""

from __future__ import annotations

from collections.abc import Mapping

from dsprep.errors import OptionError
from dsprep.formats import FORMATS, Format
from dsprep.formats.features import FIELDS, choose_features
from dsprep.formats.folder import AugmentedFolder
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import RENAMABLE, WebDataset
from dsprep.planning.fields import IMAGE


def make_layout(
    format_name: str,
    *,
    gzip: bool = False,
    features: str | None = None,
    rename: Mapping[str, str] | None = None,
    metadata: bool = False,
    prefix: str = "",
    whole: bool = False,
) -> Format:
    """A format with the options that a user gave.

    Args:
        format_name: Its name.
        gzip: Whether TFRecord shards are compressed.
        features: The preset of feature names for TFRecord.
        rename: Feature names, or extensions of WebDataset members, by field.
        metadata: Whether to write class, filename, width and height into WebDataset shards.
        prefix: What references of an augmented manifest begin with.
        whole: Whether TFRecord is to hold keys, too, so that samples come back as they were.

    Raises:
        OptionError: If there is no such format.
    """
    if format_name not in FORMATS:
        raise OptionError(f"format {format_name}: choose one of {', '.join(FORMATS)}")
    if format_name == TFRecord.name:
        return TFRecord(choose_features(features or "dsprep", rename or {}), gzip, whole)
    if format_name == WebDataset.name:
        return WebDataset(metadata, dict(rename or {}))
    if format_name == AugmentedFolder.name:
        return AugmentedFolder(prefix=prefix)
    return FORMATS[format_name]()


def split_names(
    format_name: str, names: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Tell new names of the fields that a format names itself from those of all others.

    Returns:
        The names for the format, and the others.
    """
    own = {TFRecord.name: FIELDS, WebDataset.name: frozenset(RENAMABLE)}.get(
        format_name, frozenset()
    )
    ours = {field: name for field, name in names.items() if field in own}
    # Samples may have a field that is called "image", and no image.
    others = {field: name for field, name in names.items() if field not in own or field == IMAGE}
    return ours, others
