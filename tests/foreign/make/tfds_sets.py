"""Sets by tensorflow-datasets 4.9.10: three builders, prepared into a directory."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tests.foreign.make.pictures import (
    CAPTIONS,
    CLASSES,
    boxes,
    jpeg,
    mask,
    place,
    png,
    seen,
    truth,
)

TOOL = f"tensorflow-datasets {tfds.__version__}"
SPLITS = {"train": range(8), "test": range(8, 11)}


def file(data: bytes) -> io.BytesIO:
    return io.BytesIO(data)


class TinyAnimals(tfds.core.GeneratorBasedBuilder):
    """Images and classes, as cats_vs_dogs or tf_flowers."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(encoding_format="jpeg"),
            "label": tfds.features.ClassLabel(names=list(CLASSES)),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Drawn animals.",
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {name: self._generate_examples(seeds) for name, seeds in SPLITS.items()}

    def _generate_examples(self, seeds: range) -> Iterator[tuple[int, dict[str, Any]]]:
        for seed in seeds:
            yield seed, {"image": file(jpeg(seed)), "label": CLASSES[seed % 3]}


class TinyObjects(TinyAnimals):
    """Boxes, a caption and an embedding beside the image, as coco_captions."""

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(encoding_format="jpeg"),
            "image/filename": tfds.features.Text(),
            "caption": tfds.features.Text(),
            "embedding": tfds.features.Tensor(shape=(4,), dtype=np.float32),
            "is_outdoor": np.bool_,
            "objects": tfds.features.Sequence(
                {
                    "bbox": tfds.features.BBoxFeature(),
                    "label": tfds.features.ClassLabel(names=list(CLASSES)),
                }
            ),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Drawn animals.",
            features=tfds.features.FeaturesDict(features),
        )

    def _generate_examples(self, seeds: range) -> Iterator[tuple[int, dict[str, Any]]]:
        for seed in seeds:
            yield (
                seed,
                {
                    "image": file(jpeg(seed)),
                    "image/filename": f"photo {seed}.jpg",
                    "caption": CAPTIONS[seed % 8],
                    "embedding": np.float32([seed, seed / 10, -1, 0.5]),
                    "is_outdoor": bool(seed % 2),
                    "objects": [
                        {
                            "bbox": tfds.features.BBox(y0, x0, y1, x1),
                            "label": CLASSES[(seed + n) % 3],
                        }
                        for n, (x0, y0, x1, y1) in enumerate(boxes(seed))
                    ],
                },
            )


class TinyMasks(TinyAnimals):
    """An image and its segmentation, as oxford_iiit_pet."""

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
            "label": tfds.features.ClassLabel(names=list(CLASSES)),
            "segmentation_mask": tfds.features.Image(
                shape=(None, None, 1), use_colormap=True, encoding_format="png"
            ),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Drawn animals.",
            features=tfds.features.FeaturesDict(features),
        )

    def _generate_examples(self, seeds: range) -> Iterator[tuple[int, dict[str, Any]]]:
        for seed in seeds:
            yield (
                seed,
                {
                    "image": file(jpeg(seed)),
                    "label": seed % 3,
                    "segmentation_mask": file(mask(seed)),
                },
            )


class TinyNested(TinyAnimals):
    """PNG, classes without names, features in features, texts in a sequence."""

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "id": tfds.features.Text(),
            "image": tfds.features.Image(encoding_format="png"),
            "label": tfds.features.ClassLabel(num_classes=3),
            "meta": {"source": tfds.features.Text(), "year": np.int64},
            "captions": tfds.features.Sequence(tfds.features.Text()),
            "scores": tfds.features.Tensor(shape=(None,), dtype=np.float32),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Drawn animals.",
            features=tfds.features.FeaturesDict(features),
        )

    def _generate_examples(self, seeds: range) -> Iterator[tuple[int, dict[str, Any]]]:
        for seed in seeds:
            yield seed, {"image": file(png(seed)), "label": seed % 3, **nested(seed, {})}


def nested(seed: int, flat: dict[str, Any]) -> dict[str, Any]:
    values = {
        "id": f"#{seed}",
        "captions": list(CAPTIONS[: seed % 4]),
        "scores": np.float32([seed / 10] * (1 + seed % 2)),
    }
    return {**values, **(flat or {"meta": {"source": CAPTIONS[seed % 8], "year": 2000 + seed}})}


def floats(values: list[float]) -> list[float]:
    return [float(np.float32(value)) for value in values]


def objects(seed: int) -> dict[str, Any]:
    found = boxes(seed)
    return {
        "caption": CAPTIONS[seed % 8],
        "embedding": floats([seed, seed / 10, -1, 0.5]),
        "is_outdoor": bool(seed % 2),
        "objects/bbox": [side for x0, y0, x1, y1 in found for side in (y0, x0, y1, x1)],
        "objects/label": [(seed + n) % 3 for n in range(len(found))],
    }


def main() -> None:
    import tensorflow as tf

    builders: dict[str, tuple[type[TinyAnimals], dict[str, str], dict[str, list[str]]]] = {
        "tfds-classes": (TinyAnimals, {"label": "class"}, {"label": list(CLASSES)}),
        "tfds-objects": (
            TinyObjects,
            {
                "caption": "text",
                "embedding": "list<float32>",
                "is_outdoor": "bool",
                "objects/bbox": "list<float32>",
                "objects/label": "list<int>",
            },
            {},
        ),
        "tfds-nested": (
            TinyNested,
            {
                "label": "class",
                "id": "text",
                "meta/source": "text",
                "meta/year": "int",
                "captions": "list<text>",
                "scores": "list<float32>",
            },
            {},
        ),
        "tfds-masks": (
            TinyMasks,
            {"label": "class", "segmentation_mask": "image"},
            {"label": list(CLASSES)},
        ),
    }
    for name, (kind, types, classes) in builders.items():
        dest = place(name)
        with TemporaryDirectory() as scratch:
            builder = kind(data_dir=scratch)
            builder.download_and_prepare()
            made = Path(builder.data_dir)
            shutil.copytree(made, dest / made.relative_to(scratch))
        own = dest / made.relative_to(scratch)
        draw = png if name == "tfds-nested" else jpeg
        by_image = {seen(draw(seed))["pixels"]: seed for seed in SPLITS["train"]}
        samples = []
        # TFDS shuffles by a hash of the key: the records tell the order.
        for path in sorted(own.glob("*-train.tfrecord-*")):
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                features = tf.train.Example.FromString(record).features.feature
                (image,) = features["image"].bytes_list.value
                seed = by_image[seen(image)["pixels"]]
                sample: dict[str, Any] = {"key": None, "image": seen(image)}
                if name == "tfds-objects":
                    sample |= {"key": f"photo {seed}", **objects(seed)}
                else:
                    sample["label"] = seed % 3
                if name == "tfds-nested":
                    flat = {"meta/source": CAPTIONS[seed % 8], "meta/year": 2000 + seed}
                    sample |= nested(seed, flat)
                    sample["scores"] = sample["scores"].tolist()
                if name == "tfds-masks":
                    (data,) = features["segmentation_mask"].bytes_list.value
                    sample["segmentation_mask"] = seen(data)
                samples.append(sample)
        truth(name, TOOL, samples, {"image": "image", **types}, classes)


if __name__ == "__main__":
    main()
