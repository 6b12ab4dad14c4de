"""Leave out tests for what is not installed; with DSPREP_TESTS=all they fail instead."""

from __future__ import annotations

import importlib
import os
import shutil
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
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:  # not installed; a system library is missing
        leave_out(f"{name} cannot be imported ({error}): run `make setup`")


def need_commands(what: str, *commands: str) -> None:
    """Leave the test out unless all commands are on the PATH."""
    if lacking := [each for each in commands if shutil.which(each) is None]:
        leave_out(f"{what} is not installed ({', '.join(lacking)}): run scripts/servers.sh as root")
