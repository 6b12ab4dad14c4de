"""Read a wids index as wids does, and print what it gives: `read_with_wids.py INDEX CACHE`.

wids imports PyTorch for its samplers, which nothing here uses: what it takes from there stands in.
"""

import json
import sys
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")


class Dataset(Generic[T]):
    pass


for name in ("torch", "torch.distributed", "torch.utils", "torch.utils.data"):
    sys.modules[name] = ModuleType(name)
sys.modules["torch"].distributed = sys.modules["torch.distributed"]
sys.modules["torch.utils.data"].Dataset = Dataset
sys.modules["torch.utils.data"].Sampler = object

import wids  # noqa: E402

index, cache = sys.argv[1:]
dataset = wids.ShardListDataset(index, cache_dir=cache, transformations=[])
samples = [dataset[position] for position in range(len(dataset))]
json.dump(
    [
        {
            "key": sample["__key__"],
            "image": (sample.get(".jpg") or sample[".png"]).read().hex(),
            "cls": sample[".cls"].read().decode(),
        }
        for sample in samples
    ],
    sys.stdout,
)
