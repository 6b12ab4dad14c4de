"""Lists, and tables of labels, that choose from samples that are whole: shards and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dsprep.formats import FORMATS
from dsprep.formats.base import Format
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import TFRecord
from dsprep.sample import Sample, Value
from dsprep.schema import Choice, Field, Reading, Schema, observe, settle
from tests.conftest import Finished
from tests.images import image_folder, jpeg
from tests.matrix.sources import tar_of

RunHere = Callable[..., Finished]

SIZE = (16, 12)
ABSENT = "is not in the source"
LAYOUTS: dict[str, Format] = {
    "webdataset": FORMATS["webdataset"](),
    "tfrecord without names": TFRecord(),
    "recordio": FORMATS["recordio"](),
    "recordio-protobuf": FORMATS["recordio-protobuf"](),
}


def write_shard(
    path: Path, layout: Format, samples: Sequence[Sample], classes: tuple[str, ...] = ()
) -> Path:
    """Write samples of images, labels and texts; a TFRecord without the names of their files."""
    types = {bytes: "image", int: "class", tuple: "list<float32>", str: "text"}
    values = {name: value for sample in samples for name, value in sample.fields.items()}
    fields = tuple(
        Field(
            name,
            types[type(value)],
            any(name not in each.fields for each in samples),
            classes if name == "label" else (),
        )
        for name, value in values.items()
    )
    arranged, _ = layout.arranged(Schema(fields, "image", "label" if "label" in values else None))
    nameless = layout is LAYOUTS["tfrecord without names"]
    data = b"".join(
        b"".join(arranged.encode(replace(each, key="") if nameless else each)) for each in samples
    )
    path.write_bytes(data + layout.trailer(len(data)))
    return path


def samples_of(path: Path) -> list[Sample]:
    """The samples of a shard, or of all shards in a directory, as a schema has them."""
    if path.is_dir():
        shards = sorted(each for each in path.iterdir() if each.suffix in (".tar", ".tfrecord"))
        return [sample for shard in shards for sample in samples_of(shard)]
    layout = FORMATS["webdataset" if path.suffix == ".tar" else "tfrecord"]()
    with ShardStream(str(path)) as stream:
        samples = [entry.sample for entry in layout.read(stream)]
    found = settle(observe(samples, layout, Choice()), layout, Choice(), "set")
    return list(map(Reading(found.schema, layout, found.ignored), samples))


def labels_of(path: Path) -> list[Value]:
    return [each.fields["label"] for each in samples_of(path)]


def name_in(path: Path, number: int) -> str:
    """The name in lists of a sample in a shard whose headers may tell no key."""
    if path.suffix in (".tfrecord", ".pb"):
        return f"{path.stem}-{number:07d}"
    return f"{path.name}/{number}"


def rows_of(lst: Path) -> list[list[str]]:
    return [line.split("\t") for line in lst.read_text().splitlines()]


def write_list(path: Path, rows: Sequence[tuple[int, object, str]]) -> Path:
    path.write_text("".join(f"{id}\t{label}\t{name}\n" for id, label, name in rows))
    return path


def images(path: Path) -> set[bytes]:
    return {sample.fields["image"] for sample in samples_of(path)}


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    """A shard of six samples of two classes, with a caption each."""
    samples = [
        Sample(f"a/{n}", {"image": jpeg(n, SIZE), "label": n % 2, "text": f"caption {n}"}, n)
        for n in range(6)
    ]
    return write_shard(tmp_path / "six.tar", LAYOUTS["webdataset"], samples)


@pytest.fixture(params=LAYOUTS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[Path], dict[str, bytes]]:
    """Two shards of other samples with the same keys; and each image by its name in a list."""
    layout = LAYOUTS[request.param]
    shards, named = [], {}
    for shard in range(2):
        samples = []
        for n in range(4):
            fields: dict[str, Value] = {"image": jpeg(10 * shard + n, SIZE), "label": n % 2}
            samples.append(Sample(str(n), fields, n))
        path = write_shard(tmp_path / f"twin-{shard}{layout.suffix}", layout, samples)
        shards.append(path)
        named |= {name_in(path, n): jpeg(10 * shard + n, SIZE) for n in range(4)}
    return shards, named


class TestNames:
    def test_equal_keys_of_two_shards_are_two_samples(
        self, run_here: RunHere, tmp_path: Path, twins: tuple[list[Path], dict[str, bytes]]
    ) -> None:
        shards, named = twins
        listed, sides = tmp_path / "all.lst", tmp_path / "sides"
        assert run_here("lst", "create", *shards, "-o", listed, "--no-shuffle", "-qj1").code == 0
        assert [name for _, _, name in rows_of(listed)] == list(named)
        halves = ("--ratio", "a=.5,b=.5")
        done = run_here("split", *shards, "-o", sides, *halves, "--json", "-j1")
        assert done.code == 0
        assert json.loads(done.out)["notes"] == []
        for side in "ab":
            lst, dest = sides / f"{side}.lst", tmp_path / side
            verb = ("convert", *shards, dest, "--list", lst, "--to", "tfrecord", "-qj1")
            assert run_here(*verb) == (0, "", "")
            assert images(dest) == {named[name] for _, _, name in rows_of(lst)}

    def test_of_some_of_the_shards(
        self, run_here: RunHere, tmp_path: Path, twins: tuple[list[Path], dict[str, bytes]]
    ) -> None:
        (shard, _), named = twins
        lst = write_list(
            tmp_path / "one.lst", [(0, 0, "2" if shard.suffix == ".pb" else name_in(shard, 2))]
        )
        dest = tmp_path / "out"
        verb = ("convert", shard, dest, "--list", lst, "--to", "tfrecord", "-qj1")
        assert run_here(*verb) == (0, "", "")
        assert images(dest) == {named[name_in(shard, 2)]}

    def test_a_key_alone_is_refused_where_it_may_mean_two(
        self, run_here: RunHere, tmp_path: Path, twins: tuple[list[Path], dict[str, bytes]]
    ) -> None:
        shards, _ = twins
        lst = write_list(tmp_path / "one.lst", [(0, 0, "2")])
        verb = ("convert", *shards, tmp_path / "out", "--list", lst, "--to", "tfrecord", "-j1")
        code, _, err = run_here(*verb)
        if shards[0].suffix in (".tar", ".rec"):
            assert (code, "'2' may mean" in err) == (4, True)
        else:  # headers tell no keys
            assert (code, "not one of the 1 samples" in err) == (4, True)

    def test_a_shard_that_is_named_twice_has_each_sample_twice(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        done = run_here("split", tar, tar, "-o", tmp_path / "sides", "--json", "-j1")
        assert "6 paths listed more than once" in json.loads(done.out)["notes"][0]
        sides = [
            {name for _, _, name in rows_of(path)} for path in (tmp_path / "sides").glob("*.lst")
        ]
        assert sum(map(len, sides)) == 6

    def test_shards_of_one_name_are_told_apart_by_their_directories(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        for name in "xy":
            (tmp_path / name).mkdir()
            sample = Sample("0", {"image": jpeg(ord(name), SIZE)})
            write_shard(tmp_path / name / "s.tar", LAYOUTS["webdataset"], [sample])
        lst = tmp_path / "all.lst"
        assert run_here("lst", "create", tmp_path / "*/s.tar", "-o", lst, "-qj1").code == 0
        assert {name for _, _, name in rows_of(lst)} == {"x/s.tar/0", "y/s.tar/0"}

    def test_a_list_of_files_chooses_from_shards_of_them(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        files = image_folder(tmp_path / "photos", ("cat", "dog"), 3, SIZE)
        lst, shards, dest = tmp_path / "some.lst", tmp_path / "wds", tmp_path / "out"
        made = ("pack", tmp_path / "photos", shards, "--format", "webdataset", "-qj1")
        assert run_here(*made).code == 0
        write_list(lst, [(4, 1, "dog/001.jpg"), (0, 0, "./cat/000.jpg")])
        verb = ("shard", shards, dest, "--list", lst, "-qj1")
        assert run_here(*verb) == (0, "", "")
        assert [sample.fields["image"] for sample in samples_of(dest)] == [
            files["dog/001.jpg"],
            files["cat/000.jpg"],
        ]

    def test_names_that_no_list_can_hold_are_rejects(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        members = {name: jpeg(0, SIZE) for name in ("../up.jpg", "tab\there.jpg", "fine.jpg")}
        tar_of(tmp_path / "odd.tar", members)
        args = (tmp_path / "odd.tar", "--from", "webdataset", "-o", tmp_path / "all.lst", "-qj1")
        done = run_here("lst", "create", *args)
        assert done.code == 3
        assert [name for _, _, name in rows_of(tmp_path / "all.lst")] == ["fine"]


class TestChoosing:
    def test_all_verbs_that_write_shards(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        lst = write_list(tmp_path / "two.lst", [(5, 1, "a/5"), (2, 0, "a/2")])
        own = {sample.key: sample.fields for sample in samples_of(tar)}
        for verb in (("pack", "--format", "--no-shuffle"), ("convert", "--to"), ("shard", "--to")):
            command, to, *more = verb
            dest = tmp_path / command
            args = (command, tar, dest, to, "webdataset", *more, "--list", lst, "-qj1")
            assert run_here(*args) == (0, "", "")
            found = {sample.key: sample.fields for sample in samples_of(dest)}
            assert list(found) == ["a/5", "a/2"]
            assert found == {key: own[key] for key in found}
            assert run_here("verify", dest, "--against", tar, "--list", lst, "-qj1").code == 0
            assert run_here("verify", dest, "--against", tar, "-qj1").code == 3

    def test_samples_whose_labels_stay_are_copied(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        lst = write_list(tmp_path / "one.lst", [(0, 0, "a/0"), (1, 1, "a/1")])
        dest = tmp_path / "out"
        assert run_here("shard", tar, dest, "--list", lst, "-qj1") == (0, "", "")
        assert json.loads((dest / "manifest.json").read_text())["options"]["copies"]
        (shard,) = dest.glob("*.tar")
        count = shard.stat().st_size - len(LAYOUTS["webdataset"].trailer(0))
        assert tar.read_bytes()[:count] == shard.read_bytes()[:count]

    def test_what_is_not_there_is_rejected_and_what_is_not_listed_is_counted(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        rows = [(0, 0, "a/0"), (1, 1, "a/1"), *((n, 0, f"b/{n}") for n in range(2, 9))]
        lst = write_list(tmp_path / "some.lst", rows)
        args = ("shard", tar, tmp_path / "out", "--list", lst, "--json", "-j1")
        code, out, _ = run_here(*args)
        report = json.loads(out)
        assert (code, report["samples"]) == (3, 2)
        assert len(report["rejects"]) == 7
        assert report["rejects"][0] == {"path": "b/2", "reason": f"{ABSENT} (some.lst:3)"}
        assert [each["path"] for each in report["skipped"]] == [f"a/{n}" for n in range(2, 6)]

    def test_a_list_of_something_else_is_refused(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        lst = write_list(tmp_path / "others.lst", [(0, 0, "b/0"), (1, 0, "b/1")])
        code, _, err = run_here("shard", tar, tmp_path / "out", "--list", lst, "-j1")
        assert code == 4
        assert "not one of the 2 samples" in err
        assert "names such as 'a/0'" in err

    def test_a_list_is_checked_by_its_samples(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        rows = [(0, 0, "a/0"), (1, 1, "six.tar/a/1"), (2, 0, "a/2.jpg"), (3, 1, "b/3")]
        lst = write_list(tmp_path / "some.lst", rows)
        code, out, _ = run_here("lst", "check", lst, "--root", tar, "--json")
        assert code == 3
        (fault,) = json.loads(out)["faults"]
        assert (fault["line"], fault["kind"]) == (4, "missing")

    def test_ids_are_those_of_the_list(self, run_here: RunHere, tmp_path: Path) -> None:
        samples = [Sample("0", {"image": jpeg(n, SIZE), "label": 0}) for n in range(4)]
        shard = write_shard(tmp_path / "n.tfrecord", LAYOUTS["tfrecord without names"], samples)
        rows = [(n, 0, name_in(shard, at)) for at, n in enumerate((7, 3, 4, 40))]
        lst = write_list(tmp_path / "all.lst", rows)
        dest = tmp_path / "out"
        assert run_here("convert", shard, dest, "--to", "recordio", "--list", lst, "-qj1").code == 0
        (written,) = dest.glob("*.lst")
        assert [int(id) for id, *_ in rows_of(written)] == [7, 3, 4, 40]
        verb = (
            "shard",
            dest,
            tmp_path / "again",
            "--list",
            write_list(lst, [(9, 0, "n-0000003.jpg")]),
            "-qj1",
        )
        assert run_here(*verb) == (0, "", "")
        (again,) = (tmp_path / "again").glob("*.lst")
        assert rows_of(again)[0][0] == "9"

    def test_of_several_sources(self, run_here: RunHere, tmp_path: Path, tar: Path) -> None:
        other = write_shard(
            tmp_path / "b.tar",
            LAYOUTS["webdataset"],
            [Sample("b/0", {"image": jpeg(9, SIZE), "label": 1})],
        )
        lst = write_list(tmp_path / "two.lst", [(0, 0, "a/4"), (1, 1, "b/0")])
        args = ("pack", tar, other, tmp_path / "out.tar", "--list", lst, "--no-shuffle", "-qj1")
        assert run_here(*args) == (0, "", "")
        assert [sample.key for sample in samples_of(tmp_path / "out.tar")] == ["a/4", "b/0"]
        split = ("split", lst, "--root", tmp_path / "{six,b}.tar", "-o", tmp_path / "sides")
        assert run_here(*split, "--ratio", "a=.5,b=.5", "-qj1") == (0, "", "")

    def test_a_tar_of_images_whose_labels_come_first_is_still_a_tree(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        notes = {f"notes/{n}.xml": b"<a/>" for n in range(70)}
        tar_of(tmp_path / "voc.tar", notes | {f"images/{n}.jpg": jpeg(n, SIZE) for n in range(3)})
        lst = write_list(tmp_path / "some.lst", [(0, 1, "images/2.jpg")])
        args = ("pack", tmp_path / "voc.tar", tmp_path / "out.tar", "--list", lst, "-qj1")
        assert run_here(*args) == (0, "", "")
        assert images(tmp_path / "out.tar") == {jpeg(2, SIZE)}

    @pytest.mark.parametrize("names", [("a.tar", "b.tar"), ("x/s.tar", "y/s.tar")])
    def test_the_list_decides_the_order_also_across_shards(
        self, run_here: RunHere, tmp_path: Path, names: tuple[str, str]
    ) -> None:
        shards = [tmp_path / name for name in names]
        for at, shard in enumerate(shards):
            shard.parent.mkdir(exist_ok=True)
            samples = [
                Sample(f"{at}{n}", {"image": jpeg(n, SIZE), "label": at}, 4 * at + n)
                for n in range(4)
            ]
            write_shard(shard, LAYOUTS["webdataset"], samples)
        mixed = [(0, 0, "00"), (4, 1, "10"), (1, 0, "01")]
        lst, dest = write_list(tmp_path / "mixed.lst", mixed), tmp_path / "out"
        args = ("convert", *shards, dest, "--list", lst, "--to", "tfrecord", "-qj1")
        assert run_here(*args) == (0, "", "")
        assert [path.name for path in dest.glob("*.tf*")] == ["train-00000-of-00001.tfrecord"]
        assert labels_of(dest) == [0, 1, 0]
        if len({shard.name for shard in shards}) == 2:  # in order, shards keep their names
            write_list(lst, [(4, 1, "10"), (5, 1, "11"), (1, 0, "01")])
            assert run_here(*args, "--overwrite") == (0, "", "")
            assert {path.stem for path in dest.glob("*.tf*")} == {"a", "b"}

    def test_the_same_row_again_is_settled_by_duplicates(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        rows = [(n, n % 2, f"a/{n}") for n in (0, 1, 2, 3, 0)]
        lst, dest = write_list(tmp_path / "twice.lst", rows), tmp_path / "out"
        shard = ("shard", tar, dest, "--list", lst)
        split = ("split", lst, "-o", tmp_path / "sides", "--ratio", "a=.5,b=.5")
        for verb in (shard, split):
            code, _, err = run_here(*verb, "-q")
            assert (code, "stands in line 1 already; give --duplicates first" in err) == (4, True)
            done = run_here(*verb, "--duplicates", "first")
            assert (done.code, "1 listed again" in done.out) == (0, True), done
        assert len(samples_of(dest)) == 4


class TestLabels:
    @pytest.mark.parametrize(
        ("label", "fields"), [("1", {"label": 1}), ("0.5\t2", {"label": (0.5, 2.0)})]
    )
    def test_those_of_the_list_count_and_all_else_is_of_the_shard(
        self, run_here: RunHere, tmp_path: Path, tar: Path, label: str, fields: Mapping[str, Value]
    ) -> None:
        lst = write_list(tmp_path / "all.lst", [(n, label, f"a/{n}") for n in range(6)])
        for dest in (tmp_path / "cut", tmp_path / "converted"):
            verb = ("shard",) if dest.name == "cut" else ("convert", "--to", "webdataset")
            args = (verb[0], tar, dest, *verb[1:], "--list", lst, "-qj1")
            assert run_here(*args) == (0, "", "")
            found = [(each.key, each.fields) for each in samples_of(dest)]
            assert found == [
                (f"a/{n}", {"image": jpeg(n, SIZE), **fields, "text": f"caption {n}"})
                for n in range(6)
            ]
            assert run_here("verify", dest, "--against", tar, "--list", lst, "-qj1").code == 0
            assert run_here("verify", dest, "--against", tar, "-qj1").code == 3

    def test_samples_without_labels_get_none_from_the_zeros_of_a_list(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        samples = [Sample(str(n), {"image": jpeg(n, SIZE), "text": "x"}, n) for n in range(4)]
        shard = write_shard(tmp_path / "text.tar", LAYOUTS["webdataset"], samples)
        sides, dest = tmp_path / "sides", tmp_path / "out"
        args = ("split", shard, "-o", sides, "--ratio", "a=.5,b=.5", "-qj1")
        assert run_here(*args).code == 0
        lst = sides / "a.lst"
        assert run_here("shard", shard, dest, "--list", lst, "-qj1").code == 0
        assert [set(sample.fields) for sample in samples_of(dest)] == [{"image", "text"}] * 2
        write_list(lst, [(n, 1, str(n)) for n in range(4)])
        args = ("shard", shard, dest, "--list", lst, "--overwrite", "-qj1")
        assert run_here(*args).code == 0
        assert labels_of(dest) == [1] * 4

    @pytest.mark.parametrize("source", ["shard", "parquet", "parts"])
    def test_a_table_tells_names_of_its_own(
        self, run_here: RunHere, tmp_path: Path, tar: Path, source: str
    ) -> None:
        args: tuple[object, ...] = (tar,)
        if source == "parquet":
            args = (tmp_path / "parquet",)
            assert run_here("convert", tar, *args, "--to", "parquet", "-qj1").code == 0
        elif source == "parts":
            assert run_here("convert", tar, tmp_path / "parts", "--to", "folder", "-qj1").code == 0
            args = (tmp_path / "parts", "--parts")
        table = tmp_path / "labels.csv"
        table.write_text("id,breed\n3,pug\na/1,corgi\na/4,pug\n")
        dest = tmp_path / "out"
        labels = ("--labels", table)
        verb = ("convert", *args, dest, "--to", "webdataset", *labels, "-qj1")
        assert run_here(*verb) == (0, "", "")
        found = {each.key.rpartition("/")[2]: each.fields["label"] for each in samples_of(dest)}
        assert found == {"3": 1, "1": 0, "4": 1}
        assert (dest / "classes.txt").read_text() == "corgi\npug\n"
        assert run_here("verify", dest, "--against", *args, *labels, "-qj1").code == 0

    def test_classes_are_those_of_the_shards_unless_others_are_given(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        tar.with_name(f"{tar.name}.classes.txt").write_text("corgi\npug\n")
        table, other = tmp_path / "labels.csv", tmp_path / "other.txt"
        table.write_text("id,breed\na/3,pug\n")
        other.write_text("pug\nbeagle\n")
        for options, label in (((), 1), (("--classes", other), 0)):
            args = ("shard", tar, tmp_path / "out.tar", "--labels", table, *options)
            assert run_here(*args, "--overwrite", "-qj1") == (0, "", "")
            assert labels_of(tmp_path / "out.tar") == [label]
        table.write_text("id,breed\na/3,poodle\n")
        code, _, err = run_here("shard", tar, tmp_path / "new.tar", "--labels", table, "-j1")
        assert code == 4
        assert f"'poodle' in the column 'breed' is none of the 2 classes of {tar}: give" in err

    @pytest.mark.parametrize("source", ["webdataset", "recordio-protobuf", "parts"])
    @pytest.mark.parametrize(("label", "classes"), [("pug", "pug\n"), ("0", None)])
    def test_a_table_of_one_class_labels_samples_without_labels(
        self, run_here: RunHere, tmp_path: Path, source: str, label: str, classes: str | None
    ) -> None:
        layout = LAYOUTS["webdataset" if source == "parts" else source]
        more = {"text": "x"} if source == "webdataset" else {}
        samples = [Sample(str(n), {"image": jpeg(n, SIZE), **more}, n) for n in range(3)]
        args: tuple[object, ...] = (write_shard(tmp_path / f"s{layout.suffix}", layout, samples),)
        if source == "parts":
            (tmp_path / "parts").mkdir()
            for n in range(3):
                (tmp_path / "parts" / f"{n}.jpg").write_bytes(jpeg(n, SIZE))
            args = (tmp_path / "parts", "--parts")
        table, dest = tmp_path / "labels.csv", tmp_path / "out"
        table.write_text("id,breed\n" + "".join(f"{n},{label}\n" for n in range(3)))
        verb = ("convert", *args, dest, "--to", "webdataset", "--labels", table, "-qj1")
        assert run_here(*verb) == (0, "", "")
        assert labels_of(dest) == [0] * 3
        names = dest / "classes.txt"
        assert (names.read_text() if names.exists() else None) == classes
        assert run_here("verify", dest, "--against", *args, "--labels", table, "-qj1").code == 0

    def test_a_numeric_table_of_zeros_goes_with_names_of_classes(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        samples = [Sample(str(n), {"image": jpeg(n, SIZE), "text": "x"}, n) for n in range(2)]
        shard = write_shard(tmp_path / "s.tar", LAYOUTS["webdataset"], samples)
        table, names, dest = (tmp_path / name for name in ("t.csv", "names.txt", "out.tar"))
        table.write_text("id,label\n0,0\n1,0\n")
        names.write_text("pug\n")
        args = ("shard", shard, dest, "--labels", table, "--classes", names, "-qj1")
        assert run_here(*args) == (0, "", "")
        assert labels_of(dest) == [0] * 2

    @pytest.mark.parametrize("suffix", ["csv", "lst"])
    def test_zeros_label_those_that_have_no_label_among_others(
        self, run_here: RunHere, tmp_path: Path, suffix: str
    ) -> None:
        samples = [
            Sample(str(n), {"image": jpeg(n, SIZE), **({"label": 1} if n < 2 else {})}, n)
            for n in range(4)
        ]
        shard = write_shard(tmp_path / "s.tar", LAYOUTS["webdataset"], samples)
        rows, dest = tmp_path / f"rows.{suffix}", tmp_path / "out.tar"
        if suffix == "lst":
            write_list(rows, [(n, 0, str(n)) for n in range(4)])
        else:
            rows.write_text("id,label\n" + "".join(f"{n},pug\n" for n in range(4)))
        option = "--list" if suffix == "lst" else "--labels"
        assert run_here("shard", shard, dest, option, rows, "-qj1") == (0, "", "")
        assert labels_of(dest) == [0] * 4

    def test_names_replace_those_in_records_whose_numbers_stay(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        samples = [Sample(str(n), {"image": jpeg(n, SIZE), "label": n % 2}, n) for n in range(4)]
        shard = write_shard(tmp_path / "s.tfrecord", TFRecord(), samples, ("old 0", "old 1"))
        table = tmp_path / "t.csv"
        table.write_text("id,label\n" + "".join(f"{n},new {n % 2}\n" for n in range(4)))
        cut, folder = tmp_path / "cut", tmp_path / "folder"
        code, _, err = run_here("shard", shard, cut, "--labels", table, "-qj1")
        assert (code, "'new 0' in the column 'label' is none of the 2" in err) == (4, True)
        names = tmp_path / "names.txt"
        names.write_text("new 0\nnew 1\n")
        labels = ("--labels", table, "--classes", names)
        assert run_here("shard", shard, cut, *labels, "-qj1") == (0, "", "")
        assert [each.class_name for each in samples_of(cut)] == ["new 0", "new 1"] * 2
        args = ("convert", shard, folder, "--to", "folder", *labels, "-qj1")
        assert run_here(*args) == (0, "", "")
        assert {each.name for each in folder.iterdir() if each.is_dir()} >= {"new 0", "new 1"}
        assert not [each for each in folder.iterdir() if each.name.startswith("old")]

    def test_all_labels_are_of_the_kind_that_the_list_has(
        self, run_here: RunHere, tmp_path: Path, tar: Path
    ) -> None:
        lst = write_list(tmp_path / "all.lst", [(0, "0", "a/0"), (1, "0.5", "a/1")])
        dest = tmp_path / "out.tar"
        assert run_here("shard", tar, dest, "--list", lst, "-qj1") == (0, "", "")
        assert labels_of(dest) == [0.0, 0.5]

    @pytest.mark.parametrize("source", ["tfrecord without names", "parts", "folder"])
    @pytest.mark.parametrize("separator", [(), ("--label-separator", "|")])
    def test_names_in_a_table_have_an_order_for_every_source(
        self, run_here: RunHere, tmp_path: Path, source: str, separator: tuple[str, ...]
    ) -> None:
        args: tuple[object, ...] = (tmp_path / "photos",)
        keys = [str(n) for n in range(3)]
        if source.startswith("tfrecord"):
            layout = LAYOUTS[source]
            samples = [Sample(str(n), {"image": jpeg(n, SIZE)}, n) for n in range(3)]
            args = (write_shard(tmp_path / "s.tfrecord", layout, samples),)
            keys = [f"s-{n:07d}" for n in range(3)]
        else:
            args[0].mkdir()
            for n in range(3):
                (args[0] / f"{n}.jpg").write_bytes(jpeg(n, SIZE))
            args += ("--parts",) if source == "parts" else ()
        table, dest = tmp_path / "labels.csv", tmp_path / "out"
        rows = (f"{key},c{n}\n" for key, n in zip(keys, (9, 10, 11), strict=True))
        table.write_text("id,breed\n" + "".join(rows))
        labels = ("--labels", table, *separator)
        verb = ("convert", *args, dest, "--to", "webdataset", *labels, "-j1")
        done = run_here(*verb, "--class-order", "natural")
        assert (done.code, "plain order" in done.out) == (0, False)
        assert (dest / "classes.txt").read_text() == "c9\nc10\nc11\n"
        one_hot = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
        expected = one_hot if separator else [0, 1, 2]
        assert labels_of(dest) == expected
        done = run_here(*verb, "--overwrite")
        assert (done.code, done.out.count("--class-order natural gives c9, c10, c11")) == (0, 1)
        assert (dest / "classes.txt").read_text() == "c10\nc11\nc9\n"

    @pytest.mark.parametrize("separator", [(), ("--label-separator", "|")])
    def test_numbers_are_not_taken_for_names_of_other_classes(
        self, run_here: RunHere, tmp_path: Path, tar: Path, separator: tuple[str, ...]
    ) -> None:
        tar.with_name(f"{tar.name}.classes.txt").write_text("0\n10\n1\n2\n")
        table, other = tmp_path / "labels.csv", tmp_path / "names.txt"
        table.write_text("id,breed\na/0,0\na/1,2\n")
        args = ("shard", tar, tmp_path / "out.tar", "--labels", table, *separator, "-qj1")
        code, _, err = run_here(*args)
        assert (code, "labels.csv:3: '2' in the column 'breed' is the number of one" in err) == (
            4,
            True,
        )
        assert "give --classes FILE" in err
        other.write_text("0\n1\n2\n")
        assert run_here(*args, "--classes", other) == (0, "", "")
        two = (0, 0, 1) if separator else 2
        assert samples_of(tmp_path / "out.tar")[1].fields["label"] == two
        table.write_text("id,breed\na/0,0\na/1,0\n")
        assert run_here(*args, "--overwrite") == (0, "", "")
