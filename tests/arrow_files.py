"""Files of Arrow for tests, as Hugging Face `datasets` writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.images import png
from tests.parquet_files import images

PNG = png(2)
FEATURES = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}


def write(path: Path, columns: dict[str, Any], rows: int = 2, **options: Any) -> str:
    """Write a stream of record batches, as `datasets` does."""
    noted = json.dumps({"info": {"features": FEATURES}})
    table = pa.table(columns).replace_schema_metadata({"huggingface": noted})
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"options": pa.ipc.IpcWriteOptions(**options)}
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, table.schema, **options) as out,
    ):
        for batch in table.to_batches(max_chunksize=rows):
            out.write_batch(batch)
    return str(path)


def rows_of(count: int, first: int = 0) -> dict[str, Any]:
    numbers = range(first, first + count)
    held = [PNG + bytes([number]) for number in numbers]
    return {
        "image": images(held, [f"{number}.png" for number in numbers]),
        "label": [number % 2 for number in numbers],
        "text": [f"text {number}" for number in numbers],
        "name": pa.array([f"n{number % 3}" for number in numbers]).dictionary_encode(),
        "day": pa.array(numbers, pa.date32()),
    }


def save(path: Path, *files: Sequence[int], state: dict[str, Any] | None = None) -> Path:
    """Lay a data set out as `Dataset.save_to_disk` does: a file for each range of rows."""
    names = [f"data-{number:05d}-of-{len(files):05d}.arrow" for number in range(len(files))]
    for name, numbers in zip(names, files, strict=True):
        write(path / name, rows_of(len(numbers), numbers[0]))
    found = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (path / "state.json").write_text(json.dumps(found | (state or {})), "utf-8")
    (path / "dataset_info.json").write_text(json.dumps({"features": FEATURES}), "utf-8")
    return path


def save_sides(path: Path) -> Path:
    save(path / "train", range(3), range(3, 5))
    save(path / "test", range(5, 7))
    (path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}', "utf-8")
    return path
