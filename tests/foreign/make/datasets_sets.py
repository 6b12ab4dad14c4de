"""Sets by Hugging Face's datasets 5.2.0: Parquet as `push_to_hub` writes it, and `imagefolder`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import yaml
from datasets import ClassLabel, Dataset, Features, Image, List, Value

from tests.foreign.make.pictures import (
    CAPTIONS,
    CLASSES,
    boxes,
    jpeg,
    mask,
    picture,
    place,
    png,
    seen,
    truth,
)

TOOL = f"datasets {datasets.__version__}"
COUNT = 8


def held(data: bytes, path: str | None) -> dict[str, Any]:
    return {"bytes": data, "path": path}


def write(
    dest: Path, features: Features, splits: dict[str, list[dict[str, Any]]], shards: int = 2
) -> None:
    """Lay a repository out as `push_to_hub` does: a card, and shards of each split in `data/`."""
    (dest / "data").mkdir()
    for split, rows in splits.items():
        whole = Dataset.from_list(rows, features=features)
        count = shards if split == "train" else 1
        for number in range(count):
            shard = whole.shard(count, number, contiguous=True)
            shard.to_parquet(dest / "data" / f"{split}-{number:05d}-of-{count:05d}.parquet")
    files = [{"split": split, "path": f"data/{split}-*"} for split in splits]
    card = {
        "dataset_info": {"features": features._to_yaml_list()},
        "configs": [{"config_name": "default", "data_files": files}],
    }
    (dest / "README.md").write_text(f"---\n{yaml.safe_dump(card, sort_keys=False)}---\n")


def classes() -> None:
    dest = place("hf-classes")
    features = Features(image=Image(), label=ClassLabel(names=list(CLASSES)))

    def rows(seeds: Iterable[int]) -> list[dict[str, Any]]:
        return [{"image": held(jpeg(s), f"{s:04d}.jpg"), "label": s % 3} for s in seeds]

    write(dest, features, {"train": rows(range(COUNT)), "test": rows(range(8, 11))})
    samples = [
        {"key": f"{seed:04d}", "image": seen(jpeg(seed)), "label": seed % 3}
        for seed in range(COUNT)
    ]
    types = {"image": "image", "label": "class"}
    truth(dest.name, TOOL, samples, types, {"label": list(CLASSES)})


def captions() -> None:
    dest = place("hf-captions")
    features = Features(
        image=Image(),
        caption=Value("string"),
        score=Value("float64"),
        aesthetic=Value("float32"),
        likes=Value("int64"),
        is_drawn=Value("bool"),
        tags=List(Value("string")),
        embedding=List(Value("float32")),
        annotation=Image(),
    )
    rows, samples = [], []
    for seed in range(COUNT):
        values = {
            "caption": CAPTIONS[seed],
            "score": seed + 0.1,
            "aesthetic": seed / 4,
            "likes": 10**seed,
            "is_drawn": seed % 2 == 0,
            "tags": CAPTIONS[seed].split()[: seed % 3 + 1],
            "embedding": [seed * 0.25, -1.5, 3.0],
        }
        images = {"image": held(jpeg(seed), None), "annotation": held(mask(seed), None)}
        rows.append({**images, **values})
        samples.append(
            {
                "key": f"train-00000-of-00001-{seed:07d}",
                "image": seen(jpeg(seed)),
                **values,
                "annotation": seen(mask(seed)),
            }
        )
    write(dest, features, {"train": rows}, shards=1)
    types = {
        "image": "image",
        "caption": "text",
        "score": "float64",
        "aesthetic": "float32",
        "likes": "int",
        "is_drawn": "bool",
        "tags": "list<text>",
        "embedding": "list<float32>",
        "annotation": "image",
    }
    truth(dest.name, TOOL, samples, types)


COARSE = ("insect", "mammal")


def fine_and_coarse() -> None:
    """As cifar100: two classes, the image is called `img`."""
    dest = place("hf-cifar100")
    features = Features(
        img=Image(),
        fine_label=ClassLabel(names=list(CLASSES)),
        coarse_label=ClassLabel(names=list(COARSE)),
    )
    numbers = [(seed % 3, int(seed % 3 == 2)) for seed in range(COUNT)]
    rows = [
        {"img": held(png(seed), None), "fine_label": fine, "coarse_label": coarse}
        for seed, (fine, coarse) in enumerate(numbers)
    ]
    write(dest, features, {"train": rows}, shards=1)
    samples = [
        {
            "key": f"train-00000-of-00001-{seed:07d}",
            "image": seen(png(seed)),
            "label": fine,
            "coarse_label": coarse,
        }
        for seed, (fine, coarse) in enumerate(numbers)
    ]
    types = {"image": "image", "label": "class", "coarse_label": "class"}
    names = {"label": list(CLASSES), "coarse_label": list(COARSE)}
    truth(dest.name, TOOL, samples, types, names)


def objects() -> None:
    """The form of cppe-5: a struct of lists."""
    dest = place("hf-objects")
    features = Features(
        image_id=Value("int64"),
        image=Image(),
        width=Value("int32"),
        height=Value("int32"),
        objects={
            "id": List(Value("int64")),
            "area": List(Value("int64")),
            "bbox": List(List(Value("float32"), length=4)),
            "category": List(ClassLabel(names=list(CLASSES))),
        },
    )
    rows, samples = [], []
    for seed in range(COUNT):
        image = picture(seed)
        found = [[8 * x0, 8 * y0, 8 * (x1 - x0), 8 * (y1 - y0)] for x0, y0, x1, y1 in boxes(seed)]
        value = {
            "id": [10 * seed + n for n in range(len(found))],
            "area": [int(w * h) for _, _, w, h in found],
            "bbox": found,
            "category": [(seed + n) % 3 for n in range(len(found))],
        }
        size = {"width": image.width, "height": image.height}
        rows.append(
            {"image_id": seed, "image": held(jpeg(seed), f"{seed}.jpg"), **size, "objects": value}
        )
        samples.append(
            {"key": str(seed), "image": seen(jpeg(seed)), "image_id": seed, "objects": value}
        )
    write(dest, features, {"train": rows}, shards=1)
    types = {"image": "image", "image_id": "int", "objects": "json"}
    truth(dest.name, TOOL, samples, types)


def objects_list() -> None:
    """A list of structs, as `datasets` before 4 did not write it; the label is text."""
    dest = place("hf-objects-list")
    features = Features(
        image=Image(),
        source=Value("string"),
        objects=List({"bbox": List(Value("float32"), length=4), "name": Value("string")}),
    )
    rows, samples = [], []
    for seed in range(COUNT):
        found = [
            {"bbox": box, "name": CLASSES[(seed + n) % 3]} for n, box in enumerate(boxes(seed))
        ]
        values = {"source": CAPTIONS[seed] if seed % 3 else None, "objects": found}
        rows.append({"image": held(jpeg(seed), f"{seed}.jpg"), **values})
        samples.append({"key": str(seed), "image": seen(jpeg(seed)), **values})
    write(dest, features, {"train": rows}, shards=1)
    types = {"image": "image", "source": "text", "objects": "json"}
    truth(dest.name, TOOL, samples, types)


def multi_label() -> None:
    """A column `labels`, a list of 0 and 1."""
    dest = place("hf-multilabel")
    features = Features(image=Image(), labels=List(Value("int64"), length=4))
    labels = [[int(bool(seed & 1 << bit)) for bit in range(4)] for seed in range(COUNT)]
    rows = [{"image": held(jpeg(s), f"{s}.jpg"), "labels": label} for s, label in enumerate(labels)]
    write(dest, features, {"train": rows}, shards=1)
    samples = [
        {"key": str(seed), "image": seen(jpeg(seed)), "label": label}
        for seed, label in enumerate(labels)
    ]
    truth(dest.name, TOOL, samples, {"image": "image", "label": "list<int>"})


def regression() -> None:
    """A label of floats, some of them whole."""
    dest = place("hf-regression")
    features = Features(image=Image(), label=Value("float32"))
    rows = [{"image": held(jpeg(s), f"{s}.jpg"), "label": s / 2} for s in range(COUNT)]
    write(dest, features, {"train": rows}, shards=1)
    samples = [
        {"key": str(seed), "image": seen(jpeg(seed)), "label": seed / 2} for seed in range(COUNT)
    ]
    truth(dest.name, TOOL, samples, {"image": "image", "label": "float32"})


def image_folder() -> None:
    """`imagefolder`, as its documentation lays it out; loaded once with datasets to prove it."""
    dest = place("hf-imagefolder")
    lines, samples = [], []
    (dest / "train").mkdir()
    for seed in range(COUNT):
        name = f"{seed:04d}.jpg"
        (dest / "train" / name).write_bytes(jpeg(seed))
        values = {"caption": CAPTIONS[seed], "label": CLASSES[seed % 3], "stars": seed / 4}
        lines.append(json.dumps({"file_name": name, **values}, ensure_ascii=False))
        samples.append(
            {"key": f"{seed:04d}", "image": seen(jpeg(seed)), **values, "label": seed % 3}
        )
    (dest / "train" / "metadata.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(dest), split="train")
    assert loaded.column_names == ["image", "caption", "label", "stars"]
    types = {"image": "image", "caption": "text", "label": "class", "stars": "float64"}
    truth(dest.name, TOOL, samples, types, {"label": list(CLASSES)})


def image_folder_classes() -> None:
    """Directories, and captions in `metadata.jsonl` above them: to datasets they are no classes."""
    dest = place("hf-imagefolder-classes")
    lines, samples = [], []
    for seed in range(COUNT):
        path = dest / CLASSES[seed % 3] / f"{seed:04d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(seed))
        name = path.relative_to(dest).as_posix()
        line = {"file_name": name, "caption": CAPTIONS[seed]}
        lines.append(json.dumps(line, ensure_ascii=False))
        samples.append({"key": name[:-4], "image": seen(jpeg(seed)), "caption": CAPTIONS[seed]})
    (dest / "metadata.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(dest), split="train")
    assert loaded.column_names == ["image", "caption"]
    truth(dest.name, TOOL, samples, {"image": "image", "caption": "text"})


def older() -> None:
    """As datasets before 4 wrote it: `Sequence`, a struct of lists; and a plain `image` column."""
    dest = place("hf-sequence")
    features = Features(
        image=Image(),
        labels=ClassLabel(names=list(CLASSES)),
        tags=List(Value("string")),
        prompt=Value("large_string"),
    )
    rows, samples = [], []
    for seed in range(COUNT):
        values = {"tags": CAPTIONS[seed].split(), "prompt": CAPTIONS[seed]}
        rows.append({"image": held(png(seed), None), "labels": seed % 3, **values})
        samples.append({"key": None, "image": seen(png(seed)), "label": seed % 3, **values})
    write(dest, features, {"train": rows}, shards=1)
    path = dest / "data" / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    noted = table.schema.metadata[b"huggingface"].replace(b'"List"', b'"Sequence"')
    pq.write_table(table.replace_schema_metadata({b"huggingface": noted}), path)
    types = {"image": "image", "label": "class", "tags": "list<text>", "prompt": "text"}
    truth(dest.name, TOOL, samples, types, {"label": list(CLASSES)})


def image_folder_csv() -> None:
    """The same with `metadata.csv`, and a mask that the metadata refers to."""
    dest = place("hf-imagefolder-csv")
    rows, samples = [], []
    for seed in range(COUNT):
        name, other = f"{seed:04d}.jpg", f"{seed:04d}_mask.png"
        (dest / name).write_bytes(jpeg(seed))
        (dest / other).write_bytes(mask(seed))
        rows.append((name, other, CAPTIONS[seed], seed))
        samples.append(
            {
                "key": f"{seed:04d}",
                "image": seen(jpeg(seed)),
                "mask": seen(mask(seed)),
                "caption": CAPTIONS[seed],
                "likes": seed,
            }
        )
    with (dest / "metadata.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("file_name", "mask_file_name", "caption", "likes"), *rows])
    loaded = datasets.load_dataset("imagefolder", data_dir=str(dest), split="train")
    assert loaded.column_names == ["image", "mask", "caption", "likes"]
    types = {"image": "image", "mask": "image", "caption": "text", "likes": "int"}
    truth(dest.name, TOOL, samples, types)


if __name__ == "__main__":
    for each in (
        *(classes, captions, fine_and_coarse, objects, objects_list),
        *(multi_label, regression, image_folder, image_folder_csv, image_folder_classes),
        older,
    ):
        each()
