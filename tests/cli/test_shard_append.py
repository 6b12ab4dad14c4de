"""`dsprep shard append`: new samples, as new shards, in a data set that is there."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from dsprep.errors import DestinationError
from dsprep.formats import FORMATS
from dsprep.formats.stream import ShardStream
from dsprep.schema import Choice, Reading, observe, settle
from tests.attack.trees import contents, manifest, places
from tests.conftest import Finished
from tests.images import jpeg, truncated

RunHere = Callable[..., Finished]

CLASSES = ("cat", "dog", "owl")


def write_photos(root: Path, start: int, count: int) -> Path:
    for name in CLASSES:
        (root / name).mkdir(parents=True)
        for number in range(start, start + count):
            (root / name / f"{number:03}.jpg").write_bytes(jpeg(number + len(root.name), (16, 12)))
    return root


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("sources") / "old", 0, 3)


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("sources") / "new", 3, 2)


@pytest.fixture
def there(run_here: RunHere, old: Path, tmp_path: Path) -> Callable[..., Path]:
    """A data set of nine samples in three shards."""

    def make(name: str, *options: object) -> Path:
        dest = tmp_path / "set"
        size = ("--samples-per-shard", 3, "-qj1")
        assert run_here("convert", old, dest, "--to", name, *size, *options) == (0, "", "")
        return dest

    return make


def shards(dest: Path, name: str) -> list[Path]:
    return sorted(dest.glob(f"*{FORMATS[name].suffix}"))


def samples(dest: Path, name: str) -> list[tuple[str, int, bytes]]:
    found = []
    for path in shards(dest, name):
        layout = FORMATS[name]()
        with ShardStream(str(path)) as stream:
            raw = [entry.sample for entry in layout.read(stream)]
        settled = settle(observe(raw, layout, Choice()), layout, Choice(), str(path))
        reading = Reading(settled.schema, layout, settled.ignored)
        for sample in map(reading, raw):
            found.append((sample.key, sample.fields["label"], sample.fields["image"]))
    return found


@pytest.mark.parametrize("name", ["webdataset", "tfrecord", "recordio", "recordio-protobuf", "mds"])
def test_new_shards_and_all_that_counts_them(
    run_here: RunHere, there: Callable[..., Path], old: Path, new: Path, name: str
) -> None:
    dest = there(name)
    before, held, first = places(dest), samples(dest, name), shards(dest, name)
    call = ("shard", "append", new, dest, "--samples-per-shard", 4, "--no-shuffle", "-j1")
    assert run_here(*call, "-q") == (0, "", "")
    assert len(shards(dest, name)) == 5
    after = samples(dest, name)
    paths = sorted(path.relative_to(new).as_posix() for path in new.rglob("*.jpg"))
    if name != "recordio":
        assert [key for key, _, _ in after[9:]] == [path.removesuffix(".jpg") for path in paths]
    else:
        assert [key for key, _, _ in after] == [str(number) for number in range(15)]
    assert after[:9] == held
    assert [data for _, _, data in after[9:]] == [(new / path).read_bytes() for path in paths]
    assert [cls for _, cls, _ in after[9:]] == [CLASSES.index(path[:3]) for path in paths]
    assert all(places(dest)[path.name] == before[path.name] for path in first)
    assert manifest(dest)["samples"] == 15
    assert run_here("verify", dest, "-qj1") == (0, "", "")
    assert run_here("shard", "index", dest, "--check", "--kind", "manifest", "-qj1").code == 0

    settled = contents(dest)
    again = run_here(*call)
    assert (again.code, "already appended" in again.out) == (0, True)
    assert contents(dest) == settled


def test_webdataset_and_wids_see_all(
    run_here: RunHere, there: Callable[..., Path], new: Path, webdataset: ModuleType
) -> None:
    dest = there("webdataset")
    assert run_here("shard", "append", new, dest, "-qj1").code == 0
    index = json.loads((dest / "train.json").read_bytes())
    files = [str(dest / shard["url"]) for shard in index["shardlist"]]
    assert sum(shard["nsamples"] for shard in index["shardlist"]) == 15
    keys = [each["__key__"] for each in webdataset.WebDataset(files, shardshuffle=False)]
    assert len(set(keys)) == len(keys) == 15


@pytest.mark.parametrize("name", ["webdataset", "recordio"])
def test_any_number_of_workers_writes_the_same_bytes(
    run_here: RunHere, old: Path, new: Path, tmp_path: Path, name: str
) -> None:
    for workers in (1, 4):
        dest = tmp_path / str(workers)
        size = ("--samples-per-shard", 2, f"-qj{workers}")
        assert run_here("convert", old, dest, "--to", name, *size).code == 0
        assert run_here("shard", "append", new, dest, *size, "--seed", 7).code == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "4")


def test_a_dry_run_tells_and_writes_nothing(
    run_here: RunHere, there: Callable[..., Path], new: Path
) -> None:
    dest = there("webdataset")
    before = places(dest)
    planned = run_here("shard", "append", new, dest, "--dry-run", "-j1")
    assert planned.code == 0
    assert "train-000003.tar" in planned.out
    assert "nothing was written" in planned.out
    assert places(dest) == before


@pytest.mark.parametrize("what", ["keys", "class", "nowhere", "not ours"])
def test_what_does_not_fit_is_refused_and_nothing_changes(
    run_here: RunHere, there: Callable[..., Path], old: Path, new: Path, tmp_path: Path, what: str
) -> None:
    dest, source = there("webdataset"), new
    if what == "keys":
        source = old
    elif what == "class":
        source = tmp_path / "others"
        (source / "emu").mkdir(parents=True)
        (source / "emu" / "x.jpg").write_bytes(jpeg(5))
    elif what == "nowhere":
        dest = tmp_path / "nowhere"
    else:
        (dest / "manifest.json").unlink()
    before = contents(tmp_path)
    refused = run_here("shard", "append", source, dest, "-j1")
    assert refused.code in (4, 5)
    assert {
        "keys": "are there already",
        "class": "that file belongs to a data set, whose classes do not change: pack all",
        "nowhere": "nowhere",
        "not ours": "manifest",
    }[what] in refused.err
    assert contents(tmp_path) == before


def test_bad_samples_are_rejects(
    run_here: RunHere, there: Callable[..., Path], tmp_path: Path
) -> None:
    dest = there("tfrecord")
    source = tmp_path / "more"
    (source / "owl").mkdir(parents=True)
    (source / "owl" / "good.jpg").write_bytes(jpeg(1))
    (source / "owl" / "bad.jpg").write_bytes(truncated(jpeg(2)))
    before = contents(dest)
    failed = run_here("shard", "append", source, dest, "--on-error", "fail", "-qj1")
    assert failed.code == 6
    visible = {path: data for path, data in contents(dest).items() if path[0] != "."}
    assert visible == before
    done = run_here("shard", "append", source, dest, "-qj1")
    assert done.code == 3
    assert "owl/bad.jpg" in (dest / "rejects.jsonl").read_text()
    assert manifest(dest)["samples"] == 10
    assert run_here("verify", dest, "-qj1").code == 0


def test_the_transform_of_the_data_set_is_done_to_the_new(
    run_here: RunHere, there: Callable[..., Path], new: Path
) -> None:
    dest = there("webdataset", "--resize", "8x8", "--encode", "png")
    assert run_here("shard", "append", new, dest, "-qj1").code == 0
    for path in shards(dest, "webdataset"):
        with ShardStream(str(path)) as stream:
            for entry in FORMATS["webdataset"]().read(stream):
                with Image.open(io.BytesIO(entry.sample.fields["png"])) as image:
                    assert (image.format, image.size) == ("PNG", (8, 8))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, ()) for name in ("webdataset", "tfrecord", "recordio", "recordio-protobuf")),
        ("webdataset", ("--key", "index")),
    ],
)
def test_verify_against_one_of_the_sources(
    run_here: RunHere,
    there: Callable[..., Path],
    old: Path,
    new: Path,
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
) -> None:
    dest = there(name, *options)
    assert run_here("shard", "append", new, dest, "-qj1").code == 0
    for source, left, of in ((old, "6 samples", "2 shards"), (new, "9 samples", "3 shards")):
        done = run_here("verify", dest, "--against", source, "-j1")
        assert (done.code, f"{left} in {of} not compared" in done.out) == (0, True), done.out
    for source in (old, new):
        other = tmp_path / source.name
        shutil.copytree(source, other)
        changed = sorted(other.rglob("*.jpg"))[1]
        changed.write_bytes(jpeg(99, (16, 12)))
        done = run_here("verify", dest, "--against", other, "-j1", "--json")
        problems = json.loads(done.out)["problems"]
        assert done.code == 3
        assert len(problems) in (1, 2), problems  # paired by name, or one too many and one missing
    shutil.copytree(old, tmp_path / "both")
    shutil.copytree(new, tmp_path / "both", dirs_exist_ok=True)
    done = run_here("verify", dest, "--against", tmp_path / "both", "-j1")
    assert (done.code, "not compared" in done.out) == (0, False), done.out
    others = write_photos(tmp_path / "others", 50, 1)
    done = run_here("verify", dest, "--against", others, "-j1", "--json")
    assert len(json.loads(done.out)["problems"]) >= 15


# Samples that are there already


@pytest.fixture(scope="module")
def both(old: Path, new: Path) -> Path:
    """All samples, as a source has them that has grown."""
    root = old.with_name("both")
    shutil.copytree(old, root)
    shutil.copytree(new, root, dirs_exist_ok=True)
    return root


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, ()) for name in ("webdataset", "tfrecord", "recordio", "recordio-protobuf")),
        ("webdataset", ("--resize", "8x8", "--encode", "jpeg")),
    ],
)
def test_existing_samples_are_left_out_and_counted(
    run_here: RunHere,
    there: Callable[..., Path],
    new: Path,
    both: Path,
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
) -> None:
    dest = there(name, *options)
    alone = tmp_path / "alone"
    shutil.copytree(dest, alone)
    append = ("shard", "append", "-j1")
    planned = run_here(*append, both, dest, "--skip-existing", "--dry-run", "--json")
    report = json.loads(planned.out)
    assert (planned.code, report["samples"], report["existing"]) == (0, 6, 9)
    done = run_here(*append, both, dest, "--skip-existing")
    assert (done.code, "existing  9, left out" in done.out) == (0, True), done
    assert run_here(*append, new, alone).code == 0
    assert contents(dest) == contents(alone)  # as if only the new ones had been named
    again = json.loads(run_here(*append, both, dest, "--skip-existing", "--json").out)
    assert (again["state"], again["samples"], again["existing"]) == ("already appended", 15, 15)
    assert contents(dest) == contents(alone)
    assert run_here("verify", dest, "--against", both, "-qj1").code == 0


def test_an_existing_key_with_other_bytes_is_an_error(
    run_here: RunHere, there: Callable[..., Path], both: Path, new: Path, tmp_path: Path
) -> None:
    dest = there("recordio")
    before = contents(dest)
    append = ("shard", "append", dest, "--skip-existing", "-j1")
    source = tmp_path / "changed"
    shutil.copytree(both, source)
    (source / "dog" / "001.jpg").write_bytes(jpeg(99, (16, 12)))
    shutil.move(source / "owl" / "002.jpg", source / "owl" / "002.png")  # the bytes are the same
    changed = run_here(*append[:2], source, *append[2:])
    assert (changed.code, "of 1 sample: dog/001.jpg" in changed.err) == (4, True), changed
    (source / "dog" / "001.jpg").write_bytes((both / "dog" / "001.jpg").read_bytes())
    labels = tmp_path / "labels.csv"
    lines = ["path,class", "owl/001.jpg,cat", "owl/000.jpg,owl", "owl/004.jpg,owl", ""]
    labels.write_text("\n".join(lines))
    relabeled = run_here(*append[:2], source, *append[2:], "--labels", labels)
    assert (relabeled.code, "of 1 sample: owl/001.jpg" in relabeled.err) == (4, True), relabeled

    assert contents(dest) == before
    theirs = tmp_path / "theirs"  # as other programs write records, without lists
    theirs.mkdir()
    for path in (*dest.glob("*.rec"), dest / "classes.txt"):
        shutil.copy(path, theirs)
    assert run_here("shard", "index", theirs, "-qj1").code == 0
    nameless = run_here("shard", "append", source, theirs, "--skip-existing", "-j1")
    assert (nameless.code, "not all of its samples have names" in nameless.err) == (4, True)
    numbered = tmp_path / "numbered"
    keys = ("--key", "index", "--to", "webdataset")
    assert run_here("convert", both, numbered, *keys, "-qj1").code == 0
    assert run_here("shard", "append", both, numbered, "--skip-existing").code == 2


def test_samples_that_were_rejected_before_are_not_counted_twice(
    run_here: RunHere, both: Path, new: Path, tmp_path: Path
) -> None:
    source, dest = tmp_path / "inbox", tmp_path / "set"
    (source / "owl").mkdir(parents=True)
    (source / "owl" / "bad.jpg").write_bytes(truncated(jpeg(2)))
    shutil.copy(both / "owl" / "000.jpg", source / "owl" / "000.jpg")
    assert run_here("pack", source, dest, "--to", "recordio", "-qj1").code == 3
    append = ("shard", "append", source, dest, "--skip-existing", "-j1")
    again = run_here(*append)
    assert (again.code, "already appended" in again.out, "owl/bad.jpg" in again.out) == (
        *(3, True, True),
    )
    shutil.copy(both / "owl" / "001.jpg", source / "owl" / "001.jpg")
    assert run_here(*append, "--dry-run").code == 3
    more = run_here(*append)
    assert (more.code, "1 sample rejected again" in more.out) == (3, True), more
    assert (manifest(dest)["samples"], manifest(dest)["rejected"]) == (2, 1)
    assert (dest / "rejects.jsonl").read_text().count("owl/bad.jpg") == 1
    assert run_here("verify", dest, "-qj1").code == 0
    (source / "owl" / "bad.jpg").write_bytes(jpeg(2))  # mended
    assert run_here(*append).code == 0
    assert manifest(dest)["samples"] == 3


def test_new_samples_that_are_all_rejected_are_recorded_without_a_shard(
    run_here: RunHere, both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, dest = tmp_path / "inbox", tmp_path / "set"
    (source / "owl").mkdir(parents=True)
    shutil.copy(both / "owl" / "000.jpg", source / "owl" / "000.jpg")
    assert run_here("pack", source, dest, "--to", "recordio", "-qj1").code == 0
    (source / "owl" / "bad.jpg").write_bytes(truncated(jpeg(2)))
    before, append = contents(dest), ("shard", "append", source, dest, "--skip-existing", "-j1")

    def stopped(*_: object) -> None:
        raise DestinationError("the disk is gone")

    with monkeypatch.context() as patch:  # when its shards are gone, before the manifest
        patch.setattr("dsprep.run.complete.publish_manifest", stopped)
        assert run_here(*append).code == 5
    done = run_here(*append)
    assert (done.code, "already appended" in done.out) == (3, True), done
    assert "none of the samples is new, so no shard was added" in done.out
    assert "owl/bad.jpg" in done.out
    after = contents(dest)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"manifest.json", "rejects.jsonl"}
    assert (manifest(dest)["samples"], manifest(dest)["rejected"]) == (1, 1)
    again = run_here(*append)
    assert (again.code, "already appended" in again.out) == (3, True), again
    assert contents(dest) == after
    assert run_here("verify", dest, "--against", source, "-qj1").code == 0
    shutil.copy(both / "owl" / "001.jpg", source / "owl" / "001.jpg")
    assert run_here(*append).code == 3
    assert (manifest(dest)["samples"], manifest(dest)["rejected"]) == (2, 1)
    assert run_here("verify", dest, "--against", source, "-qj1").code == 0


# Fields that are left out


@pytest.mark.parametrize("name", ["webdataset", "tfrecord", "recordio"])
def test_what_was_left_out_stays_out(
    run_here: RunHere, there: Callable[..., Path], old: Path, new: Path, name: str
) -> None:
    dest = there(name, "--drop", "label")
    append = ("shard", "append", new, dest, "-j1")
    assert run_here(*append).code == 0
    found = []
    for path in shards(dest, name):
        with ShardStream(str(path)) as stream:
            found += [entry.sample.fields for entry in FORMATS[name](**layout(dest)).read(stream)]
    assert len(found) == 15
    labels = {"cls", "image/class/label", "image/class/text"}
    assert not any(labels & fields.keys() for fields in found)
    if name == "recordio":
        assert {fields["label"] for fields in found} == {(0.0,)}
    assert not (dest / "classes.txt").exists()
    for source in (old, new):
        assert run_here("verify", dest, "--against", source, "-j1").code == 0


@pytest.mark.parametrize("name", ["webdataset", "tfrecord", "recordio"])
def test_labels_are_not_left_out_of_what_is_appended(
    run_here: RunHere, there: Callable[..., Path], new: Path, tmp_path: Path, name: str
) -> None:
    dest = there(name)
    before = contents(dest)
    plain = tmp_path / "plain.tar"
    assert run_here("convert", new, plain, "--drop", "label", "-j1").code == 0
    append = ("shard", "append")
    for options in ((new, dest, "--drop", "label"), (plain, dest)):
        done = run_here(*append, *options, "-j1")
        assert done.code == 4
        assert f"{dest}: its samples have the field 'label' (class)" in done.err
        assert contents(dest) == before
    assert run_here(*append, new, dest, "-j1").code == 0
    assert manifest(dest)["classes"] == list(CLASSES)


def layout(dest: Path) -> dict[str, object]:
    """The options of a data set's format."""
    told: dict[str, object] = manifest(dest)["options"]["format"]
    return {name: value for name, value in told.items() if name != "name"}
