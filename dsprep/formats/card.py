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
from typing import Any

from dsprep.tuples import NamedTuple

CARD = "README.md"
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")

# huggingface.co/docs/hub/repositories-licenses
_LICENSES = """
apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m
bigscience-bloom-rail-1.0 bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd
bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5
cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0
cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0
cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0
epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1
lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail++ osl-3.0 postgresql ofl-1.1
ncsa unlicense zlib pddl lgpl-lr deepfloyd-if-license llama2 gemma unknown other
"""


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
        license: The identifier of a license, in any case, or the name of one that the Hub has no
            identifier for; empty if the card names none.
    """
    total, size = sum(each.samples for each in splits), sum(each.bytes for each in splits)
    every = [name for each in splits for name in each.files]
    told: dict[str, Any] = _license(license)
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


def _license(name: str) -> dict[str, str]:
    """Return how a card names a license: one that the Hub does not know is ``other``."""
    if not name:
        return {}
    if name.lower() in _LICENSES.split():
        return {"license": name.lower()}
    return {"license": "other", "license_name": name}


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
