"""A loop of WebDataset: bytes of images in batches of 4."""

import sys
import time
from itertools import islice

import webdataset as wds

workers, steps, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
data = wds.WebDataset(paths, shardshuffle=False).repeat()
data = data.map(lambda sample: sample["jpg"]).batched(4, list)
if workers:
    data = wds.WebLoader(data, batch_size=None, num_workers=workers)
batches = iter(data)
for _ in islice(batches, 100):
    pass
began = time.perf_counter()
for batch in islice(batches, steps - 100):
    sum(map(len, batch))
print((time.perf_counter() - began) / (steps - 100))
