"""What Megatron-Energon reads beside shards: as `energon prepare` writes it, and as it stays right.

tests/formats/energon has shards and what Energon 7.4.1 has written beside them (`make judges`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.verifying.energon import collapsed, dataset, parts_of, shards_in, shards_listed, split
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.servers.bucket import Bucket

RunCli = Callable[..., Finished]

PREPARED = Path(__file__).parents[1] / "formats" / "energon"
SETS = ("captions", "classes", "crude")


def index(run_here: RunCli, *args: object, code: int = 0) -> dict[str, Any]:
    done = run_here("shard", "index", *args, "--energon", "--json", "-j1")
    assert done.code == code, done.err
    return dict(json.loads(done.out))


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The shards without what Energon has written beside them."""
    left_out = shutil.ignore_patterns("*.idx", ".nv-meta")
    return Path(shutil.copytree(PREPARED, tmp_path / "sets", ignore=left_out))


@pytest.fixture
def classes(bare: Path) -> Path:
    return bare / "classes"


class TestBytes:
    def test_are_those_of_energon_prepare(self, run_here: RunCli, bare: Path) -> None:
        for name in SETS:
            report = index(run_here, bare / name)
            assert {file["state"] for file in report["files"]} == {"written"}
            assert {file["kind"] for file in report["files"]} == {"energon"}
        assert contents(bare) == contents(PREPARED)
        assert {file["state"] for file in index(run_here, bare / "crude")["files"]} == {"unchanged"}

    def test_are_the_same_on_s3(
        self, run_here: RunCli, bucket: Bucket, classes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        for path in classes.iterdir():
            bucket.put(f"set/{path.name}", path.read_bytes())
        index(run_here, f"{bucket.url}/set")
        assert run_here("sync", f"{bucket.url}/set/", classes, "-q").code == 0
        assert contents(classes) == contents(PREPARED / "classes")
        report = index(run_here, f"{bucket.url}/set", "--check")
        assert {file["state"] for file in report["files"]} == {"unchanged"}


class TestOfDsprep:
    """Shards with a manifest."""

    @pytest.fixture
    def packed(self, photos: Path, tmp_path: Path) -> Path:
        dest = tmp_path / "out"
        shares = "train=0.5,valid=0.5"
        dsprep.pack(photos, dest, to="webdataset", split=shares, shards=2, workers=1)
        return dest

    def test_sides_are_parts_and_the_manifest_names_the_indexes(
        self, run_here: RunCli, packed: Path
    ) -> None:
        index(run_here, packed)
        lines = (packed / ".nv-meta" / "split.yaml").read_text().splitlines()
        assert [line for line in lines if line.startswith("  v")] == ["  val:"]
        assert "  - valid-{000000..000001}.tar" in lines
        assert run_here("verify", packed).code == 0
        (packed / "train-000000.tar.idx").write_bytes(bytes(16))
        report = index(run_here, packed, "--check", code=3)
        assert [each["file"] for each in report["problems"]] == ["train-000000.tar.idx"]
        assert run_here("verify", packed).code == 3

    @pytest.mark.parametrize(
        ("sides", "parts"),
        [
            (("train2017", "val2017"), {"train": "train2017", "val": "val2017"}),
            (("bounding_box_train", "query"), {"train": "bounding_box_train", "query": "query"}),
            (("train", "train2014"), {"train": "train", "train2014": "train2014"}),
        ],
    )
    def test_a_side_that_means_a_part_of_energon_is_that_part(
        self, sides: tuple[str, ...], parts: dict[str, str]
    ) -> None:
        wanted, notes = parts_of({f"{side}-000000.tar": side for side in sides})
        assert wanted == {f"{side}-000000.tar": part for part, side in parts.items()}
        assert notes == []

    def test_sides_that_mean_the_same_keep_their_names(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dest, shares = tmp_path / "out", "train2014=0.4,train2017=0.4,val2017=0.2"
        dsprep.pack(photos, dest, to="webdataset", split=shares, workers=1)
        report = index(run_here, dest)
        lines = (dest / ".nv-meta" / "split.yaml").read_text().splitlines()
        assert [line for line in lines if line.startswith("  ") and "-" not in line] == [
            "  train: []",
            "  val:",
            "  test: []",
            "  train2014:",
            "  train2017:",
        ]
        assert "train is empty: train2014 and train2017 could each be it" in report["notes"][-1]

    def test_what_replaces_the_shards_removes_the_indexes(
        self, run_here: RunCli, packed: Path, photos: Path
    ) -> None:
        index(run_here, packed)
        dsprep.pack(photos, packed, to="webdataset", shards=2, workers=1, overwrite=True)
        assert not list(packed.glob("*.tar.idx"))
        report = index(run_here, packed)
        states = {file["name"]: file["state"] for file in report["files"]}
        assert states[".nv-meta/split.yaml"] == states[".nv-meta/.info.json"] == "replaced"
        assert states[".nv-meta/dataset.yaml"] == "unchanged"


class TestForeign:
    def test_files_that_others_wrote_are_kept_until_told(
        self, run_here: RunCli, classes: Path
    ) -> None:
        meta = classes / ".nv-meta"
        index(run_here, classes)
        (meta / "dataset.yaml").write_text("sample_loader: mine.py\n")
        (meta / "split.yaml").write_text("split_parts: {}\n")
        (classes / "val-000000.tar").rename(classes / "train-000003.tar")
        report = index(run_here, classes)
        assert [note.rpartition("/")[2] for note in report["notes"]] == [
            f"{name}: is kept as somebody wrote it, and not checked; --overwrite replaces it"
            for name in ("dataset.yaml", "split.yaml")
        ]
        for each in (report, index(run_here, classes, "--check")):
            states = {file["name"]: file["state"] for file in each["files"]}
            assert states[".nv-meta/dataset.yaml"] == states[".nv-meta/split.yaml"] == "kept"
        assert (meta / "dataset.yaml").read_text() == "sample_loader: mine.py\n"
        assert "train-000003.tar" in shards_in((meta / ".info.json").read_bytes())
        index(run_here, classes, "--overwrite")
        assert "- train-{000000..000003}.tar" in (meta / "split.yaml").read_text()

    def test_what_a_killed_run_wrote_is_no_other_s(self, run_here: RunCli, classes: Path) -> None:
        index(run_here, classes)
        (classes / ".nv-meta" / ".info.json").unlink()
        shutil.copy(classes / "train-000000.tar", classes / "train-000003.tar")
        assert not index(run_here, classes)["notes"]
        split_file = classes / ".nv-meta" / "split.yaml"
        assert "- train-{000000..000003}.tar" in split_file.read_text()
        # a list that somebody made shorter stays
        split_file.write_text(split_file.read_text().replace("..000003", "..000001"))
        assert "is kept as somebody wrote it" in index(run_here, classes)["notes"][0]

    def test_a_shard_without_an_index_leaves_all_as_it_is(
        self, run_here: RunCli, classes: Path
    ) -> None:
        (classes / "val-000000.tar").write_bytes(b"damaged" * 100)
        report = index(run_here, classes, code=3)
        assert "needs an index of each shard" in report["notes"][-1]
        assert not (classes / ".nv-meta").exists()
        assert (classes / "train-000000.tar.idx").exists()

    @pytest.mark.parametrize(
        ("name", "said"), [("val-000000.tar.idx", "is a directory"), (".nv-meta", "is a file")]
    )
    def test_a_name_that_is_taken_is_told(
        self, run_here: RunCli, classes: Path, name: str, said: str
    ) -> None:
        taken = classes / name
        taken.mkdir() if name.endswith(".idx") else taken.touch()
        done = run_here("shard", "index", classes, "--energon", "-j1")
        assert (done.code, f"{taken}: {said}; move it" in done.err) == (5, True), done.err

    def test_it_goes_with_a_directory_of_webdataset(
        self, run_here: RunCli, classes: Path, photos: Path
    ) -> None:
        one = run_here("shard", "index", classes / "val-000000.tar", "--energon")
        assert one.code == 2
        assert "--energon goes with a directory of shards" in one.err
        none = run_here("shard", "index", classes / "none", "--energon")
        assert none.code == 4
        assert "does not exist" in none.err
        dsprep.pack(photos, classes.parent / "rec", to="recordio", workers=1)
        other = run_here("shard", "index", classes.parent / "rec", "--energon")
        assert other.code == 2
        assert "--energon: not for recordio shards" in other.err


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (["a-8.tar", "a-9.tar", "a-10.tar"], ["a-{8..9}.tar", "a-10.tar"]),
        (["a1b1", "a1b2", "a2b2"], ["a1b{1..2}", "a2b2"]),
        (["{x}\\,0.tar", "{x}\\,1.tar"], ["\\{x\\}\\\\,{0..1}.tar"]),
        (["val.tar", "x.tar"], ["val.tar", "x.tar"]),
        (["1" * 5000, "2" * 5000], ["1" * 5000, "2" * 5000]),  # more digits than Python reads
    ],
)
def test_names_that_count_up_are_joined(names: list[str], texts: list[str]) -> None:
    assert collapsed(names) == texts


