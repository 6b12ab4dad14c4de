"""The key of a sample among the features of an Example: told by the file name, or by itself."""

from __future__ import annotations

from dsprep.errors import BadSample
from dsprep.formats.example import Feature
from dsprep.formats.feature_values import bytes_of, text_feature, text_of
from dsprep.formats.features import Preset
from dsprep.sample import Value, key_of

KEY = "__key__"
"""The feature that holds the key, where no other tells it."""


def tell_key(
    key: str,
    kind: str | None,
    told: dict[str, Value],
    features: dict[str, Feature],
    preset: Preset,
) -> None:
    """Add what tells the key, if something must.

    Raises:
        BadSample: If a field would be taken for what tells it.
    """
    own_name = features.get(preset.name_of("filename"))
    filename = told.get("filename")
    assert filename is None or isinstance(filename, str)
    needs_key = is_key_needed(key, kind, filename, own_name, "filename" in features)
    if field := text_of(bytes_of(features.get(KEY))):
        if needs_key or field != key:
            raise BadSample(f"its field {KEY!r} would be read as its key: drop it")
    elif needs_key:
        features.setdefault(KEY, text_feature(key))
    elif filename is None and own_name is None:
        told["filename"] = f"{key}.{kind}"


def take_key(
    fields: dict[str, Value],
    kind: str | None,
    rest: dict[str, Feature],
    position: int,
    preset: Preset,
    whole: bool,
) -> str:
    """The key; a feature that tells what others tell stays a field."""
    filename = fields.get("filename")
    assert filename is None or isinstance(filename, str)
    own_name = rest.get(preset.name_of("filename"))
    implied = key_of(filename) if filename else _key_told_by(own_name)
    if key := text_of(bytes_of(rest.get(KEY))):
        if is_key_needed(key, kind, filename, own_name, "filename" in rest):
            del rest[KEY]
        return key
    key = str(position) if implied is None else implied
    if whole and filename is not None and filename == _derived_name(key, kind):
        del fields["filename"]
    return key


def is_key_needed(
    key: str, kind: str | None, filename: str | None, own_name: Feature | None, is_other: bool
) -> bool:
    """Whether a feature must tell the key; if not, the file name does, or ``KEY.EXT`` will.

    Args:
        key: The key.
        kind: The kind of the image, if there is one.
        filename: The file name, if there is one.
        own_name: The feature that would hold it, if there is one that does not.
        is_other: Whether another feature has the name of the field.
    """
    derived = _derived_name(key, kind)
    if filename is not None:
        return filename == derived or key_of(filename) != key
    if own_name is not None:
        return _key_told_by(own_name) != key
    return derived is None or is_other


def _derived_name(key: str, kind: str | None) -> str | None:
    """The file name that a sample without one gets; None if it would tell another key."""
    name = f"{key}.{kind}"
    return name if kind is not None and key_of(name) == key else None


def _key_told_by(feature: Feature | None) -> str | None:
    """The key that a file name tells, even one that is not UTF-8."""
    name = bytes_of(feature)
    return key_of(name.decode(errors="replace")) if name else None
