"""The samples of the matrix, and the libraries that judge it."""

from __future__ import annotations

import pytest

from tests.matrix.sources import Samples
from tests.missing import Frameworks


@pytest.fixture(scope="session")
def peers() -> Frameworks:
    return Frameworks()


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Three classes of four images, as a folder; nobody writes into it."""
    return Samples(tmp_path_factory.mktemp("samples") / "photos")
