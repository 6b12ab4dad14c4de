"""The commands of dsprep and of its peers' programs."""

from __future__ import annotations

import sys
from pathlib import Path

from .measure import Command

# What a contender writes goes to a new directory, whose path takes this one's place.
OUT = "{out}"

_PEERS = Path(__file__).parent / "peers"


def dsprep(*arguments: str) -> Command:
    """The command that is installed beside this interpreter, or else the package itself."""
    script = Path(sys.executable).with_name("dsprep")
    start = (str(script),) if script.exists() else (sys.executable, "-m", "dsprep")
    return (*start, *arguments)


def judge(script: str, *arguments: str) -> Command:
    """A program of a peer that imports torch, in the environment of `make judges`."""
    python = Path(__file__).parents[2] / ".cache" / "judges" / "bin" / "python"
    return (str(python), str(_PEERS / f"{script}.py"), *arguments)


def peer(script: str, *arguments: str) -> Command:
    """A program of a peer, in this interpreter."""
    return (sys.executable, str(_PEERS / f"{script}.py"), *arguments)
