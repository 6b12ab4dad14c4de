"""What one module does for all others; `python -m scripts.house` counts the modules that do it."""

from __future__ import annotations

import pytest

from scripts.house import ONE_PLACE, modules_with

PLACES = {"number class names": "numbering", "read CSV": "csv_parsers"}


@pytest.mark.parametrize("what", ONE_PLACE)
def test_one_module_does_it_for_all(what: str) -> None:
    assert modules_with(ONE_PLACE[what]) == [PLACES[what]], "call what that module offers"
