"""Run MXNet's own tools/im2rec.py, unchanged, with its own arguments.

MXNet 1.9.1 uses names that NumPy has removed since; they are put back first.
"""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import numpy

for builtin in (bool, int, float, complex, object, str):
    setattr(numpy, builtin.__name__, builtin)

spec = importlib.util.find_spec("mxnet")
assert spec is not None and spec.origin is not None
runpy.run_path(str(Path(spec.origin).parent / "tools" / "im2rec.py"), run_name="__main__")
