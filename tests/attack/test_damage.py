"""`verify` finds whatever can be wrong with shards, says where, and never dies of it."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dsprep
from dsprep.errors import DsprepError
from tests.attack.trees import manifest
from tests.conftest import Finished
from tests.images import image_folder, jpeg, truncated

RunCli = Callable[..., Finished]

KINDS: dict[str, dict[str, Any]] = {
    "webdataset": {"format": "webdataset", "shards": 3},
    "tfrecord": {"format": "tfrecord", "shards": 3},
    "gzip": {"format": "tfrecord", "shards": 3, "compression": "gzip"},
    "recordio": {"format": "recordio", "shards": 3},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def packed(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The photos, packed in every kind, below the kind's name."""
    directory = tmp_path_factory.mktemp("packed")
    for kind, options in KINDS.items():
        dsprep.pack(str(photos), str(directory / kind), workers=1, **options)
    return directory


@pytest.fixture
def damaged(packed: Path, tmp_path: Path, kind: str) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(packed / kind, tmp_path / "damaged"))


def shard(directory: Path, number: int) -> Path:
    return directory / manifest(directory)["shards"][number]["name"]


def report(finished: Finished) -> list[dict[str, Any]]:
    """The problems that `verify --json` tells."""
    problems: list[dict[str, Any]] = json.loads(finished.out)["problems"]
    assert finished.code == (3 if problems else 0), finished
    return problems


@every_kind
class TestFiles:
    def verify(self, run_here: RunCli, directory: Path, *args: object) -> list[dict[str, Any]]:
        return report(run_here("verify", directory, "--json", "-j1", *args))

    def test_that_nobody_damaged_are_whole(
        self, run_here: RunCli, packed: Path, photos: Path, kind: str
    ) -> None:
        assert self.verify(run_here, packed / kind, "--decode", "--against", photos) == []

    def test_missing(self, run_here: RunCli, damaged: Path) -> None:
        shard(damaged, 1).unlink()
        (problem,) = self.verify(run_here, damaged)
        assert problem["file"] == shard(damaged, 1).name
        assert "not there" in problem["message"]

    def test_a_directory_or_a_broken_link_is_missing(self, run_here: RunCli, damaged: Path) -> None:
        shard(damaged, 1).unlink()
        shard(damaged, 1).mkdir()
        shard(damaged, 2).unlink()
        shard(damaged, 2).symlink_to("nowhere")
        problems = self.verify(run_here, damaged)
        assert [each["file"] for each in problems] == [shard(damaged, n).name for n in (1, 2)]

    def test_too_many(self, run_here: RunCli, damaged: Path) -> None:
        extra = damaged / shard(damaged, 1).name.replace("1", "7", 1)
        shutil.copy(shard(damaged, 1), extra)
        (problem,) = self.verify(run_here, damaged)
        assert problem["file"] == extra.name
        assert "not in the manifest" in problem["message"]

    @pytest.mark.parametrize("keep", [0.0, 0.5, 0.999])
    def test_cut_off(self, run_here: RunCli, damaged: Path, kind: str, keep: float) -> None:
        data = shard(damaged, 1).read_bytes()
        shard(damaged, 1).write_bytes(truncated(data, keep))
        problems = self.verify(run_here, damaged)
        of_this = [each for each in problems if each["file"] == shard(damaged, 1).name]
        assert any("bytes, not" in each["message"] for each in of_this)
        assert len(problems) - len(of_this) <= (kind == "recordio")  # its index
        offsets = [each["offset"] for each in of_this if each["offset"] is not None]
        assert offsets or keep != 0.5
        assert all(0 <= offset <= len(data) * (3 if kind == "gzip" else 1) for offset in offsets)

    def test_of_which_a_byte_changed(self, run_here: RunCli, damaged: Path) -> None:
        rng = random.Random(damaged.parent.name)
        for number in range(3):
            data = bytearray(shard(damaged, number).read_bytes())
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            shard(damaged, number).write_bytes(data)
        problems = self.verify(run_here, damaged)
        for number in range(3):
            of_this = [each for each in problems if each["file"] == shard(damaged, number).name]
            assert any("crc32c" in each["message"] for each in of_this)

    def test_swapped(self, run_here: RunCli, damaged: Path) -> None:
        one, two, aside = shard(damaged, 0), shard(damaged, 2), damaged / "aside"
        one.rename(aside)
        two.rename(one)
        aside.rename(two)
        problems = self.verify(run_here, damaged)
        assert {one.name, two.name} <= {each["file"] for each in problems}

    def test_other_than_shards(self, run_here: RunCli, damaged: Path) -> None:
        (damaged / "classes.txt").write_text("dog\ncat\npets/owl\n")
        for path in [*damaged.glob("train.json"), *damaged.glob("*.lst")]:
            path.write_bytes(path.read_bytes() + b" ")
        problems = self.verify(run_here, damaged)
        wanted = {"classes.txt", *(path.name for path in damaged.glob("*.lst"))}
        wanted |= {path.name for path in damaged.glob("train.json")}
        assert {each["file"] for each in problems} == wanted

    def test_of_a_run_that_has_not_ended(self, run_here: RunCli, damaged: Path) -> None:
        (damaged / ".dsprep").mkdir()
        assert self.verify(run_here, damaged) == []
        assert not (damaged / ".dsprep").exists()  # the notes of a run that has ended
        (damaged / ".dsprep").mkdir()
        (damaged / "manifest.json").unlink()
        assert (
            "a run is writing there, or was stopped" in self.verify(run_here, damaged)[0]["message"]
        )

    def test_that_no_manifest_tells_of(self, run_here: RunCli, damaged: Path, kind: str) -> None:
        last = shard(damaged, 2)
        (damaged / "manifest.json").unlink()
        assert self.verify(run_here, damaged) == []
        assert self.verify(run_here, last) == []
        last.write_bytes(truncated(last.read_bytes()))
        (problem,) = self.verify(run_here, damaged)
        assert problem["file"] == last.name
        assert problem["offset"] is not None


