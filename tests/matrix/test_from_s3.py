"""Every source as it lies on a disk and as it lies on S3: the same shards, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.trees import contents
from tests.here import Here
from tests.matrix.sources import SOURCES, Given, Samples
from tests.missing import Frameworks
from tests.servers.bucket import Bucket
from tests.servers.fixtures import new_bucket
from tests.servers.start import Facts

PHOTOS = "photos"


@pytest.fixture(scope="module")
def shelf(ceph_server: Facts, samples: Samples) -> Iterator[Bucket]:
    """A bucket with the samples that many sources have in common; the environment leads there."""
    with pytest.MonkeyPatch.context() as patch:
        bucket = new_bucket("ceph", ceph_server["http"], patch)
        patch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        upload(samples.root, bucket, PHOTOS)
        yield bucket


@pytest.fixture(scope="module")
def run(shelf: Bucket) -> Iterator[Here]:
    """Runs commands here, with workers that know the bucket."""
    here = Here()
    yield here
    here.end()


def upload(root: Path, bucket: Bucket, prefix: str) -> None:
    for path, data in contents(root).items():
        bucket.put(f"{prefix}/{path}", data)


def moved(given: Given, where: Path, samples: Samples, bucket: Bucket) -> list[str]:
    """What names a source on S3, given what names it on the disk."""
    upload(where, bucket, where.name)
    places = {str(where): f"{bucket.url}/{where.name}", str(samples.root): f"{bucket.url}/{PHOTOS}"}
    args = []
    for arg in map(str, given.args):
        found = [place for place in places if arg.startswith(place)]
        args.append(places[found[0]] + arg[len(found[0]) :] if found else arg)
    return args


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_shards(
    shelf: Bucket, run: Here, samples: Samples, peers: Frameworks, tmp_path: Path, source: str
) -> None:
    where = tmp_path / source
    where.mkdir()
    given = SOURCES[source](where, samples, peers)
    args = moved(given, where, samples, shelf)
    # Shuffled, so that samples are read at random.
    how = ("--format", "webdataset", "--samples-per-shard", "7", "-qj1")
    assert run("pack", *given.args, tmp_path / "local", *how) == (0, "", "")
    assert run("pack", *args, tmp_path / "remote", *how) == (0, "", "")
    assert contents(tmp_path / "remote") == contents(tmp_path / "local")


def test_a_list_that_is_there_chooses_from_shards_there(
    shelf: Bucket, run: Here, samples: Samples, peers: Frameworks, tmp_path: Path
) -> None:
    where = tmp_path / "listed"
    where.mkdir()
    (where / "some.lst").write_text("3\t1\tcat/003\n8\t2\ttrain-000001.tar/owl/000\n")
    given = SOURCES["webdataset"](where, samples, peers)
    (place,) = moved(given, where, samples, shelf)
    for source, dest in ((where, tmp_path / "local"), (place, tmp_path / "remote")):
        assert run("shard", source, dest, "--list", f"{source}/some.lst", "-qj1") == (0, "", "")
    assert contents(tmp_path / "remote") == contents(tmp_path / "local")
    assert run("split", place, "-o", tmp_path / "sides", "-qj1") == (0, "", "")
