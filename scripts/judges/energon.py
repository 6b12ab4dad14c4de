"""What Megatron-Energon prepares and reads; run in an environment of its own, without dsprep.

Usage:
    energon.py prepare DIR        prepare the data sets below DIR as PREPARED says, without asking
    energon.py lint DIR           check a data set as `energon lint` does
    energon.py read DIR [SPLIT]   print the samples that its loader yields, as JSON
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_val_dataset,
    stateless,
)
from megatron.energon.cli.main import main

PREPARED = {
    "classes": [
        *("--split-parts", "train:train-", "--split-parts", "val:val-", "--split-parts", "test:^$"),
        *("--sample-type", "ImageClassificationSample"),
        *("--field-map", json.dumps({"image": "jpg,png", "label": "cls"})),
    ],
    "captions": [
        *("--split-ratio", "1,0,0", "--sample-type", "CaptioningSample"),
        *("--field-map", json.dumps({"image": "jpg", "caption": "caption.txt"})),
    ],
    "crude": ["--split-ratio", "1,0,0", "--sample-type", "CrudeWebdataset"],
}
FIELDS = ("image", "label", "caption", "text")


def plain(value: Any) -> Any:
    """Return a value of a sample as JSON has it; of an image, what its pixels are."""
    if getattr(value, "ndim", 0) != 3:
        return value
    pixels = (value * 255).round().byte().permute(1, 2, 0).contiguous().numpy()
    digest = hashlib.sha256(pixels.tobytes()).hexdigest()
    return ["RGB", pixels.shape[1], pixels.shape[0], digest]


@stateless  # type: ignore[untyped-decorator]
def cook(sample: dict[str, Any]) -> TextSample:
    """Make a sample of the extensions of a crude one."""
    own = sorted(name for name in sample if not name.startswith("__"))
    return TextSample(**basic_sample_keys(sample), text=" ".join(own))


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):  # type: ignore[misc]
    """Takes samples as they are."""

    cookers = [Cooker(cook)]

    def batch(self, samples: list[Any]) -> list[Any]:
        return samples


def read(directory: str, split: str = "train") -> list[dict[str, Any]]:
    """Read all samples once; return them in the order of their keys."""
    dataset = get_val_dataset(
        directory,
        split_part=split,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=4,
        task_encoder=Encoder(),
    )
    found = [
        {"__key__": sample.__key__}
        | {name: plain(getattr(sample, name)) for name in FIELDS if hasattr(sample, name)}
        for batch in get_loader(dataset)
        for sample in batch
    ]
    return sorted(found, key=lambda sample: str(sample["__key__"]))


def prepare(root: Path) -> None:
    """Prepare data sets, each in a way of its own."""
    for name, how in PREPARED.items():
        words = ["prepare", "--non-interactive", "--no-progress", "--num-workers", "1"]
        main([*words, *how, str(root / name)], standalone_mode=False)


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    if verb == "prepare":
        prepare(Path(arguments[0]))
    elif verb == "lint":
        main(["lint", *arguments])
    else:
        print(json.dumps(read(*arguments)))
