"""Dataset cards of the Hugging Face Hub: a `README.md` that begins with YAML.

The YAML names configurations and the files of each split, features and sizes
(huggingface.co/docs/hub/datasets-cards, and `dataset_info` of datasets, info.py and features.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

CARD = "README.md"
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")


class Split(NamedTuple):
    """A split of a data set.

    Attributes:
        name: What its side is called; empty if there are no sides.
        files: The names of its files, beside the card.
        samples: How many samples it has.
        bytes: The bytes of its files.
    """

    name: str
    files: Sequence[str]
    samples: int
    bytes: int


def card(
    features: Mapping[str, Mapping[str, Any]], splits: Sequence[Split], license: str = ""
) -> bytes:
    """Return a dataset card.

    Args:
        features: The features of the columns, as the metadata of Parquet has them.
        splits: What there is to load.
        license: The identifier of a license; empty if the card names none.
    """
    total, size = sum(each.samples for each in splits), sum(each.bytes for each in splits)
    every = [name for each in splits for name in each.files]
    told: dict[str, Any] = {"license": license} if license else {}
    told["size_categories"] = [size_category(total)]
    files = [{"split": _name(each), "path": _pattern(each.files, every)} for each in splits]
    told["configs"] = [{"config_name": "default", "data_files": files}]
    told["dataset_info"] = {
        "features": [{"name": name, **_told(each)} for name, each in features.items()],
        "splits": [
            {"name": _name(each), "num_bytes": each.bytes, "num_examples": each.samples}
            for each in splits
        ],
        "download_size": size,
        "dataset_size": size,
    }
    if not features:
        del told["dataset_info"]["features"]
    return "\n".join(["---", *_yaml(told), "---", ""]).encode()


def size_category(samples: int) -> str:
    """Return what the Hub calls a number of samples: ``n<1K``, ``1K<n<10K``, … ."""
    place = max(len(str(samples)) - 3, 0) if samples >= 1000 else 0
    if not place:
        return f"n<{_SIZES[0]}"
    if place >= len(_SIZES):
        return f"n>{_SIZES[-1]}"
    return f"{_SIZES[place - 1]}<n<{_SIZES[place]}"


def _name(split: Split) -> str:
    return re.sub(r"\W+", "_", split.name) or "train"


def _pattern(files: Sequence[str], every: Sequence[str]) -> str | list[str]:
    """Return what means the files of a split, and no file of another one."""
    if len(files) == 1:
        return files[0]
    start = os.path.commonprefix(list(files)).rstrip("0123456789")
    pattern = f"{start}*.parquet"
    is_plain = not set(start) & set("*?[]{}")
    meant = [name for name in every if fnmatchcase(name, pattern)]
    return pattern if start and is_plain and len(meant) == len(files) else list(files)


def _told(feature: Any) -> dict[str, Any]:
    """Return a feature as a card has it: ``dtype``, ``sequence`` or ``struct``."""
    kind = "List" if isinstance(feature, list) else feature.get("_type")
    if kind in ("Sequence", "List", "LargeList"):
        inner = feature[0] if isinstance(feature, list) else feature["feature"]
        # Where it is of structs, a sequence would be a struct of lists.
        told = _told(inner)
        return {"list": told["struct"]} if "struct" in told else {"sequence": _item(told)}
    if kind == "ClassLabel":
        names = {str(at): name for at, name in enumerate(feature["names"])}
        return {"dtype": {"class_label": {"names": names}}}
    if kind == "Value":
        return {"dtype": feature["dtype"]}
    if isinstance(kind, str):  # Image, Audio
        return {"dtype": kind.lower()}
    return {"struct": [{"name": name, **_told(each)} for name, each in feature.items()]}


def _item(told: Mapping[str, Any]) -> Any:
    """Return what a sequence is of."""
    return told.get("dtype", told)


def _yaml(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of YAML that tell values."""
    for name, each in value.items():
        key = name if re.fullmatch(r"[a-z_]+", name) else _quoted(name)
        if isinstance(each, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(each, f"{indent}  ")
        elif isinstance(each, list):
            yield f"{indent}{key}:"
            for item in each:
                if isinstance(item, Mapping):
                    first, *rest = _yaml(item, f"{indent}  ")
                    yield f"{indent}- {first.removeprefix(f'{indent}  ')}"
                    yield from rest
                else:
                    yield f"{indent}- {_quoted(item)}"
        else:
            yield f"{indent}{key}: {each if isinstance(each, int) else _quoted(each)}"


def _quoted(text: str) -> str:
    """Return a text as YAML has it between quotes, also where YAML forbids a character."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in quoted)
