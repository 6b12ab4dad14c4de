"""The source that all tests of checks share; nobody writes into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images import image_folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty-four good images in three classes."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    image_folder(root, ("cat", "dog", "pets/owl"), per_class=8)
    return root
