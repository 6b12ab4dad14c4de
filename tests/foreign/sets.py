"""The sets in `data`: what names each on the command line, and what is in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Foreign:
    """A data set that another tool made.

    Attributes:
        name: Its name; `NAME.json` is what is in it.
        format: That of the files that hold the samples; one of the targets' names.
        source: The path below its directory that names it.
        options: What has to be said of it besides.
        skipped: Whether it has rows that are no samples, which `convert` reports.
    """

    name: str
    format: str
    source: str = ""
    options: tuple[str, ...] = ()
    skipped: bool = False

    @property
    def args(self) -> tuple[object, ...]:
        """What names it on the command line."""
        return (DATA / self.name / self.source, *self.options)


def _sets(format: str, *names: str) -> tuple[Foreign, ...]:
    return tuple(Foreign(name, format) for name in names)


SETS = {
    each.name: each
    for each in (
        *_sets("webdataset", "img2dataset-webdataset", "wds-cls", "wds-jpeg", "wds-upper"),
        *_sets("webdataset", "wds-image-jpg", "wds-rgb-png", "wds-0-jpg", "wds-masks"),
        *_sets("webdataset", "wds-cls-newline", "wds-cls-blanks", "wds-cls-list", "wds-cls-float"),
        *_sets("webdataset", "wds-cls-name", "wds-seg-png", "wds-captions", "wds-mixed"),
        *_sets("webdataset", "wds-arrays", "wds-some", "wds-json-numbers", "tar-dot"),
        *_sets("webdataset", "wds-directories"),
        Foreign("wds-json-label", "webdataset", options=("--label-field", "json.label")),
        Foreign("tar-apart", "webdataset", "x.tar", ("--from", "parts")),
        Foreign("wds-target", "webdataset", options=("--label-field", "target")),
        Foreign("wds-index", "webdataset", options=("--label-field", "index")),
        *_sets("folder", "img2dataset-files", "class-folder", "hf-imagefolder-csv"),
        *_sets("folder", "hf-imagefolder-classes"),
        Foreign("hf-imagefolder", "folder", "train"),
        Foreign("img2dataset-parquet", "parquet", skipped=True),
        Foreign("hf-classes", "parquet", "data/train-*.parquet"),
        Foreign("hf-cifar100", "parquet", options=("--label-field", "fine_label")),
        *_sets(
            "parquet",
            "hf-captions",
            "hf-objects",
            "hf-objects-list",
            "hf-multilabel",
            "hf-regression",
        ),
        *_sets("tfrecord", "img2dataset-tfrecord", "slim", "inception", "detection"),
        *_sets("tfrecord", "one-hot", "gzip", "zlib", "deeplab", "cifar-raw", "mnist-raw"),
        Foreign("by-hand", "tfrecord", options=("--image-field", "img", "--label-field", "y")),
        *_sets("tfrecord", "label-text", "label-float"),
        Foreign("tfds-nested", "tfrecord", "tiny_nested/1.0.0/tiny_nested-train.tfrecord*"),
        Foreign("two-sides", "tfrecord", "imagenet-train-*"),
        Foreign("tfds-classes", "tfrecord", "tiny_animals/1.0.0/tiny_animals-train.tfrecord*"),
        Foreign("tfds-objects", "tfrecord", "tiny_objects/1.0.0/tiny_objects-train.tfrecord*"),
        Foreign("tfds-masks", "tfrecord", "tiny_masks/1.0.0/tiny_masks-train.tfrecord*"),
        *_sets("recordio", "im2rec", "im2rec-multi", "im2rec-detection", "insightface"),
    )
}
"""Every set by its name."""

TARGETS = ("webdataset", "tfrecord", "recordio", "parquet", "folder")
"""What each is converted to."""


@dataclass(frozen=True)
class Truth:
    """What is in a set.

    Attributes:
        types: The type of each field; `image` and `label` are the image and the label.
        classes: The names of the classes of fields.
        samples: The samples in the order of the source, by the pixels of their images, each with
            its fields and `key`, which is None if the source tells none.
    """

    types: dict[str, str]
    classes: dict[str, list[str]]
    samples: dict[str, dict[str, Any]]

    @property
    def label(self) -> str | None:
        """The type of the label; None if there is none. A field `label` may be a second image."""
        kind = self.types.get("label")
        return None if kind == "image" else kind

    @property
    def others(self) -> dict[str, str]:
        """The types of the fields that are neither the image nor the label."""
        roles = ("image", "label") if self.label else ("image",)
        return {name: kind for name, kind in self.types.items() if name not in roles}

    def image_and_label(self) -> Truth:
        """What is left of it with `--only image,label`."""
        kept = self.types.keys() - self.others.keys()
        samples = {
            pixels: {name: value for name, value in sample.items() if name in kept | {"key"}}
            for pixels, sample in self.samples.items()
        }
        return Truth(
            {name: kind for name, kind in self.types.items() if name in kept},
            {name: names for name, names in self.classes.items() if name in kept},
            samples,
        )


@cache
def truth(name: str) -> Truth:
    """Read what is in a set."""
    values = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    samples = {each["image"]["pixels"]: each for each in values["samples"]}
    assert len(samples) == len(values["samples"])
    return Truth(values["types"], values["classes"], samples)
