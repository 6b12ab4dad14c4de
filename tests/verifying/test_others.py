"""`verify` of shards that something else wrote: what it understood, before a long run."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import jpeg, png, truncated

Run = Callable[..., Finished]


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as shard:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            shard.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Two shards with names as other tools have them; a sample has no label."""
    members = {}
    for number in range(4):
        members[f"s{number}.image.JPEG"] = jpeg(number, size=(16, 16))
        members[f"s{number}.mask.png"] = png(number, size=(16, 16))
        members[f"s{number}.json"] = b'{"y": %d}' % number
        if number:
            members[f"s{number}.target.cls"] = b" %d\n" % number
    (tmp_path / "others").mkdir()
    tar(tmp_path / "others" / "a.tar", members)
    tar(tmp_path / "others" / "b.tar", {f"t{name}": data for name, data in members.items()})
    return tmp_path / "others"


def fields(run_here: Run, *args: object) -> dict[str, tuple[str, str, int]]:
    done = run_here("verify", *args, "--json", "-j", 1)
    assert done.code == 0, done.err
    found = json.loads(done.out)["fields"]
    return {each["name"]: (each["type"], each["role"], each["samples"]) for each in found}


def test_the_fields_are_shown(run_here: Run, others: Path) -> None:
    done = run_here("verify", others, "-j", 1)
    assert done.code == 0
    assert "image     8 of 8 samples (image)" in done.out
    assert "label     6 of 8 samples (target)" in done.out
    assert re.search(r"^  target +class +label +6 samples +a look$", done.out, re.M)
    assert fields(run_here, others) == {
        "image": ("image", "image", 8),
        "mask": ("image", "", 8),
        "json": ("json", "", 8),
        "target": ("class", "label", 6),
    }


def test_the_user_may_say_what_fields_are(run_here: Run, others: Path) -> None:
    found = fields(run_here, others, "--image-field", "mask", "--label-field", "json.y")
    assert found["mask"] == ("image", "image", 8)
    assert found["y"] == ("class", "label", 8)
    refused = run_here("verify", others, "--label-field", "nothing")
    assert refused.code == 2
    assert "--label-field nothing: no sample of" in refused.err


def test_with_a_manifest_the_user_may_not(run_here: Run, photos: Path, tmp_path: Path) -> None:
    run_here("pack", photos, tmp_path / "out", "--format", "webdataset", "-j", 1)
    refused = run_here("verify", tmp_path / "out", "--label-field", "label")
    assert refused.code == 2
    assert "the manifest tells the fields" in refused.err


def test_images_are_decoded_whatever_they_are_called(run_here: Run, tmp_path: Path) -> None:
    good, bad = jpeg(1, size=(64, 64)), truncated(jpeg(2, size=(64, 64)))
    members = {"a.image.jpg": good, "a.mask.jpg": good, "b.image.jpg": bad, "b.mask.jpg": bad}
    done = run_here("verify", tar(tmp_path / "a.tar", members), "--decode", "--json", "-j", 1)
    first, second = json.loads(done.out)["problems"]
    assert (first["sample"], second["sample"]) == ("b", "b")
    assert second["message"].startswith("the field 'mask': ")


def test_fields_that_cannot_be_settled_are_no_damage(run_here: Run, tmp_path: Path) -> None:
    members = {"a.left.png": png(1), "a.right.png": png(2)}
    shard = tar(tmp_path / "a.tar", members)
    done = run_here("verify", shard, "-j", 1)
    assert done.code == 0, done.err
    assert "nothing tells the fields: " in done.out
    assert "--image-field left or --image-field right" in done.out
    assert run_here("verify", shard, "--decode", "-j", 1).code == 3
    assert run_here("verify", shard, "--decode", "--image-field", "left", "-j", 1).code == 0


def test_later_samples_that_do_not_fit_are_counted(run_here: Run, tmp_path: Path) -> None:
    members = {f"{number:03d}.jpg": jpeg(1, size=(8, 8)) for number in range(70)}
    members["069.txt"] = b"a caption"
    shard = tar(tmp_path / "a.tar", members)
    done = run_here("verify", shard, "-j", 1)
    assert done.code == 0
    assert "1 sample not of this schema; the sample '069' has a field 'txt'" in done.out
    assert fields(run_here, shard, "--look", "all")["text"] == ("text", "", 1)


@pytest.mark.parametrize("name", ["a.rec", "a.tfrecord", "a.pb"])
def test_a_shard_without_samples_is_a_problem(run_here: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    done = run_here("verify", tmp_path / name, "-j", 1)
    assert done.code == 3, done.err
    assert f"  {name}: holds no samples" in done.out


def test_a_manifest_of_another_version_is_taken_for_absent(
    run_here: Run, photos: Path, tmp_path: Path
) -> None:
    run_here("pack", photos, tmp_path / "out", "--format", "webdataset", "-j", 1)
    run_here("pack", photos, tmp_path / "one.tar", "-j", 1)
    for manifest in (tmp_path / "out" / "manifest.json", tmp_path / "one.tar.manifest.json"):
        values = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(values | {"dsprep_manifest": 1}))
    for dest in (tmp_path / "out", tmp_path / "one.tar"):
        done = run_here("verify", dest, "-j", 1)
        assert done.code == 0, done.err
        assert "version 1; this dsprep reads version 2; it is taken for absent" in done.out
        assert "label     24 of 24 samples (label)" in done.out


@pytest.mark.parametrize("format", ["webdataset", "tfrecord", "recordio", "parquet"])
def test_shards_without_a_manifest_are_compared(
    run_here: Run, photos: Path, tmp_path: Path, format: str
) -> None:
    out = tmp_path / "out"
    run_here("pack", photos, out, "--format", format, "-j", 1)
    (out / "manifest.json").unlink()
    shutil.rmtree(out / ".dsprep", ignore_errors=True)
    done = run_here("verify", out, "--against", photos, "-j", 1)
    assert done.code == 0, done.out + done.err
    (tmp_path / "other").mkdir()
    shutil.copytree(photos / "cat", tmp_path / "other" / "dog")
    shutil.copytree(photos / "dog", tmp_path / "other" / "cat")
    assert run_here("verify", out, "--against", tmp_path / "other", "-j", 1).code == 3