@pytest.mark.parametrize(
    ("name", "text"),
    [("yes", "'yes'"), ("it's.tar", "'it''s.tar'"), ("a\n.tar", '"a\\n.tar"'), ("v_2", "v_2")],
)
def test_unusual_names_are_quoted(name: str, text: str) -> None:
    assert f"  {text}:" in split({"a.tar": name}).decode().splitlines()


@pytest.mark.parametrize(
    ("shapes", "line"),
    [
        ({("cls", "jpg"), ("cls", "json", "png")}, "  image: jpg,png"),
        ({("jpg", "txt"), ("a.txt", "jpg", "txt")}, "  caption: txt"),
        ({("jpg",), ("cls", "jpg")}, "__class__: CrudeWebdataset"),  # some have no label
        ({("cls", "jpg", "png")}, "__class__: CrudeWebdataset"),  # which is the image?
        ({("cls", "webp")}, "__class__: CrudeWebdataset"),  # Energon does not decode it
        ({("a.txt", "b.txt", "jpg")}, "__class__: CrudeWebdataset"),
    ],
)
def test_the_type_is_one_that_all_samples_have(shapes: set[tuple[str, ...]], line: str) -> None:
    assert line in dataset(shapes)[0].decode().splitlines()


@pytest.mark.parametrize("span", ["0..99999999999", "3..1", "00..1"])
def test_spans_that_dsprep_does_not_write_name_no_shards(span: str) -> None:
    assert shards_listed(f"split_parts:\n  train:\n  - a-{{{span}}}.tar\n".encode()) == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"shard_counts": 1}', b"[" * 100_000])
def test_what_is_no_list_of_shards_names_none(data: bytes) -> None:
    assert shards_in(data) == []
