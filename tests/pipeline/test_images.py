"""What becomes of images that are encoded again."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Finished
from tests.images import jpeg, png


def test_a_new_image_replaces_no_other_field(
    run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    """A JPEG that becomes a PNG would have the name of the PNG beside it."""
    with tarfile.open(tmp_path / "pairs.tar", "w") as tar:
        for name, data in (("0.jpg", jpeg()), ("0.png", png(9)), ("1.jpg", jpeg(1))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    command = ("convert", tmp_path / "pairs.tar", tmp_path / "new.tar", "-j1")
    done = run_here(*command, "--encode", "png", "--image-field", "jpg")
    assert done.code == 3
    assert "its new image would replace its field png: give --drop png" in done.out
    with tarfile.open(tmp_path / "new.tar") as tar:
        assert tar.getnames() == ["1.png"]
