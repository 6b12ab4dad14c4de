"""What must not be lost: between two directories, as no server has a part in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dsprep.dataset.names import UNFINISHED
from dsprep.errors import DestinationError, OptionError, SourceError, StoreError
from dsprep.storage.pool import Pace
from dsprep.storage.transfer import TransferOptions
from dsprep.syncing.options import Rule, SyncOptions
from dsprep.syncing.plan import Pair
from dsprep.syncing.report import Failure, SyncReport
from dsprep.syncing.run import Sync
from dsprep.syncing.sides import Directory
from tests.syncing.folders import data_set, tree


class Copies(Sync):
    """Copies files between directories, but for those that fail."""

    failing: Sequence[str] = ()

    def transfer(self, pair: Pair, crc32c: int | None) -> int:
        if pair.path in self.failing:
            raise StoreError("the network is down", "transient")
        place = Path(self._destination.name(pair.path))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self._source.name(pair.path), place)
        return 0


class Refusing(Directory):
    """A directory that some files cannot be deleted from."""

    failing: Sequence[str] = ()

    def delete(self, paths: Sequence[str]) -> Sequence[Failure]:
        refused = [Failure(path, "denied") for path in paths if path in self.failing]
        return [*refused, *super().delete([path for path in paths if path not in self.failing])]


class Folders:
    """Two folders, ``src`` and ``dst``."""

    def __init__(self, root: Path) -> None:
        self.src, self.dst = root / "src", root / "dst"
        self.src.mkdir()
        self.dst.mkdir()

    def sync(
        self, failing: Sequence[str] = (), exclude: Sequence[str] = (), **options: Any
    ) -> SyncReport:
        source, destination = Directory(self.src), Refusing(self.dst, failing=tuple(failing))
        rules = [Rule(False, pattern) for pattern in exclude]
        given = SyncOptions(str(self.src), str(self.dst), rules=rules, **options)
        run = Copies(source, destination, TransferOptions(Pace(1)), given)
        run.failing = failing
        return run.run()


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a directory be one that cannot be listed; not with chmod, as root may read everything."""

    def call(hidden: Path) -> None:
        def scandir(place: Any) -> Any:
            if Path(place) == hidden:
                raise PermissionError(13, "Permission denied", str(place))
            return real(place)

        real = os.scandir
        monkeypatch.setattr(os, "scandir", scandir)

    return call


def failed(report: SyncReport) -> list[str]:
    return [each.path for each in report.failures]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_listing_that_fails_is_a_failure_and_nothing_is_deleted(
    folders: Folders, hide: Any, dry_run: bool
) -> None:
    for name in ("train", "val"):
        data_set(folders.src / name, large=0)
    shutil.copytree(folders.src, folders.dst, dirs_exist_ok=True)
    (folders.dst / "old").touch()
    before = tree(folders.dst)
    hide(folders.src / "val")
    report = folders.sync(delete=True, dry_run=dry_run, max_delete=0)
    assert tree(folders.dst) == before
    assert (report.deleted, failed(report)) == ([], ["val/"])
    assert "cannot be listed (Permission denied)" in report.failures[0].message
    assert report.failures[0].message.endswith("leave it out with --exclude 'val/*'")
    (note,) = report.notes
    assert note.startswith("nothing is deleted at the destination (4 files)")


def test_a_destination_that_cannot_be_listed_is_a_failure(folders: Folders, hide: Any) -> None:
    data_set(folders.src, large=0)
    (folders.dst / "train").mkdir()
    (folders.dst / "old").touch()
    hide(folders.dst / "train")
    report = folders.sync(delete=True)
    assert (report.deleted, failed(report)) == ([], ["train/"])


def test_a_root_that_cannot_be_listed_ends_it(folders: Folders, hide: Any) -> None:
    (folders.src / "a").touch()
    hide(folders.src)
    with pytest.raises(SourceError, match="src: cannot be listed"):
        folders.sync(delete=True)


def test_a_destination_whose_root_cannot_be_listed_ends_it(folders: Folders, hide: Any) -> None:
    (folders.src / "a").touch()
    hide(folders.dst)
    with pytest.raises(DestinationError, match="dst: cannot be listed"):
        folders.sync()
    assert not tree(folders.dst)


def test_what_is_excluded_may_be_unreadable(folders: Folders, hide: Any) -> None:
    for path in ("src/lost+found/x", "src/a", "dst/old", "dst/lost+found/y"):
        (folders.src.parent / path).parent.mkdir(exist_ok=True)
        (folders.src.parent / path).touch()
    hide(folders.src / "lost+found")
    report = folders.sync(delete=True, exclude=["lost+found/*"])
    assert (report.deleted, failed(report)) == (["old"], [])
    assert sorted(tree(folders.dst)) == ["a", "lost+found/y"]


