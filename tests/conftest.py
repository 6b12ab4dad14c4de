"""Fixtures of all tests: the frameworks that judge the shards, and the installed command."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

# Read by TensorFlow when it loads, here or in a subprocess: no log lines, no GPU, one way to round.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")


@pytest.fixture(scope="session")
def mxnet() -> ModuleType:
    """MXNet, which uses numpy's names for Python's own types, gone from numpy since 1.24."""
    import numpy

    for name in (bool, int, float, object, str, complex):
        setattr(numpy, name.__name__, name)
    return importlib.import_module("mxnet")


@pytest.fixture(scope="session")
def tensorflow() -> ModuleType:
    return importlib.import_module("tensorflow")


@pytest.fixture(scope="session")
def webdataset() -> ModuleType:
    return importlib.import_module("webdataset")


class Finished(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def run_cli() -> Callable[..., Finished]:
    """Call the installed `dsprep` as a shell would: `run_cli("pack", source, dest, "-q")`."""
    command = Path(sys.executable).with_name("dsprep")
    assert command.exists(), f"{command} is missing: install dsprep (`make setup`)"

    def run(
        *args: object,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> Finished:
        done = subprocess.run(
            [command, *map(str, args)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run
