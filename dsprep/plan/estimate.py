"""What images will weigh after a transform, which nobody knows before it is done.

A seeded sample of the catalog is transformed, and the encoded sizes are fitted by a power of the
sizes in the source: ``encoded = factor · source ** power``. Images that compress badly do so in
both, so the fit leaves much less scatter than a mean does. Shards are then planned a little below
their target, by how much the sums of so many estimates can err.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SAMPLE = 400
"""How many images are tried. The error of the total falls with the root of this."""

TOLERANCE = 0.05
"""How far above its target a shard may come when sizes are estimates."""

_SIGMAS = 4.0
"""Planned for: an error this many standard deviations large, one shard in thirty thousand."""


@dataclass(frozen=True)
class SizeModel:
    """Encoded sizes as a function of sizes in the source."""

    factor: float  # see above
    power: float  # from 0 (all images come out alike) to 1 (in proportion to the source)
    scatter: float  # the standard deviation of encoded over predicted size
    tried: int  # how many images it was fitted to

    def predict(self, source_size: int) -> int:
        """The estimate for one image, in bytes."""
        return math.ceil(self.factor * math.pow(source_size, self.power))

    def safe_capacity(self, capacity: int, mean: float) -> int:
        """How full to plan a shard, so that it will not come out above the tolerance."""
        samples = max(1.0, capacity / mean)
        error = _SIGMAS * self.scatter * (1 / math.sqrt(samples) + 1 / math.sqrt(self.tried))
        return int(capacity * min(1.0, (1 + TOLERANCE) / (1 + error)))


def fit(source: Sequence[int], encoded: Sequence[int]) -> SizeModel:
    """Fit the model."""
    power = 0.0
    if len(set(source)) > 1:
        logs = [math.log(size) for size in source]
        slope = statistics.linear_regression(logs, [math.log(size) for size in encoded]).slope
        power = min(1.0, max(0.0, slope))
    raised = [size**power for size in source]
    factor = sum(encoded) / sum(raised)
    ratios = [size / (factor * each) for size, each in zip(encoded, raised, strict=True)]
    return SizeModel(factor, power, statistics.pstdev(ratios), len(ratios))
