"""The source that all tests of the command line share; nobody writes into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images import image_folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve good images in three classes, one of which is not ASCII."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    image_folder(root, ("cat", "dog", "pets/ねこ"), per_class=4)
    return root