def test_manifests_stay_if_what_they_name_is_not_deleted_after_all(folders: Folders) -> None:
    data_set(folders.dst, large=0)
    before = tree(folders.dst)
    (folders.src / "new").touch()
    report = folders.sync(delete=True, failing=["new"])
    assert (report.deleted, failed(report)) == ([], ["new"])
    assert tree(folders.dst) == before


def test_what_a_manifest_names_stays_if_the_manifest_cannot_be_deleted(folders: Folders) -> None:
    data_set(folders.dst, large=0)
    before = tree(folders.dst)
    (folders.src / "new").touch()
    report = folders.sync(delete=True, failing=["manifest.json"])
    assert (report.deleted, failed(report)) == ([], ["manifest.json"])
    assert tree(folders.dst) == {**before, "new": b""}


def test_a_manifest_that_goes_before_its_shards_are_replaced_is_deleted_once(
    folders: Folders,
) -> None:
    data_set(folders.dst, large=0)
    (folders.src / "set-00.tar").touch()
    report = folders.sync(delete=True)
    assert (report.deleted, failed(report)) == (["manifest.json", "set-01.tar"], [])
    assert tree(folders.dst) == {"set-00.tar": b""}


def test_an_unfinished_run_takes_no_part_and_is_said(folders: Folders) -> None:
    (folders.src / "a").touch()
    for place in (".val.tar.dsprep", "left/.dsprep"):
        (folders.src / place).mkdir(parents=True)
        (folders.src / place / "run.json").touch()
    report = folders.sync(exclude=["left/*"])
    assert [send.path for send in report.sent] == ["a"]
    (note,) = report.notes
    assert note.endswith(f".val.tar.dsprep: is left out: {UNFINISHED}")


def test_what_the_source_cannot_show_is_not_deleted(folders: Folders) -> None:
    (folders.src / "a").touch()
    (folders.src / "data").symlink_to("mount-that-is-gone")
    os.mkfifo(folders.src / "pipe")
    (folders.dst / "data").mkdir()
    for name in ("data/1", "pipe", "data-old", "other"):
        (folders.dst / name).touch()
    report = folders.sync(delete=True)
    assert report.deleted == ["data-old", "other"]
    assert sorted(tree(folders.dst)) == ["a", "data/1", "pipe"]
    (note,) = report.notes
    assert note.startswith("not deleted at the destination: 2 files (data/1, pipe)")


def test_what_cannot_be_looked_at_is_a_failure(folders: Folders) -> None:
    (folders.src / "a").touch()
    (folders.src / "strange").symlink_to("x" * 300)  # no broken link, but ENAMETOOLONG
    (folders.dst / "old").touch()
    report = folders.sync(delete=True)
    assert (report.deleted, failed(report)) == ([], ["strange"])


def test_nothing_is_deleted_behind_a_link(folders: Folders, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "photo.jpg").touch()
    (outside / "same").write_bytes(b"same")
    (folders.dst / "link").symlink_to(outside)
    (folders.src / "link").mkdir()
    (folders.src / "link" / "same").write_bytes(b"same")
    report = folders.sync(delete=True)
    assert sorted(tree(outside)) == ["photo.jpg", "same"]
    assert (report.deleted, report.same) == ([], {"etag": 1})
    assert "(link/photo.jpg)" in report.notes[0]


def test_an_excluded_manifest_is_not_made_wrong(folders: Folders) -> None:
    data_set(folders.dst, large=0)
    data_set(folders.src, large=0, seed=5)
    before = tree(folders.dst)
    for dry_run in (True, False):
        with pytest.raises(OptionError, match=r"manifest.json: .*would be replaced.*is excluded"):
            folders.sync(exclude=["*.json"], dry_run=dry_run)
    assert tree(folders.dst) == before


def test_what_a_manifest_names_that_stays_is_not_deleted(folders: Folders) -> None:
    data_set(folders.dst, large=0)
    (folders.dst / "old").touch()
    (folders.src / "new").touch()
    report = folders.sync(delete=True, exclude=["*.json"])
    assert report.deleted == ["old"]
    assert "(set-00.tar, set-01.tar)" in report.notes[0]


def test_a_manifest_that_only_seems_the_same_is_sent_before_what_it_named_goes(
    folders: Folders,
) -> None:
    data_set(folders.src, large=0)
    data_set(folders.dst, large=0)
    (folders.dst / "set-01.tar").rename(folders.dst / "old-01.tar")
    manifest = folders.dst / "manifest.json"
    manifest.write_text(manifest.read_text().replace("set-01", "old-01"))
    report = folders.sync(delete=True, size_only=True)
    assert report.deleted == ["old-01.tar"]
    assert tree(folders.dst) == tree(folders.src)
