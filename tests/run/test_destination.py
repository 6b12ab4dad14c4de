"""A destination is never harmed: not by another command, a second run, or a name that is taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DestinationError
from tests.attack.trees import contents, names, places
from tests.conftest import Finished
from tests.images import image_folder
from tests.limits import bound_to_permissions

RunCli = Callable[..., Finished]
FORMATS = ("webdataset", "tfrecord", "recordio")
SHARDS = ("--samples-per-shard", "1", "--no-shuffle", "-j1")


def leave_unfinished(run_here: RunCli, source: Path, dest: Path, format: str) -> None:
    """Stop at the last sample, which is bad, when every other has a shard of its own."""
    options = ("--format", format, *SHARDS)
    assert run_here("pack", source, dest, *options, "--on-error", "fail").code == 6
    assert len(names(dest)) > 10


class TestAnotherCommand:
    def test_is_refused_on_a_finished_destination(
        self, run_here: RunCli, photos: Path, flawed: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("pack", photos, dest, "--format", "webdataset", "--shards", 3).code == 0
        before = contents(dest), places(dest)
        webdataset = ("--format", "webdataset", "--shards", "3")
        for source, options, difference in (
            (photos, (*webdataset, "--seed", "1"), "seed"),
            (photos, (*webdataset, "--resize", "32"), "transform"),
            (photos, (*webdataset, "--name", "val"), "name"),
            (photos, (*webdataset, "--metadata"), "metadata"),
            (photos, ("--format", "webdataset", "--shards", "4"), "size"),
            (photos, ("--format", "recordio", "--shards", "3"), "format"),
            (flawed, webdataset, "source"),
        ):
            refused = run_here("pack", source, dest, *options, "-j1")
            assert refused.code == 5
            assert str(dest) in refused.err
            assert difference in refused.err
            assert "--overwrite" in refused.err
            assert (contents(dest), places(dest)) == before

    def test_is_refused_on_an_unfinished_one_and_the_first_still_goes_on(
        self, run_here: RunCli, flawed: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        leave_unfinished(run_here, flawed, dest, "recordio")
        before = places(dest)
        refused = run_here("pack", flawed, dest, "--format", "recordio", "--shards", 2)
        assert refused.code == 5
        assert "size" in refused.err
        assert "--overwrite" in refused.err
        assert places(dest) == before

        noted = {path.name[:11] for path in (dest / ".dsprep/receipts").iterdir()}
        done = {name: place for name, place in before.items() if name[:11] in noted}
        assert len(done) >= 3 * 10  # the last may be on its way
        assert run_here("pack", flawed, dest, "--format", "recordio", *SHARDS).code == 3
        assert done.items() <= places(dest).items()
        assert run_here("verify", dest, "--against", flawed).code == 0


class TestOverwrite:
    @pytest.mark.parametrize(
        ("first", "second"), list(zip(FORMATS, FORMATS[1:] + FORMATS[:1], strict=True))
    )
    def test_leaves_nothing_of_another_data_set(
        self, run_here: RunCli, photos: Path, flawed: Path, tmp_path: Path, first: str, second: str
    ) -> None:
        fresh = tmp_path / "fresh"
        command = ("--format", second, "--shards", "2")
        assert run_here("pack", photos, fresh, *command).code == 0

        finished, unfinished = tmp_path / "finished", tmp_path / "unfinished"
        assert run_here("pack", flawed, finished, "--format", first, *SHARDS).code == 3
        leave_unfinished(run_here, flawed, unfinished, first)
        for dest in (finished, unfinished):
            (dest / "README").write_text("mine")
            assert run_here("pack", photos, dest, *command, "--overwrite").code == 0
            assert contents(dest) == {**contents(fresh), "README": b"mine"}

    def test_leaves_nothing_of_a_run_that_was_about_to_end(
        self, run_here: RunCli, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(path: Path) -> None:
            raise DestinationError("the disk is full")

        dest, fresh, flat = tmp_path / "out", tmp_path / "fresh", tmp_path / "flat"
        monkeypatch.setattr("dsprep.run.target.sync_path", full)
        with pytest.raises(DestinationError):
            dsprep.pack(str(photos), str(dest), format="webdataset", name="val", shards=2)
        assert {"classes.txt", "val.json"} <= set(names(dest))

        monkeypatch.undo()
        image_folder(flat, (".",))
        command = ("--format", "recordio")
        assert run_here("pack", flat, dest, *command, "--overwrite").code == 0
        assert run_here("pack", flat, fresh, *command).code == 0
        assert contents(dest) == contents(fresh)

    @pytest.mark.parametrize("kill_at", range(1, 4))
    def test_leaves_nothing_if_it_is_killed_while_it_removes(
        self,
        run_here: RunCli,
        photos: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        kill_at: int,
    ) -> None:
        dest, fresh = tmp_path / "out", tmp_path / "fresh"
        dsprep.pack(str(photos), str(dest), format="webdataset", shards=3)
        unlink, calls = Path.unlink, 0

        def failing(path: Path, missing_ok: bool = False) -> None:
            nonlocal calls
            calls += path.suffix == ".tar"
            if calls == kill_at:
                raise OSError("killed")
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", failing)
        with pytest.raises(DestinationError):
            dsprep.pack(str(photos), str(dest), format="webdataset", shards=2, overwrite=True)
        monkeypatch.undo()
        assert not (dest / "manifest.json").exists()

        command = ("--format", "webdataset", "--shards", "1")
        assert run_here("pack", photos, dest, *command).code == 0
        assert run_here("pack", photos, fresh, *command).code == 0
        assert contents(dest) == contents(fresh)

    def test_of_the_same_command_writes_everything_again(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        command = ("pack", photos, dest, "--format", "webdataset", "--shards", "3", "--overwrite")
        assert run_here(*command).code == 0
        before = contents(dest), places(dest)
        assert run_here(*command).code == 0
        assert contents(dest) == before[0]
        assert not set(places(dest).items()) & set(before[1].items())

    def test_never_replaces_the_list_that_is_packed(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        """im2rec makes train.rec of train.lst, and so does everybody who comes from it."""
        given = "7\t0\tcat/000.jpg\n8\t1\tdog/000.jpg\n"
        (tmp_path / "train.lst").write_text(given)
        for overwrite in ((), ("--overwrite",)):
            command = ("pack", photos, "train.rec", "--list", "train.lst", *overwrite)
            done = run_here(*command, cwd=tmp_path)
            assert done.code == 0, done.err
            assert (tmp_path / "train.lst").read_text() == given


class TestTheSameCommandAgain:
    @pytest.mark.parametrize("format", FORMATS)
    def test_does_nothing(
        self, run_here: RunCli, photos: Path, tmp_path: Path, format: str
    ) -> None:
        command = ("pack", photos, tmp_path / "out", "--format", format, "--shards", "2")
        assert run_here(*command).code == 0
        before = contents(tmp_path), places(tmp_path)
        again = run_here(*command)
        assert again.code == 0
        assert "already packed" in again.out
        assert (contents(tmp_path), places(tmp_path)) == before

    def test_tells_again_that_samples_were_rejected(
        self, run_here: RunCli, flawed: Path, tmp_path: Path
    ) -> None:
        command = ("pack", flawed, tmp_path / "out", "--format", "webdataset", "--json")
        first = run_here(*command)
        again = run_here(*command)
        assert (first.code, again.code) == (3, 3)
        assert json.loads(first.out)["rejects"] == json.loads(again.out)["rejects"]

    def test_clears_away_what_a_kill_in_the_last_moment_left(
        self, run_here: RunCli, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dest, fresh = tmp_path / "out", tmp_path / "fresh"
        with monkeypatch.context() as patch:
            patch.setattr("dsprep.run.complete.tidy_up", lambda *_: None)
            patch.setattr("dsprep.run.hold.Hold.remove", lambda _: None)
            dsprep.pack(str(photos), str(dest), format="webdataset")
        assert names(dest)[0] == ".dsprep"
        shutil.copytree(dest, tmp_path / "copy")

        command = ("--format", "webdataset")
        assert run_here("pack", photos, dest, *command).code == 0
        assert run_here("pack", photos, fresh, *command).code == 0
        assert contents(dest) == contents(fresh)
        assert run_here("pack", photos, tmp_path / "copy", *command, "--overwrite").code == 0
        assert contents(tmp_path / "copy") == contents(fresh)

    def test_says_so_when_a_shard_is_gone(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        command = ("pack", photos, tmp_path / "out", "--format", "webdataset", "--shards", "2")
        assert run_here(*command).code == 0
        (tmp_path / "out" / "train-000001.tar").unlink()
        refused = run_here(*command)
        assert refused.code == 5
        assert "train-000001.tar" in refused.err
        assert run_here(*command, "--overwrite").code == 0


class TestFilesOfOthers:
    @pytest.mark.parametrize(
        ("format", "name"),
        [
            ("webdataset", "train-000001.tar"),
            ("webdataset", "train.json"),
            ("tfrecord", "train-00001-of-00003.tfrecord"),
            ("recordio", "train-00001.idx"),
            ("recordio", "train-00002.lst"),
            ("recordio", "classes.txt"),
            ("recordio", "rejects.jsonl"),
        ],
    )
    def test_are_not_replaced_however_often_one_tries(
        self, run_here: RunCli, photos: Path, tmp_path: Path, format: str, name: str
    ) -> None:
        dest = tmp_path / "out"
        dest.mkdir()
        (dest / name).write_text("precious")
        for _ in range(2):
            refused = run_here("pack", photos, dest, "--format", format, "--shards", 3)
            assert refused.code == 5
            assert name in refused.err
            assert "--overwrite" in refused.err
            assert contents(dest) == {name: b"precious"}

    def test_are_replaced_when_that_is_asked_for(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dest, fresh = tmp_path / "out", tmp_path / "fresh"
        dest.mkdir()
        for name in ("train-000001.tar", "classes.txt", "rejects.jsonl"):
            (dest / name).write_text("precious")
        command = ("--format", "webdataset", "--shards", "3")
        assert run_here("pack", photos, dest, *command, "--overwrite").code == 0
        assert run_here("pack", photos, fresh, *command).code == 0
        assert contents(dest) == contents(fresh)

    @pytest.mark.parametrize("text", ["", "{}", "[1, 2]", '{"name": "a web page"}'])
    def test_a_manifest_of_another_program_is_one_of_them(
        self, run_here: RunCli, photos: Path, tmp_path: Path, text: str
    ) -> None:
        dest = tmp_path / "out"
        dest.mkdir()
        (dest / "manifest.json").write_text(text)
        refused = run_here("pack", photos, dest, "--format", "webdataset")
        assert refused.code == 5
        assert "manifest.json" in refused.err
        assert "--overwrite" in refused.err
        assert contents(dest) == {"manifest.json": text.encode()}
        assert run_here("pack", photos, dest, "--format", "webdataset", "--overwrite").code == 0
        assert run_here("verify", dest).code == 0

    def test_the_same_list_of_classes_is_none(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        """It may lie where the shards are to go before there are any."""
        dest = tmp_path / "out"
        dest.mkdir()
        classes = dest / "classes.txt"
        classes.write_text("pets/owl\ncat\ndog\n")
        command = ("pack", photos, dest, "--format", "webdataset", "--classes", classes)
        assert run_here(*command).code == 0
        assert classes.read_text() == "pets/owl\ncat\ndog\n"


class TestARefusal:
    def test_lets_another_command_begin_afresh(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        dest.mkdir()
        (dest / "train-000001.tar").write_text("precious")
        assert run_here("pack", photos, dest, "--format", "webdataset", "--shards", 3).code == 5
        assert run_here("pack", photos, dest, "--format", "webdataset", "--name", "val").code == 0
        assert (dest / "train-000001.tar").read_text() == "precious"

    def test_leaves_no_trace_when_every_sample_was_rejected(
        self, run_here: RunCli, tmp_path: Path
    ) -> None:
        source = tmp_path / "source"
        source.mkdir()
        for number in range(4):
            (source / f"{number}.jpg").touch()
        for format in FORMATS:
            failed = run_here("pack", source, tmp_path / "a/b", "--format", format, "--shards", 2)
            assert failed.code == 4
            assert "4 samples" in failed.err
            assert ".jpg: empty file" in failed.err
            assert names(tmp_path) == ["source"]

    def test_keeps_an_empty_directory_that_was_there(
        self, run_here: RunCli, tmp_path: Path
    ) -> None:
        for name in ("source", "dest"):
            (tmp_path / name).mkdir()
        (tmp_path / "source" / "0.jpg").touch()
        failed = run_here("pack", tmp_path / "source", tmp_path / "dest", "--format", "recordio")
        assert failed.code == 4
        assert names(tmp_path / "dest") == []

    @pytest.mark.parametrize("below", ["", "/a", "/a/train.rec"])
    def test_names_a_file_that_stands_where_a_directory_should(
        self, run_here: RunCli, photos: Path, tmp_path: Path, below: str
    ) -> None:
        (tmp_path / "file").write_text("precious")
        refused = run_here("pack", photos, f"{tmp_path}/file{below}", "--format", "recordio")
        assert refused.code == 5
        assert str(tmp_path / "file") in refused.err
        assert contents(tmp_path) == {"file": b"precious"}

    @pytest.mark.parametrize("mode", [0o000, 0o555])
    def test_names_a_directory_that_may_not_be_written(
        self, run_cli: RunCli, photos: Path, tmp_path: Path, mode: int
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=mode)
        for dest in (closed, closed / "new", closed / "train.rec"):
            refused = run_cli(
                "pack", photos, dest, "--format", "recordio", under=bound_to_permissions()
            )
            assert refused.code == 5
            assert str(closed) in refused.err
            assert "permission" in refused.err
        closed.chmod(0o755)
        assert names(closed) == []

    def test_of_the_source_as_destination(self, run_here: RunCli, tmp_path: Path) -> None:
        image_folder(tmp_path / "photos")
        (tmp_path / "link").symlink_to("photos")
        before = contents(tmp_path)
        for dest in ("photos/", "link", "photos/../photos"):
            refused = run_here(
                "pack", tmp_path / "photos", dest, "--format", "recordio", cwd=tmp_path
            )
            assert (refused.code, "source" in refused.err) == (2, True)
        assert contents(tmp_path) == before

    @pytest.mark.parametrize(
        "name", ["../evil", "a/b", "/etc/x", "..", ".hidden", "a\nb", "x" * 300, "manifest"]
    )
    def test_of_names_that_no_shard_can_have(
        self, run_here: RunCli, photos: Path, tmp_path: Path, name: str
    ) -> None:
        command = ("pack", photos, tmp_path / "o/o", "--format", "webdataset", "--name", name)
        refused = run_here(*command)
        assert refused.code == 2
        assert "--name" in refused.err
        assert names(tmp_path) == []

    @pytest.mark.parametrize("name", ["x" * 300, "x/" * 2500])
    def test_of_a_path_that_is_too_long(
        self, run_here: RunCli, photos: Path, tmp_path: Path, name: str
    ) -> None:
        assert run_here("pack", photos, tmp_path / name, "--format", "webdataset").code == 5
        assert run_here("pack", tmp_path / name, tmp_path, "--format", "webdataset").code == 4
        assert run_here("verify", tmp_path / name).code == 4
