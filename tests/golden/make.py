"""Make `data`: data sets, and what killed runs leave, as the dsprep of today writes them.

`data` is of the version in the directory that is given. A test of compatibility has no use for
files that the code under test wrote, so nothing makes them again when that code changes:

    git worktree add ../then COMMIT
    .venv/bin/python -m tests.golden.make ../then

The files of `data/runs` and `data/objects` are what lies there when all processes of a run are
killed at once, without directories that are empty.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.cases import DATA, LOCAL, REMOTE, SETS, Run, copy_sets, write_sources
from tests.kills import run_and_kill
from tests.servers.bucket import Bucket
from tests.servers.fixtures import ENVIRONMENT
from tests.servers.start import start_localstack, stop

# A run that is cut into pieces though its shards are small.
_PIECES = "import dsprep.run.run\ndsprep.run.run.PIECE_BYTES = 2000\n"


class Maker:
    """Runs commands of the version that is kept, in a directory that has the sources."""

    def __init__(self, version: Path, root: Path) -> None:
        self._root = root
        self._env = {"PYTHONPATH": str(version.resolve()), "TMPDIR": str(root)}

    def run(self, command: str, out: str, kill: str = "", patch: str = "") -> None:
        """Carry out a command; one that is to be killed is."""
        words = shlex.split(command.replace("OUT", out))
        kill = kill.replace("OUT", Path(out).name) or "name nothing"
        done = run_and_kill(kill, words, cwd=self._root, env=self._env, patch=patch)
        expected = (0, 3) if kill == "name nothing" else (-9,)  # the sources have a damaged image
        assert done.returncode in expected, (command, done.returncode, done.stderr)

    def interrupt(self, run: Run, out: str, patch: str = "") -> None:
        if run.before:
            self.run(run.before, out)
        self.run(run.command, out, run.kill, patch)


def make_sets(root: Path, maker: Maker) -> None:
    (root / "sets").mkdir()
    for name, commands in SETS.items():
        (root / "sets" / name).mkdir() if name == "one-file" else None
        for command in commands.split("; "):
            maker.run(command, f"sets/{name}")
    shutil.copytree(root / "sets", DATA / "sets")
    shutil.rmtree(root / "sets")
    copy_sets(root)


def make_local(root: Path, maker: Maker) -> None:
    for name, run in LOCAL.items():
        place = root / "place"
        place.mkdir()
        if name == "one-file":
            (place / "out").mkdir()
        maker.interrupt(run, "place/out", _PIECES if name == "pieces" else "")
        keep(place, DATA / "runs" / name)
        shutil.rmtree(place)


def keep(place: Path, kept: Path) -> None:
    for path in sorted(place.rglob("*")):
        if path.is_file():
            (to := kept / path.relative_to(place)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def make_remote(maker: Maker, endpoint: str) -> None:
    os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL=endpoint)
    for name, run in REMOTE.items():
        bucket = Bucket("localstack", endpoint, f"golden-{name}", ENVIRONMENT)
        bucket.s3.create_bucket(Bucket=bucket.name)
        maker.interrupt(run, f"{bucket.url}/out")
        metadata = {}
        for key, data in bucket.contents().items():
            (to := DATA / "objects" / name / key).parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
            metadata[key] = bucket.s3.head_object(Bucket=bucket.name, Key=key)["Metadata"]
        text = json.dumps(metadata, indent=1, sort_keys=True) + "\n"
        (DATA / "objects" / f"{name}.json").write_text(text, "utf-8")


def main() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    with TemporaryDirectory() as place:
        root, server = Path(place, "work"), Path(place, "server")
        root.mkdir()
        write_sources(root)
        maker = Maker(Path(sys.argv[1]), root)
        make_sets(root, maker)
        make_local(root, maker)
        try:
            make_remote(maker, start_localstack(server)["http"])
        finally:
            stop(server)


if __name__ == "__main__":
    main()
