"""A run that hangs is ended and tells where: for what pytest's timers of each test do not guard."""

from __future__ import annotations

import faulthandler
import sys

import pytest

WHOLE_RUN, LAST_STEPS = 3600, 120
"""Seconds that they may take."""


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # it waits for the processes that run the tests
        faulthandler.dump_traceback_later(WHOLE_RUN, exit=True, file=sys.__stderr__)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        faulthandler.dump_traceback_later(LAST_STEPS, exit=True, file=sys.__stderr__)
