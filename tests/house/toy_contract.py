"""The tests of the toy source, which `test_recipes.py` runs where the toy has been added."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from dsprep.sources.kind import SourceKind
from dsprep.sources.kinds import all_kinds
from dsprep.testing import SourceTests


class TestPaths(SourceTests):
    kind: ClassVar[type[SourceKind]] = next(k for k in all_kinds().kinds if k.__name__ == "Paths")

    def make(self, root: Path) -> Path:
        (root / "cats").mkdir(parents=True)
        (root / "cats" / "1.jpg").write_bytes(b"\xff\xd8\xff")
        (root / "lists").mkdir()
        (root / "lists" / "some.paths").write_text("cats/1.jpg\tcat\n", "utf-8")
        return root / "lists" / "some.paths"

    def options(self, root: Path) -> dict[str, Any]:
        return {"kind_options": {"paths_below": str(root)}}
