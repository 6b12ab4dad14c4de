"""What litdata reads and writes; run in an environment of its own, without dsprep.

Usage:
    lightning.py read DIR   print the samples that StreamingDataset yields, as JSON
    lightning.py write DIR  write data sets with optimize and Cache below DIR

Images are drawn by Pillow. There are values for each serializer that dsprep reads.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore
from litdata import StreamingDataset, optimize
from litdata.streaming.cache import Cache
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.serializers import BytesSerializer, JPEGArraySerializer
from litdata.types import File, Image, Tiff
from PIL import Image as Pillow

PNG = b"\x89PNG"
# what it would decode to tensors, for which it needs torchvision; all others are as it makes them
SERIALIZERS = dict.fromkeys(("image", "jpeg", "png", "tiff"), BytesSerializer())
SERIALIZERS["jpeg_array"] = JPEGArraySerializer()
SERIALIZERS["jpeg_array"]._jpeg_serializer = BytesSerializer()


def plain(value: Any) -> Any:
    """Return a value of a sample as JSON has it; of PNG and of bare pixels, what these are."""
    if isinstance(value, memoryview):
        value = bytes(value)
    if isinstance(value, bytes) and value.startswith(PNG):
        value = Pillow.open(io.BytesIO(value))
    if isinstance(value, Pillow.Image):
        return [value.mode, *value.size, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.ndim else value.item()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.hex() if isinstance(value, bytes) else value


def read(directory: str) -> list[Any]:
    """Read all samples, in the order of the chunks."""
    with tempfile.TemporaryDirectory() as cache:
        dataset = StreamingDataset(directory, cache_dir=cache, serializers=SERIALIZERS)
        return [plain(sample) for sample in dataset]


def drawn(number: int, kind: str) -> bytes:
    """Return an image of some color."""
    image = Pillow.new("RGB", (8 + number, 6), (40 * number, 255 - 30 * number, 17))
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def opened(number: int) -> Pillow.Image:
    """Return a JPEG that is a file, so that its bytes are stored."""
    path = Path(tempfile.gettempdir(), f"{os.getpid()}-{number}.jpg")
    path.write_bytes(drawn(number, "JPEG"))
    return Pillow.open(path)


def small(number: int) -> dict[str, Any]:
    """Return a sample with an image."""
    return {"image": opened(number), "label": number % 3, "caption": f"Bild nº {number}"}


def every(number: int) -> dict[str, Any]:
    """Return a sample with a value for each serializer."""
    array = np.arange(number + 2)
    jpeg, png = drawn(number, "JPEG"), drawn(number, "PNG")
    return small(number) | {
        "bare": Pillow.open(io.BytesIO(png)),
        "blob": bytes([number, 0, 255]),
        "box": [0.5, 1.0, number / 3],
        "codes": array.astype(np.int16),
        "day": number % 2 == 0,
        "file": File(bytes=b"RIFF", path="a.dat"),
        "frames": [opened(0), opened(number)],
        "grid": array.reshape(1, -1).astype(np.float32) / 2,
        "info": {"a": number, "b": {"c": "x"}},
        "names": ["a", "b"][: number % 3],
        "people": [{"age": number, "name": "Ä", "tall": None}],
        "score": number / 3,
        "second": Image(bytes=png, path="a.png"),
        "tensor": torch.arange(6, dtype=torch.int32).reshape(2, 3) + number,
        "tiff": Tiff(bytes=drawn(number, "TIFF")),
        "vector": torch.arange(number + 1, dtype=torch.float64),
        "whole": torch.tensor(number),
        "third": Image(bytes=jpeg, path="a.jpg"),
    }


def row(number: int) -> dict[str, Any]:
    """Return a sample that litdata stores as a row of Arrow: one without media."""
    return {
        "image": drawn(number, "JPEG"),
        "label": number % 3,
        "caption": f"Bild nº {number}",
        "score": number / 3,
        "day": number % 2 == 0,
        "names": ["a", "b"][: number % 3],
        "info": {"a": number, "b": {"c": "x"}},
    }


def pair(number: int) -> tuple[Any, ...]:
    """Return a sample that is a tuple."""
    return opened(number), number % 3, (number, number + 1)


def pickled(number: int) -> dict[str, Any]:
    """Return a sample that only pickle stores."""
    return {"label": number, "thing": {number}}


def tokens(number: int) -> Any:
    """Return tokens of a text."""
    return torch.arange(number, 2 * number + 4)


CACHED: dict[str, tuple[Callable[[int], Any], dict[str, Any]]] = {
    "batch": (small, {"compression": "zstd", "compression_batch_size": 2}),
    "chunk": (small, {"compression": "zstd", "compression_level": "chunk"}),
    "pairs": (pair, {}),
    "pickled": (pickled, {}),
    "rows-zstd": (row, {"compression": "zstd"}),
    "sample": (small, {"compression": "zstd", "compression_level": "sample"}),
    "sides/train": (small, {}),
    "sides/val": (small, {}),
    "tokens": (tokens, {"item_loader": TokensLoader(block_size=2), "chunk_size": 20}),
}


def write(root: Path) -> None:
    """Write data sets: all serializers, rows, each compression, sides, and what is refused."""
    # ordered: else the samples of a chunk are those that its worker is fast enough to take
    how = {"chunk_size": 3, "start_method": "fork", "keep_data_ordered": True}
    optimize(every, list(range(4)), str(root / "all"), num_workers=1, **how)
    optimize(row, list(range(4)), str(root / "rows"), num_workers=2, **how)
    for name, (sample, options) in CACHED.items():
        cache = Cache(str(root / name), **({"chunk_size": 3} | options))
        for number in range(5):
            cache[number] = sample(number)
        cache.done()
        cache.merge()


if __name__ == "__main__":
    verb, directory = sys.argv[1:]
    if verb == "write":
        write(Path(directory))
    else:
        print(json.dumps(read(directory)))
