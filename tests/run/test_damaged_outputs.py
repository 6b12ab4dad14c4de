"""What is told of data sets whose files are not those of their manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder

RunHere = Callable[..., Finished]

# The command and its options, where it writes, and the files that it writes samples to.
WRITTEN = {
    "webdataset": (("pack", "--to", "webdataset", "--shards", 3), "out", "out/*.tar"),
    "one file": (("pack",), "out.rec", "out.rec"),
    "folder": (("convert", "--to", "folder"), "out", "out/*/*"),
}


@pytest.fixture(scope="module")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in two classes, and one file that is no image."""
    root = tmp_path_factory.mktemp("flawed") / "photos"
    image_folder(root, ("a", "b"), 3)
    (root / "a/broken.jpg").write_bytes(b"no image")
    return root


class TestManifestsOfStrangers:
    def test_one_shard_named_twice_is_refused(self, run_here: RunHere, tmp_path: Path) -> None:
        image_folder(tmp_path / "photos")
        for name in ("one", "two"):
            command = ("pack", tmp_path / "photos", tmp_path / name, "--to", "recordio")
            assert run_here(*command, "--name", name, "--shards", 2).code == 0
        path = tmp_path / "two/manifest.json"
        values = json.loads(path.read_text())
        values["shards"].append(values["shards"][0])
        path.write_text(json.dumps(values))

        joined = run_here("join", tmp_path / "one", tmp_path / "two", tmp_path / "all")
        verified = run_here("verify", tmp_path / "two")

        assert (joined.code, (tmp_path / "all").exists()) == (4, False)
        assert "it names the file 'two-00000.rec' 2 times" in joined.err
        assert (verified.code, "names the file" in verified.err) == (4, True)

    @pytest.mark.parametrize("verb", ["verify", "convert"])
    def test_more_samples_than_bytes_are_refused(
        self, run_here: RunHere, tmp_path: Path, verb: str
    ) -> None:
        image_folder(tmp_path / "photos")
        shards = tmp_path / "shards"
        assert run_here("pack", tmp_path / "photos", shards, "--to", "tfrecord").code == 0
        path = shards / "manifest.json"
        values = json.loads(path.read_text())
        values["shards"][0]["samples"] = values["samples"] = 10**15
        path.write_text(json.dumps(values))

        more = (tmp_path / "out", "--to", "recordio") if verb == "convert" else ()
        done = run_here(verb, shards, *more)

        assert done.code == 4, done.out
        assert "do not hold 1,000,000,000,000,000 samples" in done.err


class TestStatus:
    @pytest.mark.parametrize("name", WRITTEN)
    def test_lists_what_is_there(
        self, run_here: RunHere, flawed: Path, tmp_path: Path, name: str
    ) -> None:
        (verb, *options), dest_name, pattern = WRITTEN[name]
        dest = tmp_path / dest_name
        assert run_here(verb, flawed, dest, *options).code == 3  # one image was rejected
        samples = sorted(tmp_path.glob(pattern))
        whole = run_here("status", dest, "--json")
        report = json.loads(whole.out)
        assert (whole.code, report["state"]) == (0, "complete")
        if name != "folder":
            assert report["bytes"] == sum(path.stat().st_size for path in samples)
            assert report["done"] == report["shards"] == len(samples)
        size = samples[0].stat().st_size
        samples[0].write_bytes(b"0123456789")
        if len(samples) > 1:
            samples[-1].unlink()

        damaged = run_here("status", dest, "--json")

        report = json.loads(damaged.out)
        assert (damaged.code, report["state"]) == (3, "damaged")
        if name != "folder":
            assert (report["shards"], report["done"]) == (len(samples), max(0, len(samples) - 2))
        wrong = {Path(each["file"]).name: each["message"] for each in report["problems"]}
        assert wrong[samples[0].name] == f"has 10 bytes, and {size:,} were written"
        if len(samples) > 1:
            assert wrong[samples[-1].name] == "was written, and is not there any more"
        shown = run_here("status", dest).out
        assert f"{samples[0].name}: has 10 bytes" in shown
