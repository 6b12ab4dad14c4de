"""MosaicML Streaming without its data sets, which import torchvision and transformers."""

from __future__ import annotations

import importlib.util
import sys
import types

spec = importlib.util.find_spec("streaming")
assert spec is not None and spec.submodule_search_locations is not None
package = types.ModuleType("streaming")
package.__path__ = list(spec.submodule_search_locations)
sys.modules["streaming"] = package
