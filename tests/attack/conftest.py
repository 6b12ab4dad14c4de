"""Sources that all attacks share; nobody writes into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images import image_folder, jpeg, truncated


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty-four good images in three classes."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    image_folder(root, ("cat", "dog", "pets/owl"), per_class=8)
    return root


@pytest.fixture(scope="session")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven good images, and a last one that is cut off, with a line separator in its name."""
    root = tmp_path_factory.mktemp("flawed") / "flawed"
    image_folder(root, ("cat", "dog"), per_class=6)
    (root / "dog" / "005.jpg").unlink()
    (root / "dog" / "005\u2028.jpg").write_bytes(truncated(jpeg(seed=11)))
    return root
