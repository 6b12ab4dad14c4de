"""The practice's loop: batches of 4, mean and variance of the step every 100 steps."""

import os
import sys
import time
from statistics import fmean, pvariance

from torch.utils.data import DataLoader

folder, workers, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
found = (os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)
paths = sorted(path for path in found if path.lower().endswith((".jpg", ".jpeg")))


class Files:
    def __len__(self):
        return len(paths)

    def __getitem__(self, at):
        with open(paths[at], "rb") as file:
            return file.read()


def epochs():
    while True:
        yield from loader


loader = DataLoader(
    Files(), 4, num_workers=workers, collate_fn=list, persistent_workers=workers > 0
)
batches, means = epochs(), []
for _ in range(steps // 100):
    times = []
    for _ in range(100):
        began = time.perf_counter()
        next(batches)
        times.append(time.perf_counter() - began)
    means.append(fmean(times))
    print(fmean(times), pvariance(times), file=sys.stderr)
print(fmean(means[1:]))
