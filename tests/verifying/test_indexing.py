"""`dsprep shard index`: the indexes of shards that others wrote, read by those they are for."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dsprep
from tests.attack.trees import contents, manifest, names, places
from tests.conftest import Finished
from tests.images import jpeg
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]

READ_WITH_WIDS = Path(__file__).parents[1] / "formats" / "read_with_wids.py"


def index(run_here: RunCli, *args: object, code: int = 0) -> dict[str, Any]:
    """What `dsprep shard index` reports, and how it ends."""
    finished = run_here("shard", "index", *args, "--json", "-j2")
    assert finished.code == code, finished.err
    return dict(json.loads(finished.out))


def states(report: dict[str, Any]) -> dict[str, str]:
    return {file["name"]: file["state"] for file in report["files"]}


def messages(report: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    return [(each["file"], each["offset"], each["message"]) for each in report["problems"]]


def write_tar(path: Path, first: int, count: int, **options: Any) -> Path:
    """A shard as tarfile writes it: directories, names with `./`, times that need PAX."""
    with tarfile.open(path, "w", **options) as archive:
        folder = tarfile.TarInfo("./c")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for number in range(first, first + count):
            for name, data in (("jpg", jpeg(number)), ("cls", b"%d" % (number % 3))):
                info = tarfile.TarInfo(f"./c/{number:03d}.{name}")
                info.size, info.mtime = len(data), number + 0.5
                archive.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def tars(tmp_path: Path) -> Path:
    """Two shards of a WebDataset, without anything beside them."""
    (tmp_path / "set").mkdir()
    for number in range(2):
        write_tar(tmp_path / "set" / f"photos-{number:04d}.tar", 3 * number, 3)
    return tmp_path / "set"


@pytest.fixture
def record(tmp_path: Path, mxnet: ModuleType) -> Path:
    """A `.rec` by MXNet, without its `.idx`, which lies beside the directory."""
    (tmp_path / "rec").mkdir()
    paths = tmp_path / "a.idx", tmp_path / "rec" / "a.rec"
    writer = mxnet.recordio.MXIndexedRecordIO(*map(str, paths), "w")
    for number in (5, 3, 900, 17):
        header = mxnet.recordio.IRHeader(0, number % 2, number, 0)
        writer.write_idx(number, mxnet.recordio.pack(header, jpeg(number)))
    # The format's magic number in a payload cuts it in parts.
    header = mxnet.recordio.IRHeader(0, 1.0, 18, 0)
    writer.write_idx(18, mxnet.recordio.pack(header, b"....\x0a\x23\xd7\xce...."))
    writer.close()
    return tmp_path / "rec"


class TestWebDataset:
    def test_all_that_suits_is_written_and_verifies(self, run_here: RunCli, tars: Path) -> None:
        report = index(run_here, tars)
        assert states(report) == {
            "photos-0000.idx": "written",
            "photos-0001.idx": "written",
            "photos.json": "written",
            "manifest.json": "written",
        }
        assert (report["state"], report["samples"], report["shards"]) == ("indexed", 6, 2)
        assert names(tars) == sorted([*states(report), "photos-0000.tar", "photos-0001.tar"])
        verified = run_here("verify", tars, "--decode")
        assert verified.code == 0, verified.out
        assert "manifest, sizes, checksums" in verified.out

    def test_the_offsets_for_dali_are_those_of_the_bytes(
        self, run_here: RunCli, tars: Path
    ) -> None:
        index(run_here, tars, "--kind", "dali")
        data = (tars / "photos-0001.tar").read_bytes()
        head, *lines = (tars / "photos-0001.idx").read_text().splitlines()
        assert head == "v1.2 3"
        for number, line in enumerate(lines, start=3):
            image, offset, size, name, cls, place, length, _ = line.split()
            assert (image, cls, name) == ("jpg", "cls", f"./c/{number:03d}.jpg")
            assert data[int(offset) :][: int(size)] == jpeg(number)
            assert data[int(place) :][: int(length)] == b"%d" % (number % 3)

    def test_dali_passes_over_hidden_files(self, run_here: RunCli, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            for name in (".hidden.jpg", "c/.hidden.jpg", "c/1.jpg", "c/README", "__x__/2.jpg"):
                archive.addfile(tarfile.TarInfo(name))
        index(run_here, tmp_path, "--kind", "dali")
        assert (tmp_path / "a.idx").read_text() == "v1.2 1\njpg 1536 0 c/1.jpg\n"

    def test_without_samples_dali_has_no_index(self, run_here: RunCli, tmp_path: Path) -> None:
        tarfile.open(tmp_path / "a.tar", "w").close()
        (note,) = index(run_here, tmp_path)["notes"]
        assert "holds no samples" in note

    def test_wids_reads_its_index(self, run_here: RunCli, tars: Path, tmp_path: Path) -> None:
        assert states(index(run_here, tars, "--kind", "wids")) == {"photos.json": "written"}
        done = subprocess.run(
            [sys.executable, READ_WITH_WIDS, tars / "photos.json", tmp_path / "cache"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [(each["image"], each["cls"]) for each in json.loads(done.stdout)] == [
            (jpeg(number).hex(), str(number % 3)) for number in range(6)
        ]

    def test_what_pack_wrote_is_kept_and_its_manifest_tells_more(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dsprep.pack(str(photos), str(tmp_path / "out"), format="webdataset", shards=2, workers=1)
        before = contents(tmp_path / "out")
        assert states(index(run_here, tmp_path / "out")) == {
            "train-000000.idx": "written",
            "train-000001.idx": "written",
            "train.json": "unchanged",
            "manifest.json": "updated",
        }
        sidecars = [shard["sidecars"][0]["name"] for shard in manifest(tmp_path / "out")["shards"]]
        assert sidecars == ["train-000000.idx", "train-000001.idx"]
        after = contents(tmp_path / "out")
        assert {name for name in before if before[name] != after[name]} == {"manifest.json"}
        assert run_here("verify", tmp_path / "out", "--against", photos).code == 0
        again = run_here(
            "pack", photos, tmp_path / "out", "--format", "webdataset", "--shards", "2"
        )
        assert "already packed" in again.out

    def test_names_that_wids_does_not_read_are_noted(
        self, run_here: RunCli, tmp_path: Path
    ) -> None:
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("x" * 120 + ".txt"))
        (note,) = index(run_here, tmp_path)["notes"]
        assert "1 name of more than 100 bytes" in note

    def test_what_dali_cannot_hold_is_said(self, run_here: RunCli, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("x.my file"))
        (note,) = index(run_here, tmp_path)["notes"]
        assert note.startswith("a.tar: has no index")
        assert not (tmp_path / "a.idx").exists()
        (problem,) = messages(index(run_here, tmp_path, "--kind", "dali", code=3))
        assert "cannot hold the extension of 'x.my file'" in problem[2]

    def test_a_name_taken_by_another_file_is_refused(self, run_here: RunCli, tars: Path) -> None:
        (tars / "photos.json").write_text('{"annotations": []}')
        before = contents(tars)
        refused = run_here("shard", "index", tars)
        assert refused.code == 5
        assert "photos.json: has the name of the wids index" in refused.err
        assert contents(tars) == before
        assert states(index(run_here, tars, "--overwrite"))["photos.json"] == "replaced"


class TestRecordIO:
    def test_the_index_is_that_of_mxnet(self, run_here: RunCli, record: Path) -> None:
        assert states(index(run_here, record)) == {"a.idx": "written", "manifest.json": "written"}
        assert (record / "a.idx").read_bytes() == record.with_name("a.idx").read_bytes()
        assert run_here("verify", record).code == 0

    def test_ids_that_repeat(self, run_here: RunCli, tmp_path: Path, mxnet: ModuleType) -> None:
        writer = mxnet.recordio.MXRecordIO(str(tmp_path / "a.rec"), "w")
        for number in range(3):
            header = mxnet.recordio.IRHeader(0, number, 0, 0)
            writer.write(mxnet.recordio.pack(header, jpeg(number)))
        writer.close()
        (note,) = index(run_here, tmp_path)["notes"]
        assert "positions" in note
        reader = mxnet.recordio.MXIndexedRecordIO(
            str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "r"
        )
        for number in range(3):
            header, data = mxnet.recordio.unpack(reader.read_idx(number))
            assert (header.label, data) == (number, jpeg(number))
        assert run_here("verify", tmp_path).code == 0
        assert set(states(index(run_here, tmp_path)).values()) == {"unchanged"}

    @pytest.mark.parametrize("text", ["", "5\t0\n3\t7\n", "no index", "5\t0\n5\t0\n5\t0\n5\t0\n"])
    def test_a_wrong_index_is_replaced_and_said(
        self, run_here: RunCli, record: Path, text: str
    ) -> None:
        (record / "a.idx").write_text(text)
        report = index(run_here, record, "--kind", "mxnet")
        assert states(report) == {"a.idx": "replaced"}
        assert report["files"][0]["detail"]
        assert (record / "a.idx").read_bytes() == record.with_name("a.idx").read_bytes()

    def test_a_lost_index_of_pack_is_made_again(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dsprep.pack(str(photos), str(tmp_path / "out"), format="recordio", shards=2, workers=1)
        before = contents(tmp_path / "out")
        (tmp_path / "out" / "train-00001.idx").unlink()
        assert states(index(run_here, tmp_path / "out")) == {
            "train-00000.idx": "unchanged",
            "train-00001.idx": "written",
            "manifest.json": "unchanged",
        }
        assert contents(tmp_path / "out") == before


class TestTFRecord:
    @pytest.fixture
    def shards(self, tmp_path: Path, tensorflow: ModuleType) -> Path:
        for number in range(2):
            path = tmp_path / f"a.tfrecord-0000{number}-of-00002"
            with tensorflow.io.TFRecordWriter(str(path)) as writer:
                for size in range(3):
                    value = tensorflow.train.BytesList(value=[bytes(50 * size)])
                    feature = {"x": tensorflow.train.Feature(bytes_list=value)}
                    features = tensorflow.train.Features(feature=feature)
                    writer.write(tensorflow.train.Example(features=features).SerializeToString())
        return tmp_path

    def test_each_line_is_a_record(self, run_here: RunCli, shards: Path) -> None:
        assert states(index(run_here, shards)) == {
            "a.tfrecord-00000-of-00002.idx": "written",
            "a.tfrecord-00001-of-00002.idx": "written",
            "manifest.json": "written",
        }
        assert manifest(shards)["name"] == "a"
        shard = shards / "a.tfrecord-00001-of-00002"
        lines = shard.with_name(shard.name + ".idx").read_text().splitlines()
        places_ = [tuple(map(int, line.split(" "))) for line in lines]
        data = shard.read_bytes()
        end = 0
        for offset, size in places_:
            assert offset == end
            assert int.from_bytes(data[offset : offset + 8], "little") == size - 16
            end = offset + size
        assert end == len(data)
        assert run_here("verify", shards).code == 0

    def test_gzip_has_no_offsets_and_that_is_said(self, run_here: RunCli, shards: Path) -> None:
        for number in range(2):
            path = shards / f"a.tfrecord-0000{number}-of-00002"
            (shards / f"b-{number}.tfrecord.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        report = index(run_here, shards)
        assert states(report) == {"manifest.json": "written"}
        assert [note.partition(":")[0] for note in report["notes"]] == [
            "b-0.tfrecord.gz",
            "b-1.tfrecord.gz",
        ]
        assert run_here("verify", shards).code == 0
        problems = messages(index(run_here, shards, "--kind", "dali", code=3))
        assert ["is gzip" in message for _, _, message in problems] == [True, True]


class TestManifest:
    def test_it_tells_what_is_known(self, run_here: RunCli, record: Path) -> None:
        (record / "classes.txt").write_text("cat\ndog\n")
        shutil.copy(record / "classes.txt", record / "a.lst")
        index(run_here, record)
        values = manifest(record)
        assert (values["name"], values["samples"], values["source"]) == ("a", 5, "")
        assert values["classes"] == ["cat", "dog"]
        assert values["options"]["indexed"] is True
        assert [file["name"] for file in values["shards"][0]["sidecars"]] == ["a.idx", "a.lst"]
        assert [file["name"] for file in values["files"]] == ["classes.txt"]

    def test_the_companions_of_one_shard_have_its_name(self, run_here: RunCli, tars: Path) -> None:
        report = index(run_here, tars / "photos-0000.tar")
        assert set(states(report)) == {
            "photos-0000.idx",
            "photos-0000.json",
            "photos-0000.tar.manifest.json",
        }
        assert run_here("verify", tars / "photos-0000.tar").code == 0

    def test_changes_are_found_by_it(self, run_here: RunCli, tars: Path) -> None:
        index(run_here, tars)
        path = tars / "photos-0001.tar"
        data = bytearray(path.read_bytes())
        data[data.index(jpeg(4)) + 100] ^= 1
        path.write_bytes(data)
        verified = run_here("verify", tars)
        assert verified.code == 3
        assert "crc32c" in verified.out

    def test_of_other_shards_is_replaced_only_if_told(self, run_here: RunCli, tars: Path) -> None:
        index(run_here, tars)
        write_tar(tars / "photos-0001.tar", 0, 9)
        before = (tars / "manifest.json").read_bytes()
        problems = messages(index(run_here, tars, code=3))
        assert {name for name, _, _ in problems} == {"photos-0001.tar"}
        assert "9 samples, but the manifest says 3" in problems[-1][2]
        assert (tars / "manifest.json").read_bytes() == before
        assert states(index(run_here, tars, "--overwrite"))["manifest.json"] == "replaced"
        assert run_here("verify", tars).code == 0

    def test_shards_that_it_does_not_name(self, run_here: RunCli, tars: Path) -> None:
        index(run_here, tars)
        write_tar(tars / "photos-0002.tar", 0, 1)
        assert messages(index(run_here, tars, code=3)) == [
            ("photos-0002.tar", None, "is there, but not in the manifest")
        ]
        assert index(run_here, tars, "--overwrite")["shards"] == 3
        assert run_here("verify", tars).code == 0

    def test_pack_does_not_take_it_for_its_own(
        self, run_here: RunCli, photos: Path, tars: Path
    ) -> None:
        index(run_here, tars)
        refused = run_here("pack", photos, tars, "--format", "webdataset")
        assert refused.code == 5
        assert "another command wrote" in refused.err


class TestDamage:
    @pytest.mark.parametrize("kind", [(), ("--kind", "dali")], ids=["whole", "by its headers"])
    def test_is_named_and_the_other_shards_are_indexed(
        self, run_here: RunCli, tars: Path, kind: tuple[str, ...]
    ) -> None:
        path = tars / "photos-0000.tar"
        path.write_bytes(path.read_bytes()[:4000])
        report = index(run_here, tars, *kind, code=3)
        ((name, offset, message),) = messages(report)
        assert (name, offset is not None and offset <= 4000) == ("photos-0000.tar", True)
        assert "ends" in message
        assert states(report) == {"photos-0001.idx": "written"}
        assert names(tars) == ["photos-0000.tar", "photos-0001.idx", "photos-0001.tar"]

    def test_of_a_record(self, run_here: RunCli, record: Path) -> None:
        data = bytearray((record / "a.rec").read_bytes())
        second = int((record.with_name("a.idx")).read_text().splitlines()[1].split("\t")[1])
        data[second] ^= 1
        (record / "a.rec").write_bytes(data)
        ((name, offset, _),) = messages(index(run_here, record, code=3))
        assert (name, offset) == ("a.rec", second)
        assert names(record) == ["a.rec"]


class TestRuns:
    def test_the_second_changes_nothing(self, run_here: RunCli, tars: Path) -> None:
        index(run_here, tars)
        before = places(tars)
        assert set(states(index(run_here, tars)).values()) == {"unchanged"}
        assert places(tars) == before

    def test_same_bytes_for_any_number_of_workers(self, run_here: RunCli, tars: Path) -> None:
        other = tars.with_name("other")
        shutil.copytree(tars, other)
        for path, workers in ((tars, 1), (other, 3)):
            assert run_here("shard", "index", path, "-j", workers).code == 0
        assert contents(tars) == contents(other)

    def test_dry_run_writes_nothing(self, run_here: RunCli, tars: Path) -> None:
        before = places(tars)
        report = index(run_here, tars, "--dry-run")
        assert report["state"] == "planned"
        assert set(states(report).values()) == {"written"}
        assert len(states(report)) == 4
        assert places(tars) == before

    def test_check_only_compares(self, run_here: RunCli, tars: Path) -> None:
        before = places(tars)
        report = index(run_here, tars, "--check", code=3)
        assert set(states(report).values()) == {"missing"}
        assert {message for _, _, message in messages(report)} == {"is missing"}
        assert places(tars) == before
        index(run_here, tars)
        index(run_here, tars, "--check")
        (tars / "photos-0000.idx").write_text("v1.2 1\n")
        before = places(tars)
        ((name, _, message),) = messages(index(run_here, tars, "--check", code=3))
        assert (name, "line 1" in message) == ("photos-0000.idx", True)
        assert places(tars) == before

    def test_the_summary_is_for_people(self, run_here: RunCli, tars: Path) -> None:
        (tars / "photos-0000.idx").write_text("nonsense")
        finished = run_here("shard", "index", tars)
        assert "indexed as webdataset" in finished.out
        assert "photos-0000.idx: line 1 is 'nonsense'" in finished.out
        assert run_here("shard", "index", tars, "-q").out == ""

    def test_kinds_of_other_formats_are_refused(self, run_here: RunCli, tars: Path) -> None:
        refused = run_here("shard", "index", tars, "--kind", "mxnet")
        assert refused.code == 2
        assert "dali, wids, manifest" in refused.err

    def test_shards_whose_index_would_have_one_name_are_refused(
        self, run_here: RunCli, record: Path
    ) -> None:
        write_tar(record / "a.tar", 0, 1)
        refused = run_here("shard", "index", record / "a.rec")
        assert refused.code == 5
        assert "a.idx: would be the index of a.rec and of a.tar" in refused.err
        assert not (record / "a.idx").exists()

    def test_an_index_that_belongs_to_one_of_two_shards_stays_its_own(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        for name in ("train.tar", "train.rec"):
            dsprep.pack(str(photos), str(tmp_path / "out" / name), workers=1)
        before = (tmp_path / "out" / "train.idx").read_bytes()
        report = index(run_here, tmp_path / "out" / "train.rec")
        assert set(states(report).values()) == {"unchanged"}
        report = index(run_here, tmp_path / "out" / "train.tar")
        assert "train.idx" not in states(report)
        assert "train.idx: would be the index of train.tar and of train.rec" in report["notes"][0]
        refused = run_here("shard", "index", tmp_path / "out" / "train.tar", "--kind", "dali")
        assert refused.code == 5
        assert (tmp_path / "out" / "train.idx").read_bytes() == before

    def test_an_unfinished_run_is_not_disturbed(self, run_here: RunCli, tars: Path) -> None:
        (tars / ".dsprep").mkdir()
        (tars / ".dsprep" / "run.json").write_text("{}")
        before = contents(tars)
        refused = run_here("shard", "index", tars)
        assert refused.code == 5
        assert "unfinished run" in refused.err
        after = contents(tars)
        after.pop(".dsprep/lock", None)
        assert after == before

    @pytest.mark.parametrize("path", ["", "file.txt", "nothing"])
    def test_what_holds_no_shards_is_an_error(
        self, run_here: RunCli, tmp_path: Path, path: str
    ) -> None:
        (tmp_path / "file.txt").touch()
        assert run_here("shard", "index", tmp_path / path).code == 4


class TestOnS3:
    """Shards in a bucket get the same indexes as on a disk."""

    @pytest.fixture
    def url(self, bucket: Bucket, tars: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        for path in tars.iterdir():
            bucket.put(f"set/{path.name}", path.read_bytes())
        return f"{bucket.url}/set/"

    def test_the_bytes_are_those_on_a_disk(
        self, run_here: RunCli, tars: Path, url: str, tmp_path: Path
    ) -> None:
        on_disk = index(run_here, tars)
        assert states(index(run_here, url, "--dry-run")) == states(on_disk)
        assert states(index(run_here, url)) == states(on_disk)
        assert run_here("sync", url, tmp_path / "back", "-q").code == 0
        assert contents(tmp_path / "back") == contents(tars)
        assert run_here("verify", url).code == 0
        assert set(states(index(run_here, url, "--check")).values()) == {"unchanged"}

    def test_a_manifest_that_is_there_tells_more(
        self, run_here: RunCli, tars: Path, url: str, bucket: Bucket
    ) -> None:
        index(run_here, url, "--kind", "manifest")
        assert states(index(run_here, url, "--kind", "dali"))["manifest.json"] == "updated"
        assert run_here("verify", url).code == 0
        bucket.put("set/photos-0000.idx", b"wrong")
        report = index(run_here, url, "--check", "--kind", "dali", code=3)
        assert [each["file"] for each in report["problems"]] == ["photos-0000.idx"]

    def test_an_unfinished_run_is_not_disturbed(
        self, run_here: RunCli, url: str, bucket: Bucket
    ) -> None:
        bucket.put("set/.dsprep/lease.json", b"{}")
        refused = run_here("shard", "index", url)
        assert refused.code == 5
        assert f"{url}: an unfinished run is there" in refused.err

    def test_what_holds_no_shards_is_an_error(self, run_here: RunCli, url: str) -> None:
        assert run_here("shard", "index", f"{url}photos-0000.tar").code == 2
        assert run_here("shard", "index", f"{url}none/").code in (2, 4)
