"""The samples of the matrix, and the libraries that judge it."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.matrix.sources import Peers, Samples


@pytest.fixture(scope="session")
def peers(mxnet: ModuleType, tensorflow: ModuleType, webdataset: ModuleType) -> Peers:
    return Peers(tensorflow, mxnet, webdataset)


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Three classes of four images, as a folder; nobody writes into it."""
    return Samples(tmp_path_factory.mktemp("samples") / "photos")
