"""A test that hangs fails, named, and the run goes on to its summary."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = """
import ctypes, os, time
import pytest

def deadlock():
    mutex, libc = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    for _ in range(2):
        libc.pthread_mutex_lock(mutex)

@pytest.fixture
def stuck():
    yield
    deadlock()

def test_in_c():
    if os.fork():  # the child holds on to the pipe between the worker and xdist
        deadlock()
    time.sleep(60)

def test_in_python():
    time.sleep(60)

def test_in_a_teardown(stuck):
    pass

@pytest.mark.parametrize("number", range(9))
def test_good(number):
    pass
"""


def test_what_hangs_fails_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text(TESTS)
    (tmp_path / "pytest.ini").touch()
    options = ("-q", "-n2", "--dist=worksteal", "--timeout=4", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-p", "tests.hangs"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    *_, last = done.stdout.splitlines()
    assert done.returncode == 1
    assert last.startswith("3 failed, 10 passed"), done.stdout
    for name, reason in (
        ("test_in_c", "crashed while running 'test_hang.py::test_in_c'"),
        ("test_in_python", "Timeout"),
        ("test_in_a_teardown", "crashed while running 'test_hang.py::test_in_a_teardown'"),
    ):
        (line,) = (
            each for each in done.stdout.splitlines() if each.startswith("FAILED") and name in each
        )
        assert reason in line
    assert "in deadlock" in done.stderr  # where each of them was
