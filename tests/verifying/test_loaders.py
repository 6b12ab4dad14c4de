"""A framework that `verify --loader` does not find: how to get it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dsprep.errors import OptionError
from dsprep.verifying import loaders


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("mxnet", (3, 11), "pip install mxnet 'numpy<2'"),
        ("mxnet", (3, 13), r"no release for Python 3\.12 and later; use Python 3\.11"),
        ("tensorflow", (3, 13), "pip install tensorflow-cpu"),
        ("streaming", (3, 13), "pip install mosaicml-streaming"),
    ],
)
def test_one_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, name: str, version: tuple[int, int], words: str
) -> None:
    monkeypatch.setattr(loaders, "find_spec", lambda _: None)
    monkeypatch.setattr(loaders, "sys", SimpleNamespace(version_info=version))
    with pytest.raises(OptionError, match=words):
        loaders.require_loader(name, loaders.LOADERS[name][0])
