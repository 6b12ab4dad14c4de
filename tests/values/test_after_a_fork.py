"""A forked child of a process that has used dsprep, or polars, which would wait there for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.images import image_folder

PROGRAM = """
import os, sys
import dsprep

source, out = sys.argv[1:]
import polars
if "computed" in out:
    polars.DataFrame({"a": [1]}).select(polars.col("a") + 1)
elif "packed" in out:
    dsprep.pack(source, out + "-parent", to="recordio", workers=1)
child = os.fork()
if not child:
    code = 1
    try:
        dsprep.pack(source, out + "-child", to="recordio", workers=1)
        code = 0
    except dsprep.OptionError as error:
        print(error)
        code = 2
    finally:
        sys.stdout.flush()
        os._exit(code)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, source, out],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("parent", ["packed", "computed with polars"])
def test_a_child_of_a_process_where_polars_has_threads_is_refused(
    tmp_path: Path, parent: str
) -> None:
    image_folder(tmp_path / "photos")
    done = run(tmp_path / "photos", tmp_path / parent)
    assert (done.returncode, (tmp_path / f"{parent}-child").exists()) == (2, False), done.stderr
    assert 'start it with multiprocessing.get_context("spawn")' in done.stdout


def test_a_child_of_a_process_that_has_imported_polars_alone_works(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos")
    done = run(tmp_path / "photos", tmp_path / "imported")
    assert (done.returncode, (tmp_path / "imported-child").is_dir()) == (0, True), done.stderr
