"""Fixtures of the tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dsprep.workers.pool import Pool


@pytest.fixture(scope="session")
def worker() -> Iterator[Pool]:
    """A process that reads as a worker of a run does."""
    with Pool(1) as pool:
        yield pool
