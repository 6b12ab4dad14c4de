"""Fixtures of all tests: the frameworks that judge the shards, and the installed command."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

# linux/prctl.h and linux/capability.h
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

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


def bind_to_permissions() -> None:
    """Take from root, at the next exec, the right to read and write what nobody may."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


class Finished(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def command() -> Path:
    """The installed `dsprep`."""
    command = Path(sys.executable).with_name("dsprep")
    assert command.exists(), f"{command} is missing: install dsprep (`make setup`)"
    return command


@pytest.fixture(scope="session")
def run_cli(command: Path) -> Callable[..., Finished]:
    """Call `dsprep` as a shell would: `run_cli("pack", source, dest, "-q")`.

    Whatever a test does to it, it never shows a traceback. With `bound=True` permissions bind it
    even where root runs the tests.
    """

    def run(
        *args: object,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
        bound: bool = False,
    ) -> Finished:
        done = subprocess.run(
            [command, *map(str, args)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=timeout,
            preexec_fn=bind_to_permissions if bound else None,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)

    return run
