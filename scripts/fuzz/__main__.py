"""Fuzz the readers, one after the other: `python -m scripts.fuzz [NAME…] [--seconds N]`.

Each is fuzzed in a process of its own. What is found out about a reader stays in
`build/fuzz/NAME`, and the next run goes on from there. An input that is a find is kept in
`build/fuzz/finds`; it belongs, as short as can be, into `tests/attack/test_fuzz_finds.py`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from scripts.fuzz.targets import TARGETS

BUILD = Path("build/fuzz")


def main() -> int:
    """Fuzz; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each (default: 60)")
    args = parser.parse_args()
    if unknown := set(args.names) - TARGETS.keys():
        parser.error(f"there is no {' nor '.join(sorted(unknown))}")
    finds = [find for name in args.names or TARGETS if (find := _fuzz(name, args.seconds))]
    print("finds:", *map(str, finds) if finds else ["none"])
    return 1 if finds else 0


def _fuzz(name: str, seconds: int) -> Path | None:
    """Fuzz a reader; returns the input with which it failed, if there is one."""
    print(f"== {name}", flush=True)
    corpus, finds, current = BUILD / name, BUILD / "finds", BUILD / "current"
    for directory in (corpus, finds):
        directory.mkdir(parents=True, exist_ok=True)
    current.unlink(missing_ok=True)
    arguments = [name, *map(str, (corpus, current, seconds))]
    command = [sys.executable, "-m", "scripts.fuzz.fuzzer", *arguments]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    if subprocess.run(command, env=environment, check=False).returncode == 0:
        return None
    if not current.exists() or not current.stat().st_size:
        sys.exit(f"{name}: failed without an input")
    digest = sha256(current.read_bytes()).hexdigest()
    return current.rename(finds / f"{name}-{digest[:12]}")


if __name__ == "__main__":
    sys.exit(main())
