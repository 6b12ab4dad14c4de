"""Run dsprep, and kill all of its processes before a certain call of the system.

python -m tests.kills 'name train-00002.rec' pack photos out --to recordio -j 1

The call is `name FILE`, which gives a file its final name, `remove FILE`, or `send FILE`, which
opens a temporary file to upload it. The command is given again to go on, with `dsprep`.

A worker begins a shard while it still waits for the disk with the one before. A kill that is to
find certain files, such as the receipts of other shards, waits for them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

# Runs in each process of the command, workers included.
_HOOK = """
import json, os, signal, time

name, _, file = os.environ["DSPREP_TEST_KILL"].partition(" ")
awaited = json.loads(os.environ["DSPREP_TEST_AWAITED"])
calls = {"name": ("replace", "rename"), "remove": ("unlink",), "send": ("open",)}

def killing(call):
    def called(path, *args, **options):
        final = args[0] if name == "name" else path
        is_it = name != "send" or ("partial-" in str(path) and not args[0] & os.O_ACCMODE)
        if is_it and os.path.basename(os.fspath(final)) == file:
            while not all(map(os.path.exists, awaited)):
                time.sleep(0.001)
            os.killpg(0, signal.SIGKILL)
        return call(path, *args, **options)
    return called

for each in calls[name]:
    setattr(os, each, killing(getattr(os, each)))
"""


def run_and_kill(
    kill: str,
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    patch: str = "",
    awaited: Sequence[Path] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command of dsprep, with a patch of its first process; the code of a kill is -9.

    The kill waits until the ``awaited`` files are there.
    """
    start = f"{patch}\nfrom dsprep.cli.main import main\nmain()"
    with TemporaryDirectory() as hooks:
        Path(hooks, "sitecustomize.py").write_text(_HOOK, "utf-8")
        own = {**os.environ, **(env or {}), "DSPREP_TEST_KILL": kill}
        own["DSPREP_TEST_AWAITED"] = json.dumps([str(path.resolve()) for path in awaited])
        own["PYTHONPATH"] = os.pathsep.join(filter(None, (hooks, own.get("PYTHONPATH"))))
        return subprocess.run(
            [sys.executable, "-c", start, *words],
            cwd=cwd,
            env=own,
            start_new_session=True,
            capture_output=True,
            text=True,
            check=False,
        )


if __name__ == "__main__":
    done = run_and_kill(sys.argv[1], sys.argv[2:])
    print(done.stdout, done.stderr, sep="", end="")
    if done.returncode == -9:
        print("killed")
    else:
        sys.exit(f"it was not killed: no process came to {sys.argv[1]!r}")
