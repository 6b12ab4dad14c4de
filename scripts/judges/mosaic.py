"""What MosaicML Streaming reads and writes; run in an environment of its own.

Usage:
    mosaic.py read DIR [SPLIT]  print the samples that StreamingDataset yields, as JSON
    mosaic.py write DIR         write data sets with MDSWriter below DIR
    mosaic.py count SHARD…      print the samples that `verify --loader streaming` reads, as JSON
    mosaic.py loop FILE SHARD…  run the training loop in FILE, which LOOP_OPTIONS tells its options

Images are drawn by Pillow, and values are such as each encoding holds exactly.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import runpy
import sys
import types
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# Its ready-made data sets import torchvision and transformers, which nothing here needs.
_package = types.ModuleType("streaming")
_spec = importlib.util.find_spec("streaming")
assert _spec is not None and _spec.submodule_search_locations is not None
_package.__path__ = list(_spec.submodule_search_locations)
sys.modules["streaming"] = _package

from streaming.base import MDSWriter, StreamingDataset  # noqa: E402
from streaming.base.util import merge_index  # noqa: E402
from torch.utils.data import DataLoader  # type: ignore # noqa: E402

SMALL = {"__key__": "str", "image": "jpeg", "label": "int"}
ALL = SMALL | {
    "any": "ndarray",
    "bare": "pil",
    "big": "str_int",
    "blob": "bytes",
    "caption": "str",
    "double": "float64",
    "exact": "str_float",
    "fixed": "ndarray:int16:2,3",
    "floats": "ndarray:float32",
    "frames": "list[jpeg]",
    "half": "float16",
    "info": "json",
    "money": "str_decimal",
    "n16": "int16",
    "n32": "uint32",
    "n64": "int64",
    "n8": "uint8",
    "second": "png",
    "shots": "jpeg_array",
    "single": "float32",
}


def plain(value: Any) -> Any:
    """Return a value of a sample as JSON has it; of an image, what its pixels are."""
    if isinstance(value, Image.Image):
        return [value.mode, *value.size, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, np.ndarray):
        return [value.dtype.name, *value.shape, *value.ravel().tolist()]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.hex() if isinstance(value, bytes) else value


def same(batch: list[Any]) -> list[Any]:
    """Return a batch as it is."""
    return batch


def read(directory: str, split: str | None = None) -> list[dict[str, Any]]:
    """Read all samples, shuffled, by two workers; return them in the order of their texts."""
    how = {"shuffle": True, "batch_size": 4, "num_canonical_nodes": 1}
    dataset = StreamingDataset(local=directory, split=split, **how)
    found = [
        {name: plain(value) for name, value in sample.items()}
        for batch in DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=same)
        for sample in batch
    ]
    return sorted(found, key=json.dumps)


def drawn(number: int, kind: str) -> bytes:
    """Return an image of some color."""
    image = Image.new("RGB", (8 + number, 6), (40 * number, 255 - 30 * number, 17))
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def sample(number: int) -> dict[str, Any]:
    """Return a sample with a value for each encoding."""
    jpeg, png = drawn(number, "JPEG"), drawn(number, "PNG")
    opened = [Image.open(io.BytesIO(each)) for each in (jpeg, png)]
    return {
        "__key__": f"d/{number}",
        "any": np.arange(number + 1, dtype=np.int32).reshape(1, number + 1),
        "bare": opened[1],
        "big": number,
        "blob": bytes([number, 0, 255]),
        "caption": f"Bild nº {number}",
        "double": number / 3,
        "exact": number / 3,
        "fixed": np.arange(6, dtype=np.int16).reshape(2, 3),
        "floats": np.arange(number + 2, dtype=np.float32) / 2,
        "frames": [opened[0], opened[0]],
        "half": number / 2,
        "image": jpeg,
        "info": {"a": [number, None], "b": "x"},
        "label": number % 3,
        "money": Decimal(number) / 4,
        "n16": -number,
        "n32": number << 20,
        "n64": number << 40,
        "n8": number,
        "second": png,
        "shots": [jpeg],
        "single": number / 4,
    }


def write(root: Path) -> None:
    """Write data sets: all encodings, compressed ones, sides, and parts with one index."""
    sets: dict[str, tuple[dict[str, str], int, dict[str, Any]]] = {
        "all": (ALL, 4, {"size_limit": 7000, "hashes": ["sha256", "xxh64"]}),
        "plain": (SMALL, 4, {"size_limit": None}),
        "zstd": (SMALL, 4, {"size_limit": 2000, "compression": "zstd", "hashes": ["md5"]}),
        "gz": (SMALL, 4, {"size_limit": None, "compression": "gz"}),
        "sides/train": (SMALL, 3, {"size_limit": None}),
        "sides/val": (SMALL, 1, {"size_limit": None}),
        "merged/0": (SMALL, 2, {"size_limit": None}),
        "merged/1": (SMALL, 3, {"size_limit": None}),
        "pickled": ({"label": "int", "thing": "pkl"}, 1, {"size_limit": None}),
    }
    for name, (columns, count, options) in sets.items():
        with MDSWriter(columns=columns, out=str(root / name), **options) as writer:
            for number in range(count):
                values = sample(number) | {"thing": {"x": number}}
                writer.write({column: values[column] for column in columns})
    merge_index(str(root / "merged"))


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    if verb == "write":
        write(Path(arguments[0]))
    elif verb == "count":
        sys.path.append(str(Path(__file__).parents[2]))
        from dsprep.verifying.loaders import count_samples

        print(json.dumps([count_samples(("streaming", shard)) for shard in arguments]))
    elif verb == "loop":
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        print(json.dumps(read(*arguments)))