class TestIndexes:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "lists 0 samples"),
            ("0\t0\n1\t7\n", "line 1"),
            ("x\ty\n", "index"),
            ("\xff\x00", "index"),
            ("9" * 5000 + "\t0\n", "index"),
        ],
    )
    @pytest.mark.parametrize("kind", ["recordio"])
    def test_that_are_wrong(self, run_here: RunCli, damaged: Path, text: str, message: str) -> None:
        index = shard(damaged, 0).with_suffix(".idx")
        index.write_bytes(text.encode("latin-1"))
        problems = report(run_here("verify", damaged, "--json", "-j1"))
        assert {each["file"] for each in problems} == {index.name}
        assert any(message in each["message"] for each in problems)

    @pytest.mark.parametrize("kind", ["recordio"])
    def test_of_another_shard_are_found_without_a_manifest(
        self, run_here: RunCli, damaged: Path
    ) -> None:
        one, two = (shard(damaged, number).with_suffix(".idx") for number in (0, 1))
        shutil.copy(two, one)
        (damaged / "manifest.json").unlink()
        (problem,) = report(run_here("verify", damaged, "--json", "-j1"))
        assert (problem["file"], "line 1" in problem["message"]) == (one.name, True)


PRESETS: dict[str, dict[str, Any]] = {
    **{name: {"format": name} for name in ("webdataset", "tfrecord", "recordio")},
    **{
        preset: {"format": "tfrecord", "features": preset}
        for preset in ("slim", "inception", "tfds")
    },
    "mapped": {"format": "tfrecord", "rename": {"image": "x", "label": "y"}},
    "extensions": {"format": "webdataset", "rename": {"image": "img", "label": "y"}},
    "index": {"format": "webdataset", "key": "index", "metadata": True},
    "resized": {"format": "tfrecord", "transform": {"resize": (24, 16), "crop": (20, 16)}},
    "resized slim": {"format": "tfrecord", "features": "slim", "transform": {"resize": 20}},
    "gray": {"format": "recordio", "transform": {"color": "gray", "encode": "png"}},
}


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images whose names are numbers, as keys of formats without names are; two are the same."""
    root = tmp_path_factory.mktemp("numbered") / "numbered"
    root.mkdir()
    for number in range(12):
        (root / f"{number}.jpg").write_bytes(jpeg(number))
    (root / "5.jpg").write_bytes(jpeg(4))
    lines = [f"{number + 3}\t{number % 4}\t{number}.jpg\n" for number in range(12)]
    (root.parent / "train.lst").write_text("".join(lines))
    lines[7] = "10\t0\t7.jpg\n"
    (root.parent / "other.lst").write_text("".join(lines))
    return root


@pytest.mark.parametrize("preset", PRESETS)
def test_what_the_source_holds_is_compared(numbered: Path, tmp_path: Path, preset: str) -> None:
    """One packing, and sources that differ from it in one thing each."""
    options = dict(PRESETS[preset])
    if "transform" in options:
        options["transform"] = dsprep.Transform(**options["transform"])
    dest, source = tmp_path / "out", tmp_path / "source"
    train, other = numbered.parent / "train.lst", numbered.parent / "other.lst"
    dsprep.pack(str(numbered), str(dest), list_file=str(train), shards=2, workers=1, **options)
    shutil.copytree(numbered, source)

    def problems(lst: Path = train) -> list[str]:
        against = dsprep.make_source(str(source), list_file=str(lst))
        found = dsprep.verify(str(dest), against=against, workers=1).problems
        return [f"{each.sample}: {each.message}" for each in found]

    assert problems() == []
    label, *more = problems(other)
    assert "label" in label
    assert "7.jpg" in label
    assert not more

    (tmp_path / "less.lst").write_text("".join(train.read_text().splitlines(keepends=True)[1:]))
    (extra,) = problems(tmp_path / "less.lst")
    assert "no such sample" in extra
    (tmp_path / "more.lst").write_text(train.read_text() + "99\t0\tmore.jpg\n")
    (source / "more.jpg").write_bytes(jpeg(99))
    (missing,) = problems(tmp_path / "more.lst")
    assert "more.jpg" in missing

    changed = bytearray((source / "9.jpg").read_bytes())
    (source / "9.jpg").write_bytes(jpeg(77)[: len(changed)].ljust(len(changed), b"\0"))
    if "transform" not in options:  # after one, images are not compared
        assert any("9.jpg" in each for each in problems())


def test_images_are_compared_also_where_labels_are_not(run_here: RunCli, tmp_path: Path) -> None:
    files = image_folder(tmp_path / "source", (".",))
    dest = tmp_path / "out"
    dsprep.pack(str(tmp_path / "source"), str(dest), format="webdataset", workers=1)
    assert report(run_here("verify", dest, "--against", tmp_path / "source", "--json")) == []
    (tmp_path / "source" / "001.jpg").write_bytes(files["002.jpg"])
    (problem,) = report(run_here("verify", dest, "--against", tmp_path / "source", "--json"))
    assert problem["sample"] == "001"
    assert problem["file"] == "train-000000.tar"
    assert problem["offset"] is not None


def test_labels_that_are_gone_are_other_labels(run_here: RunCli, tmp_path: Path) -> None:
    image_folder(tmp_path / "source")
    dest = tmp_path / "train.tar"
    with tarfile.open(dest, "w") as tar:
        for path in sorted((tmp_path / "source").rglob("*.jpg")):
            tar.add(path, path.relative_to(tmp_path / "source"))
            (tmp_path / "0.cls").write_text("01"[path.parent.name == "dog"])
            if path.name != "001.jpg":
                name = path.relative_to(tmp_path / "source").with_suffix(".cls")
                tar.add(tmp_path / "0.cls", name)
    found = report(run_here("verify", dest, "--against", tmp_path / "source", "--json"))
    assert {each["sample"] for each in found} == {"cat/001", "dog/001"}
    assert all("label" in each["message"] for each in found)


@every_kind
def test_decoding_names_the_image_that_is_damaged(
    run_here: RunCli, photos: Path, tmp_path: Path, kind: str
) -> None:
    source, dest = tmp_path / "source", tmp_path / "out"
    shutil.copytree(photos, source)
    (source / "dog" / "003.jpg").write_bytes(truncated(jpeg(1)))
    dsprep.pack(str(source), str(dest), check="none", workers=1, **KINDS[kind])
    assert report(run_here("verify", dest, "--json", "-j1")) == []
    (problem,) = report(run_here("verify", dest, "--decode", "--json", "-j1"))
    assert problem["sample"] in ("dog/003", "11")
    assert problem["offset"] is not None
    assert "truncated JPEG" in problem["message"]


class TestLoaders:
    def test_that_die_are_a_problem_of_the_shard(
        self, run_here: RunCli, tmp_path: Path, mxnet: ModuleType
    ) -> None:
        """MXNet ends the process at an image that OpenCV cannot decode and that is resized."""
        source, dest = tmp_path / "source", tmp_path / "out"
        image_folder(source, (".",), per_class=8)
        (source / "006.jpg").write_bytes(b"\xff\xd8\xff not an image")
        dsprep.pack(
            *(str(source), str(dest)), format="recordio", shards=2, shuffle=False, check="none"
        )
        (problem,) = report(run_here("verify", dest, "--loader", "mxnet", "--json"))
        assert problem["file"] == "train-00001.rec"
        assert "mxnet" in problem["message"]

    def test_that_do_not_read_this_format_are_refused(self, run_here: RunCli, packed: Path) -> None:
        refused = run_here("verify", packed / "recordio", "--loader", "webdataset")
        assert refused.code == 2
        assert "recordio" in refused.err


class TestShardsOfOthers:
    def test_by_tarfile(self, run_here: RunCli, photos: Path, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "a.tar", "w") as tar:
            tar.add(photos, ".")
        finished = run_here("verify", tmp_path / "a.tar", "--decode", "--against", photos, "--json")
        assert report(finished) == []
        assert json.loads(finished.out)["samples"] == 24

    def test_by_mxnet(
        self, run_here: RunCli, photos: Path, tmp_path: Path, mxnet: ModuleType
    ) -> None:
        record = mxnet.recordio.MXIndexedRecordIO(
            str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w"
        )
        for number, path in enumerate(sorted(photos.rglob("*.jpg"))):
            header = mxnet.recordio.IRHeader(0, number // 8, number, 0)
            record.write_idx(number, mxnet.recordio.pack(header, path.read_bytes()))
        record.close()
        finished = run_here("verify", tmp_path / "a.rec", "--decode", "--against", photos, "--json")
        assert report(finished) == []

    @pytest.mark.parametrize("name", ["a.tar", "a.rec", "a.tfrecord", "a.tfrecord.gz"])
    def test_that_are_no_shards(self, run_here: RunCli, tmp_path: Path, name: str) -> None:
        for data in (b"no shard at all", random.Random(0).randbytes(5000), b"\x1f\x8b\x08\0"):
            (tmp_path / name).write_bytes(data)
            (problem,) = report(run_here("verify", tmp_path / name, "--json", "-j1"))
            assert problem["file"] == name

    def test_that_the_disk_cannot_read(self, run_here: RunCli, tmp_path: Path) -> None:
        """What reading this gives is an I/O error, as of a failing disk."""
        (tmp_path / "a.tar").symlink_to("/proc/self/mem")
        (tmp_path / "b.tar").write_bytes(bytes(10240))
        problem, empty = report(run_here("verify", tmp_path, "--json", "-j1"))
        assert problem["file"] == "a.tar"
        assert "cannot be read" in problem["message"]
        assert (empty["file"], empty["message"]) == ("b.tar", "holds no samples")

    def test_of_which_there_are_none(self, run_here: RunCli, tmp_path: Path) -> None:
        (tmp_path / "file.txt").touch()
        for path in (tmp_path, tmp_path / "file.txt", tmp_path / "nothing"):
            refused = run_here("verify", path)
            assert refused.code == 4
            assert str(path) in refused.err


class TestHostileManifests:
    """A manifest may come from anywhere."""

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "null",
            "[]",
            "\0\0\0",
            "\xff\xfe",
            "[" * 100_000,
            '{"dsprep_manifest": 1}',
            '{"dsprep_manifest": 99}',
            '{"dsprep_manifest": ' + "9" * 5000 + "}",
        ],
        ids=range(9),
    )
    def test_that_are_none(self, run_here: RunCli, tmp_path: Path, text: str) -> None:
        (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
        refused = run_here("verify", tmp_path)
        assert refused.code == 4
        assert "manifest.json" in refused.err
        assert len(refused.err) < 1000

    @pytest.mark.parametrize(
        "name", ["../secret", "/etc/passwd", "..", "", "a\0b", "\ud800", "x" * 300]
    )
    def test_that_name_files_elsewhere(
        self, run_here: RunCli, packed: Path, photos: Path, tmp_path: Path, name: str
    ) -> None:
        dest = Path(shutil.copytree(packed / "webdataset", tmp_path / "a/b"))
        (tmp_path / "a" / "secret").write_text("precious")
        values = manifest(dest)
        values["files"][0]["name"] = name
        (dest / "manifest.json").write_text(json.dumps(values))
        assert run_here("verify", dest).code in (3, 4)
        assert run_here("pack", photos, dest, "--format", "recordio").code == 5
        assert run_here("pack", photos, dest, "--format", "recordio", "--overwrite").code == 0
        assert (tmp_path / "a" / "secret").read_text() == "precious"

    @pytest.mark.parametrize("kind", ["webdataset", "tfrecord", "recordio"])
    @pytest.mark.parametrize("seed", range(3))
    def test_of_any_kind_are_an_error_or_a_problem(
        self, packed: Path, photos: Path, tmp_path: Path, kind: str, seed: int
    ) -> None:
        dest = Path(shutil.copytree(packed / kind, tmp_path / "out"))
        whole = (dest / "manifest.json").read_text()
        rng = random.Random(f"{kind} {seed}")
        for _ in range(12):
            values = json.loads(whole)
            spoil(values, rng)
            text = json.dumps(values)
            (dest / "manifest.json").write_text(text)
            source = dsprep.make_source(str(photos))
            try:
                dsprep.verify(str(dest), against=source, workers=1)
                dsprep.pack(str(photos), str(dest), workers=1, **KINDS[kind])
            except DsprepError as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(f"{error!r} for {text}") from error


def test_hostile_lists_of_rejects_are_a_problem(
    run_here: RunCli, flawed: Path, tmp_path: Path
) -> None:
    dest = tmp_path / "out"
    command = ("pack", flawed, dest, "--format", "webdataset")
    assert run_here(*command).code == 3
    for text in ("null\n", "\xff", "[" * 100_000):
        (dest / "rejects.jsonl").write_bytes(text.encode("latin-1"))
        problems = report(run_here("verify", dest, "--against", flawed, "--json", "-j1"))
        assert problems[0]["file"] == "rejects.jsonl"
        refused = run_here(*command)
        assert (refused.code, "rejects.jsonl" in refused.err) == (5, True)


JUNK = (
    *(None, True, -1, 10**30, 1e308, float("inf"), float("nan"), "", "x", "../x", "\0", "\ud800"),
    *([], {}, [[]], [None], {"a": {}}, "9" * 5000, "ffffffff", -(2**63), [1, "2", {}]),
)


def spoil(value: Any, rng: random.Random) -> None:
    """Put something senseless, or nothing, in the place of a random part of a JSON value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.8:
        spoil(value[key], rng)
    elif rng.random() < 0.15:
        del value[key]
    else:
        value[key] = rng.choice(JUNK)
