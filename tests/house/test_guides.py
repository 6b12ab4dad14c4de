"""The guides work as written: each command and each piece of Python in them, from top to bottom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.images import image_folder

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def write_data_set(root: Path) -> None:
    """Write what the guides speak of: images/, val/, train.lst and train.csv."""
    files = image_folder(root / "images", ("birds/owl", "cat", "dog"), 16, size=(320, 240))
    image_folder(root / "val", ("cat", "dog"), 4)
    rows = list(enumerate(files))
    lst = "".join(f"{i}\t{i % 3}\t{path}\n" for i, path in rows)
    (root / "train.lst").write_text(lst, "utf-8")
    csv = "".join(
        f"{path.removesuffix('.jpg')},{'pug' if i % 2 else 'corgi'}\n" for i, path in rows
    )
    (root / "train.csv").write_text(f"id,breed\n{csv}", "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.name)
def test_guide(guide: Path, tmp_path: Path, command: Path) -> None:
    write_data_set(tmp_path)
    for kind, block in re.findall(
        r"^```(sh|python)\n(.*?)^```", guide.read_text("utf-8"), re.M | re.S
    ):
        if kind == "python":
            done = subprocess.run(
                [sys.executable, "-c", block],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{block}\n{done.stderr}"
            continue
        for line in block.replace("\\\n", " ").splitlines():
            told = re.search(r"# exits with ([0-9]+)", line)
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                cwd=tmp_path,
                env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == int(told[1] if told else 0), f"{line}\n{done.stderr}"
            assert "Traceback" not in done.stderr
