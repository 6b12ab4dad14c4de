"""Fuzz one reader in this process: `python -m scripts.fuzz.fuzzer NAME CORPUS CURRENT SECONDS`.

The process ends with the first find. The input that it has read last is in the file CURRENT then,
whatever ended it.
"""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

MEMORY = 300 << 20
"""Bytes that reading may take on top of what the process has when all is imported."""

HANG = 20
"""Seconds after which an input is said to hang its reader."""


def fuzz(name: str, corpus: Path, current: Path, seconds: int) -> None:
    """Fuzz a reader for so many seconds; does not return."""
    with (
        TemporaryDirectory(prefix="dsprep-fuzz-", dir="/dev/shm") as scratch,
        current.open("wb", buffering=0) as last,  # opening it anew takes longer than all else
    ):
        with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["dsprep"]):
            from scripts.fuzz.targets import TARGETS

            target = TARGETS[name]

            def check(data: bytes) -> None:
                last.seek(0)
                last.truncate()
                last.write(data)
                target.check(data, Path(scratch))

            for seed in target.seeds():  # some modules are imported when they are needed
                check(seed)
                (corpus / sha256(seed).hexdigest()[:20]).write_bytes(seed)

        options = [
            f"-max_total_time={seconds}",
            f"-timeout={HANG}",
            f"-artifact_prefix={scratch}/",
            "-max_len=65536",
            "-verbosity=0",
            "-print_final_stats=1",
        ]
        mutator = {} if target.repair is None else {"custom_mutator": _repairing(target.repair)}
        _limit_memory()
        atheris.Setup([name, *options, str(corpus)], check, **mutator)
        atheris.Fuzz()


def _repairing(repair: Callable[[bytes], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Change bytes as libFuzzer does, and make the checksums of half of them right again."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        changed = atheris.Mutate(data, most)
        return repair(changed) if seed % 2 else changed

    return mutate


def _limit_memory() -> None:
    """Let the process have not much more memory than it has already."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    fuzz(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
