"""What the tests of writing to S3 share: pictures, machines, and a look at what is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.conftest import flawed, photos
from tests.conftest import Finished
from tests.images import image_folder
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]

__all__ = ["flawed", "photos"]


@pytest.fixture(scope="session")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of twelve images in two classes."""
    root = tmp_path_factory.mktemp("twelve") / "photos"
    image_folder(root, ("a", "b"), 6)
    return root


class Machine:
    """A machine, as far as dsprep knows it: where things wait for their way to S3."""

    def __init__(self, run: RunCli, bucket: Bucket, stage: Path) -> None:
        self._run, self._stage = run, stage
        self.env = {"TMPDIR": str(stage), "AWS_ENDPOINT_URL": bucket.endpoint}
        stage.mkdir()

    def __call__(self, *args: object, code: int = 0, **env: str) -> Finished:
        done = self._run(*args, env={**self.env, **env})
        assert done.code == code, (done.code, done.err)
        return done

    def left(self) -> list[str]:
        """What lies in its stages."""
        return sorted(
            os.path.relpath(path, self._stage) for path in self._stage.rglob("*") if path.is_file()
        )


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs give a sign of life often, and are taken to be dead soon."""
    for name, seconds in (("DEAD_AFTER", 2.0), ("RENEWED_EVERY", 0.1), ("_LOOK_EVERY", 0.1)):
        monkeypatch.setattr(f"dsprep.storage.lease.{name}", seconds)


@pytest.fixture
def machine(run_here: RunCli, bucket: Bucket, tmp_path: Path) -> Machine:
    """A machine that reaches each of the servers in turn."""
    return Machine(run_here, bucket, tmp_path / "machine")


@pytest.fixture
def on_ceph(run_here: RunCli, ceph: Bucket, tmp_path: Path) -> Callable[[str], Machine]:
    """Machines that reach Ceph, by name."""
    return lambda name: Machine(run_here, ceph, tmp_path / name)


def files(directory: Path) -> dict[str, bytes]:
    """What is in a directory, hidden files, too."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}
