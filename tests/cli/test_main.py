"""Memory and threads that run out: a message and an exit code, whatever library meets it."""

from __future__ import annotations

import py_compile
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.cli.main import COMMANDS, cli
from tests.conftest import Finished


class PanicException(BaseException):
    """As that of polars, which has no name of its own to be imported by."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "out of memory: raise the limits"),
        (RuntimeError("can't start new thread"), "no more threads can be started: raise"),
        (PanicException("could not spawn threads\nand more"), "(could not spawn threads): raise"),
        (ImportError("polars.abi3.so: failed to map segment"), "failed to map segment): raise"),
    ],
)
def test_what_runs_out_is_said(
    error: BaseException,
    told: str,
    run_here: Callable[..., Finished],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, resource.RLIM_INFINITY))
    done = run_here("lst", "stats", "x.lst")
    assert done.code == 1
    assert told in done.err
    assert len(done.err.splitlines()) == 1


def test_a_compiled_module_that_a_full_disk_has_cut_is_no_interrupt(
    run_here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python up to 3.12 leaves such a file, and then finds its end."""
    (tmp_path / "cut.py").write_text("cli = None")
    compiled = Path(py_compile.compile(str(tmp_path / "cut.py")) or "")
    compiled.write_bytes(compiled.read_bytes()[:-8])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "cost", ("cut", ""))
    with pytest.raises(EOFError, match="marshal data too short"):
        run_here("cost")


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ImportError("polars: a bug")])
def test_a_bug_still_shows_where_it_is(
    error: Exception, run_here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    with pytest.raises(type(error), match="a bug"):
        run_here("lst", "stats", "x.lst")
