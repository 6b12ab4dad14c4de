"""Leave out tests for what is not installed; with DSPREP_TESTS=all they fail instead."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from types import ModuleType
from typing import NoReturn

import pytest


def leave_out(reason: str) -> NoReturn:
    """Skip the test that runs; the summary names the reason (conftest.py)."""
    if os.environ.get("DSPREP_TESTS") == "all":
        pytest.fail(f"{reason} (DSPREP_TESTS=all leaves nothing out)")
    pytest.skip(reason)


def framework(name: str) -> ModuleType:
    """Import a framework that reads what dsprep wrote."""
    if name == "mxnet":
        if sys.version_info >= (3, 12):
            leave_out("MXNet has no release for Python 3.12 and later")
        import numpy

        # MXNet uses numpy's names for Python's own types, which numpy 1.24 removed.
        for alias in (bool, int, float, object, str, complex):
            setattr(numpy, alias.__name__, alias)
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:  # not installed; a system library is missing
        leave_out(f"{name} cannot be imported ({error}): run `make setup`")


class Frameworks:
    """The frameworks, each imported when a test first asks for it."""

    @property
    def mxnet(self) -> ModuleType:
        return framework("mxnet")

    @property
    def tensorflow(self) -> ModuleType:
        return framework("tensorflow")

    @property
    def webdataset(self) -> ModuleType:
        return framework("webdataset")

    @property
    def datasets(self) -> ModuleType:
        datasets = framework("datasets")
        datasets.disable_progress_bars()
        return datasets


def need_commands(what: str, *commands: str) -> None:
    """Leave the test out unless all commands are on the PATH."""
    if lacking := [each for each in commands if shutil.which(each) is None]:
        leave_out(f"{what} is not installed ({', '.join(lacking)}): run scripts/servers.sh as root")
