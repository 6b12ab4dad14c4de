"""A disk that fills up, at whatever moment, is an error that says so, and the run can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import limits
from tests.attack.trees import contents, manifest, names
from tests.conftest import Finished
from tests.images import jpeg
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]

FORMATS = ("webdataset", "recordio", "mds")
SHARDS = ("--samples-per-shard", "4", "-j2")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a megabyte in eighty images, in classes whose list takes a page."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    for number in range(80):
        directory = root / f"class {number % 40} {'x' * 100}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}.jpg").write_bytes(jpeg(number, (300, 200)))
    return root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with limits.small_disk(tmp_path / "disk", "4m") as disk:
        yield disk


@pytest.mark.parametrize("format", FORMATS)
def test_that_is_too_small_is_refused_before_the_first_byte(
    run_here: RunCli, photos: Path, small_disk: Path, format: str
) -> None:
    (small_disk / "filler").write_bytes(bytes(4_000_000))
    refused = run_here("pack", photos, small_disk / "out", "--format", format)
    assert refused.code == 5
    assert "the shards need" in refused.err
    assert "free" in refused.err
    assert names(small_disk) == ["filler"]


@pytest.mark.parametrize("format", FORMATS)
def test_that_fills_up_is_an_error_and_with_room_the_run_goes_on(
    run_here: RunCli, photos: Path, small_disk: Path, tmp_path: Path, format: str
) -> None:
    """PNG takes more than JPEG, and nobody can know how much before it is done."""
    command = ("--format", format, *SHARDS, "--encode", "png")
    assert run_here("pack", photos, tmp_path / "whole", *command).code == 0
    whole = contents(tmp_path / "whole")
    needed = manifest(tmp_path / "whole")["bytes"]

    dest = small_disk / "out"
    ends = []
    for left in (0.2, 0.7, 1.0):
        filler = small_disk / "filler"
        filler.write_bytes(bytes(4 * 1024 * 1024 - int(needed * left) - 40960))
        stopped = run_here("pack", photos, dest, *command)
        filler.unlink()
        ends.append(stopped.code)
        if stopped.code != 0:
            assert stopped.code == 5
            assert "disk is full" in stopped.err
            assert "same command again" in stopped.err
            assert "manifest.json" not in names(dest)
        found = {name: data for name, data in contents(dest).items() if name[0] != "."}
        assert found.items() <= whole.items()
    assert ends[0] == 5
    assert run_here("pack", photos, dest, *command).code == 0
    assert contents(dest) == whole


def test_of_which_the_last_page_goes_to_the_log_of_the_run(
    run_here: RunCli, photos: Path, small_disk: Path
) -> None:
    """Many samples and few bytes: the log grows, too."""
    command = ("pack", photos, small_disk / "out", "--format", "tfrecord")
    tiny = ("--resize", "8", "--samples-per-shard", "1", "-j1")
    codes = set()
    for pages in range(2, 40, 12):
        filler = small_disk / "filler"
        filler.write_bytes(bytes(4 * 1024 * 1024 - 4096 * pages))
        codes.add(run_here(*command, *tiny).code)
        filler.unlink()
    assert codes <= {0, 5}
    assert 5 in codes
    assert run_here(*command, *tiny).code == 0
    assert run_here("verify", small_disk / "out").code == 0


@pytest.mark.parametrize("format", FORMATS)
def test_a_limit_on_files_is_an_error_like_it(
    run_cli: RunCli, run_here: RunCli, photos: Path, tmp_path: Path, format: str
) -> None:
    command = ("--format", format, "--shards", "2")
    assert run_here("pack", photos, tmp_path / "whole", *command).code == 0
    limit = limits.no_file_above(manifest(tmp_path / "whole")["bytes"] // 3)
    dest = tmp_path / "out"
    stopped = run_cli("pack", photos, dest, *command, under=limit)
    assert stopped.code == 5
    assert "limits of this process" in stopped.err
    assert "manifest.json" not in names(dest)
    assert run_here("pack", photos, dest, *command).code == 0
    assert contents(dest) == contents(tmp_path / "whole")


def test_a_stage_that_fills_up_is_an_error_and_with_room_the_run_goes_on(
    run_here: RunCli, ceph: Bucket, photos: Path, small_disk: Path
) -> None:
    (small_disk / "filler").write_bytes(bytes(4_150_000))
    command = ("pack", photos, f"{ceph.url}/out", "--format", "webdataset", *SHARDS)
    env = {"TMPDIR": str(small_disk), "AWS_ENDPOINT_URL": ceph.endpoint}
    estimated = ("--resize", "290", "--encode", "png")
    full = run_here(*command, *estimated, env=env)
    assert full.code == 5
    assert f"{small_disk}/dsprep-" in full.err
    assert "the disk is full; make room and give the same command again to continue" in full.err
    (small_disk / "filler").unlink()
    assert run_here(*command, *estimated, env=env).code == 0
    assert "out/manifest.json" in ceph.contents()
    assert names(small_disk) == []
