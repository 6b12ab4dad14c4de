"""Draw the data set of `make demo`: four classes of pictures, with what goes wrong in real ones.

python -m scripts.demo_images FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests import images

CLASSES = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6}
PER_CLASS = 75
SIZE = (256, 192)


def write_images(root: Path) -> None:
    """Write the folder."""
    for name, sides in CLASSES.items():
        (root / name).mkdir(parents=True)
        for i in range(PER_CLASS):
            picture = images.draw(seed=i, size=SIZE, sides=sides)
            kind = "png" if i % 5 == 0 else "jpeg"
            (root / name / f"{i:03}.{kind}").write_bytes(images.encode(picture, kind))

    # Broken: these are rejected, and said.
    (root / "triangle" / "cut.jpeg").write_bytes(images.truncated(images.jpeg(1, SIZE)))
    (root / "square" / "empty.jpeg").write_bytes(b"")
    (root / "hexagon" / "not-an-image.jpeg").write_text("<html>404 Not Found</html>\n")
    (root / "pentagon" / "bomb.png").write_bytes(images.bomb())
    # Unusual, but whole: a PNG under a JPEG's name, and CMYK.
    (root / "square" / "misnamed.jpeg").write_bytes(images.png(2, SIZE))
    (root / "hexagon" / "cmyk.jpeg").write_bytes(images.jpeg(3, SIZE, "CMYK"))
    # Never samples: skipped, and said.
    (root / "triangle" / "notes.txt").write_text("Drawn, not photographed.\n")
    (root / "pentagon" / ".hidden.jpeg").write_bytes(images.jpeg(4, SIZE))


if __name__ == "__main__":
    write_images(Path(sys.argv[1]))
