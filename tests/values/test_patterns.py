"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import pickle
import re

import pytest

from dsprep.patterns import pattern


def test_a_pattern_is_compiled_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "compile", lambda *_: pytest.fail("is not used yet"))
    found = pattern(r"(\w)\.JPG$", re.IGNORECASE)
    assert found.pattern == r"(\w)\.JPG$"
    monkeypatch.undo()
    match = found.search("a.jpg")
    assert match is not None
    assert match[1] == "a"
    assert found.fullmatch("ab.jpg") is None
    assert found.sub(r"\1.png", "a.jpg") == "a.png"
    assert pickle.loads(pickle.dumps(found)).search("b.jpg")


def test_a_pattern_of_bytes() -> None:
    found = pattern(rb"(?m)^names\s*:", re.IGNORECASE)
    assert found.search(b"path: a\nNames: b")
    assert not found.match(b"path: a\nNames: b")
