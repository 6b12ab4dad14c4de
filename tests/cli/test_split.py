"""`dsprep split`, as a user calls it: folders, lists and tables; lists, folds and trees."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.lists.store import read_list
from tests.attack.trees import contents, names, places
from tests.conftest import Finished
from tests.images import encode, image_folder, jpeg

RunCli = Callable[..., Finished]


@pytest.fixture
def run_cli(run_cli: RunCli, run_here: RunCli) -> RunCli:
    """The command in this process, unless it reads its environment when it starts."""
    return lambda *args, **options: (run_cli if options else run_here)(*args, **options)


CLASSES = ("cat", "dog", "pets/owl")


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty files in three classes; nobody looks into them."""
    root = tmp_path_factory.mktemp("animals") / "animals"
    for number in range(60):
        path = root / CLASSES[number % 3] / f"p{number // 6}_{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    return root


@pytest.fixture
def lst(tmp_path: Path) -> Path:
    """A list of a hundred samples in four classes, in no order, with classes.txt beside it."""
    directory = tmp_path / "lists"
    directory.mkdir()
    lines = [f"{number + 1000}\t{number % 4}\t{number}.jpg\n" for number in range(100)]
    (directory / "all.lst").write_text("".join(reversed(lines)))
    (directory / "classes.txt").write_text("a\nb\nc\nd\n")
    return directory / "all.lst"


def rows(path: Path) -> list[tuple[int, str, str]]:
    return list(read_list(str(path)).table.iter_rows())


def paths(directory: Path) -> dict[str, set[str]]:
    """The paths of each list in a directory."""
    return {path.stem: {row[2] for row in rows(path)} for path in sorted(directory.glob("*.lst"))}


def report(finished: Finished, code: int = 0) -> Mapping[str, Any]:
    assert finished.code == code, finished.err
    return json.loads(finished.out)


class TestAFolder:
    def test_becomes_three_lists_that_share_their_classes(
        self, run_here: RunCli, animals: Path, tmp_path: Path
    ) -> None:
        done = run_here("split", animals, "-o", tmp_path / "out")
        assert done.code == 0
        assert "60 samples split" in done.out
        assert "seed 0" in done.out
        assert names(tmp_path / "out") == ["classes.txt", "test.lst", "train.lst", "val.lst"]
        assert (tmp_path / "out" / "classes.txt").read_text() == "".join(f"{c}\n" for c in CLASSES)
        found = [
            row for name in ("train", "val", "test") for row in rows(tmp_path / f"out/{name}.lst")
        ]
        every = sorted(path.relative_to(animals).as_posix() for path in animals.rglob("*.jpg"))
        assert sorted(found) == [
            (number, str(CLASSES.index(os.path.dirname(path))), path)
            for number, path in enumerate(every)
        ]
        for name, count in (("train", 16), ("val", 2), ("test", 2)):
            labels = Counter(row[1] for row in rows(tmp_path / f"out/{name}.lst"))
            assert labels == dict.fromkeys("012", count)

    def test_is_packed_from_these_lists(
        self, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        assert run_here("split", photos, "-o", tmp_path, "--ratio", "a=3/4,b=1/4").code == 0
        for side, count in (("a", 9), ("b", 3)):
            where = tmp_path / "packed" / f"{side}.rec"
            packed = run_here("pack", photos, where, "--list", tmp_path / f"{side}.lst", "--json")
            assert report(packed)["samples"] == count

    def test_without_classes_is_split_as_a_whole(self, run_here: RunCli, tmp_path: Path) -> None:
        image_folder(tmp_path / "flat", (".",), 10)
        done = run_here("split", tmp_path / "flat", "-o", tmp_path / "out")
        assert done.code == 0
        assert "not stratified, as there are no labels" in done.out
        assert {name: len(each) for name, each in paths(tmp_path / "out").items()} == {
            "train": 8,
            "val": 1,
            "test": 1,
        }

    def test_with_files_that_no_list_can_name_loses_them_and_says_so(
        self, run_here: RunCli, tmp_path: Path
    ) -> None:
        files = image_folder(tmp_path / "photos", ("cat",), 10)
        (tmp_path / "photos" / "cat" / "a\tb.jpg").write_bytes(jpeg())
        done = report(run_here("split", tmp_path / "photos", "-o", tmp_path / "out", "--json"), 3)
        assert [each["path"] for each in done["rejects"]] == ["cat/a\tb.jpg"]
        assert set().union(*paths(tmp_path / "out").values()) == set(files)

    def test_with_a_table_is_grouped_by_a_column(
        self, run_here: RunCli, animals: Path, tmp_path: Path
    ) -> None:
        every = sorted(path.relative_to(animals).as_posix() for path in animals.rglob("*.jpg"))
        lines = [f"{path},{number % 2},who{number % 20}\n" for number, path in enumerate(every)]
        (tmp_path / "t.csv").write_text("path,label,patient\n" + "".join(lines))
        table = ("--labels", tmp_path / "t.csv", "--label-column", "label", "--group", "patient")
        done = report(run_here("split", animals, "-o", tmp_path / "grouped", *table, "--json"))
        assert done["groups"] == 20
        who = {path: number % 20 for number, path in enumerate(every)}
        sides = [{who[path] for path in each} for each in paths(tmp_path / "grouped").values()]
        assert sum(map(len, sides)) == 20
        assert done["off"] <= 3

    def test_is_grouped_by_a_pattern(self, run_here: RunCli, animals: Path, tmp_path: Path) -> None:
        done = report(run_here("split", animals, "-o", tmp_path, "--group", r"(p\d+)_", "--json"))
        assert done["groups"] == 10
        sides = [
            {path.split("/")[-1].split("_")[0] for path in each}
            for each in paths(tmp_path).values()
        ]
        assert sorted(map(len, sides)) == [1, 1, 8]
        assert [each["samples"] for each in done["lists"]] == [48, 6, 6]
        assert done["classes"][0] == {"name": "cat", "counts": [16, 2, 2], "off": 0}


class TestAList:
    def test_is_split_without_its_files(self, run_cli: RunCli, lst: Path, tmp_path: Path) -> None:
        done = report(run_cli("split", lst, "-o", tmp_path / "out", "--json"))
        assert [each["samples"] for each in done["lists"]] == [80, 10, 10]
        assert [each["name"] for each in done["classes"]] == ["a", "b", "c", "d"]
        order = rows(lst)
        for name in ("train", "val", "test"):
            part = rows(tmp_path / "out" / f"{name}.lst")
            assert part == [row for row in order if row in set(part)]
        assert (tmp_path / "out" / "classes.txt").read_text() == "a\nb\nc\nd\n"

    def test_in_another_order_is_split_alike(
        self, run_cli: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        other = lst.with_name("other.lst")
        other.write_text("".join(sorted(lst.read_text().splitlines(keepends=True))))
        for options in ((), ("--group", "(.)[.]jpg"), ("--stable",), ("--folds", "3")):
            assert run_cli("split", lst, "-o", tmp_path / "1", "--overwrite", *options).code == 0
            assert run_cli("split", other, "-o", tmp_path / "2", "--overwrite", *options).code == 0
            assert paths(tmp_path / "1") == paths(tmp_path / "2")

    def test_comes_from_a_stream_too(self, lst: Path, tmp_path: Path, command: Path) -> None:
        done = subprocess.run(
            [command, "split", "-", "-o", tmp_path / "out"],
            input=lst.read_bytes(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert sum(map(len, paths(tmp_path / "out").values())) == 100

    def test_of_several_labels_or_boxes_is_kept_as_it_is(
        self, run_cli: RunCli, tmp_path: Path
    ) -> None:
        for name, label in (("multi", "1\t0\t0.5"), ("boxes", "2\t5\t0\t0.1\t0.1\t0.5\t1")):
            lst = tmp_path / f"{name}.lst"
            lst.write_text("".join(f"{number}\t{label}\t{number}.jpg\n" for number in range(20)))
            done = run_cli("split", lst, "-o", tmp_path / name)
            assert done.code == 0
            how = "not stratified, as labels are not single class numbers"
            how = "stratified by the classes of each" if name == "boxes" else how
            assert how in done.out
            lists = ("train", "val", "test")
            parts = [(tmp_path / name / f"{part}.lst").read_text() for part in lists]
            assert sorted("".join(parts).splitlines()) == sorted(lst.read_text().splitlines())

    def test_of_which_a_class_is_too_small_is_split_and_it_is_said(
        self, run_cli: RunCli, tmp_path: Path
    ) -> None:
        (tmp_path / "a.lst").write_text(
            "".join(f"{number}\t{int(number > 97)}\t{number}.jpg\n" for number in range(100))
        )
        done = run_cli("split", tmp_path / "a.lst", "-o", tmp_path / "out")
        assert done.code == 0
        assert "1 class too small to be on all sides: 1" in done.out

    def test_that_names_a_path_twice_has_it_on_one_side(
        self, run_cli: RunCli, tmp_path: Path
    ) -> None:
        lines = [f"{number}\t0\t{number // 2}.jpg\n" for number in range(100)]
        (tmp_path / "a.lst").write_text("".join(lines))
        refused = run_cli("split", tmp_path / "a.lst", "-o", tmp_path / "out")
        assert refused.code == 4
        assert "'0.jpg' stands in the row of id 0 already (50 rows like this, " in refused.err
        options = ("--duplicates", "keep")
        done = run_cli("split", tmp_path / "a.lst", "-o", tmp_path / "out", *options)
        assert "50 paths listed more than once, kept on one side" in done.out
        sides = list(paths(tmp_path / "out").values())
        assert sum(map(len, sides)) == len(set().union(*sides)) == 50

    def test_grows_without_a_move_if_stable(
        self, run_cli: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        done = run_cli("split", lst, "-o", tmp_path / "before", "--stable")
        assert done.code == 0
        assert "counts are only about right" in done.out
        with lst.open("a") as file:
            file.writelines(f"{number + 5000}\t1\tnew{number}.png\n" for number in range(100))
        assert run_cli("split", lst, "-o", tmp_path / "after", "--stable").code == 0
        before, after = paths(tmp_path / "before"), paths(tmp_path / "after")
        assert all(before[side] < after[side] for side in ("train", "val", "test"))
        assert run_cli("split", lst, "-o", tmp_path / "other", "--stable", "--seed", 1).code == 0
        assert paths(tmp_path / "other") != after

    def test_becomes_folds(self, run_cli: RunCli, lst: Path, tmp_path: Path) -> None:
        done = report(run_cli("split", lst, "-o", tmp_path / "out", "--folds", 3, "--json"))
        found = paths(tmp_path / "out")
        assert sorted(found) == sorted(
            f"fold-{k}-{part}" for k in range(3) for part in ("train", "val")
        )
        every = {f"{number}.jpg" for number in range(100)}
        validated: list[str] = []
        for fold in range(3):
            train, val = found[f"fold-{fold}-train"], found[f"fold-{fold}-val"]
            assert (train | val, train & val) == (every, set())
            validated += val
        assert sorted(validated) == sorted(every)
        for each in done["classes"]:
            assert sorted(each["counts"]) == [8, 8, 9]

    def test_of_folds_may_be_grouped(self, run_cli: RunCli, lst: Path, tmp_path: Path) -> None:
        group = ("--folds", "5", "--group", r"(\d)\.jpg")
        assert run_cli("split", lst, "-o", tmp_path / "out", *group).code == 0
        folds = [
            {path[-5] for path in found}
            for name, found in paths(tmp_path / "out").items()
            if "val" in name
        ]
        assert sum(map(len, folds)) == 10
        assert set().union(*folds) == set("0123456789")


class TestWhatIsThere:
    def test_stays_if_it_is_the_same(self, run_here: RunCli, lst: Path, tmp_path: Path) -> None:
        assert run_here("split", lst, "-o", tmp_path / "out").code == 0
        before = places(tmp_path / "out")
        again = run_here("split", lst, "-o", tmp_path / "out")
        assert again.code == 0
        assert "already split" in again.out
        assert places(tmp_path / "out") == before

    def test_is_replaced_only_if_told(self, run_here: RunCli, lst: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        assert run_here("split", lst, "-o", out).code == 0
        before = contents(out)
        refused = run_here("split", lst, "-o", out, "--seed", 1)
        assert refused.code == 5
        assert "train.lst: is there already and differs; give --overwrite" in refused.err
        assert contents(out) == before
        assert run_here("split", lst, "-o", out, "--seed", 1, "--overwrite").code == 0
        assert contents(out) != before
        assert names(out) == ["classes.txt", "test.lst", "train.lst", "val.lst"]

    def test_is_told_where_it_is_of_another_split(
        self, run_here: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        assert run_here("split", lst, "-o", out).code == 0
        two = ("--ratio", "train=0.5,val=0.5", "--overwrite")
        done = run_here("split", lst, "-o", out, *two)
        assert done.code == 0
        assert "lists that are not of this split: test.lst" in done.out

    def test_other_classes_are_not_replaced(
        self, run_here: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "classes.txt").write_text("x\n")
        refused = run_here("split", lst, "-o", tmp_path)
        assert refused.code == 5
        assert "classes.txt: is there already" in refused.err
        assert not list(tmp_path.glob("*.lst"))

    def test_is_not_touched_by_a_dry_run(
        self, run_here: RunCli, animals: Path, tmp_path: Path
    ) -> None:
        dry = run_here(
            "split", animals, "-o", tmp_path / "out", "--dry-run", "--materialize", "copy"
        )
        assert dry.code == 0
        assert "60 samples planned" in dry.out
        assert "nothing was written" in dry.out
        assert names(tmp_path) == []

    def test_is_quiet_if_told(self, run_here: RunCli, lst: Path, tmp_path: Path) -> None:
        assert run_here("split", lst, "-o", tmp_path / "out", "-q") == (0, "", "")


class TestCopies:
    @pytest.fixture
    def doubled(self, tmp_path: Path) -> Path:
        """Forty images of two classes, each of the last ten being a copy of one of the first."""
        root = tmp_path / "doubled"
        for number in range(40):
            path = root / ("cat", "dog")[number % 2] / f"{number:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"%02d" % (number % 30))
        return root

    HALVES = ("--ratio", "a=0.5,b=0.5")

    def test_across_sides_are_reported(
        self, run_here: RunCli, doubled: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        command = ("split", doubled, "-o", out, *self.HALVES, "--leaks", "report")
        done = report(run_here(*command, "--json"), 3)
        assert 0 < len(done["leaks"]) < 10
        found = paths(out)
        for leak in done["leaks"]:
            assert leak["kind"] == "same"
            assert {side for side, _ in leak["samples"]} == {"a", "b"}
            assert all(path in found[side] for side, path in leak["samples"])
        said = run_here(*command, "-q")
        assert said.code == 3
        assert "leak      the same: " in said.out

    def test_stay_together(self, run_here: RunCli, doubled: Path, tmp_path: Path) -> None:
        command = (*self.HALVES, "--leaks", "together", "--json")
        done = report(run_here("split", doubled, "-o", tmp_path / "out", *command))
        assert done["leaks"] == []
        contents_of = [
            {(doubled / path).read_bytes() for path in each}
            for each in paths(tmp_path / "out").values()
        ]
        assert not set.intersection(*contents_of)
        assert [each["counts"] for each in done["classes"]] == [[10, 10], [10, 10]]

    def test_and_groups_stay_together_with_each_other(
        self, run_here: RunCli, doubled: Path, tmp_path: Path
    ) -> None:
        command = (*self.HALVES, "--leaks", "together", "--group", r"/(\d)")
        assert run_here("split", doubled, "-o", tmp_path / "out", *command).code == 0
        sides = list(paths(tmp_path / "out").values())
        tens = [{path.split("/")[1][0] for path in each} for each in sides]
        assert not set.intersection(*tens)
        joined = next(each for each in tens if "0" in each)
        assert "3" in joined

    def test_need_the_files_of_a_list(
        self, run_here: RunCli, doubled: Path, tmp_path: Path
    ) -> None:
        lines = [
            f"{number}\t0\t{('cat', 'dog')[number % 2]}/{number:02}.jpg\n" for number in range(40)
        ]
        (tmp_path / "all.lst").write_text("".join(lines))
        command = ("split", tmp_path / "all.lst", "-o", tmp_path / "out", "--leaks", "report")
        refused = run_here(*command)
        assert refused.code == 2
        assert "--root" in refused.err
        assert run_here(*command, "--root", doubled).code == 3

    def test_that_look_alike_are_found(self, run_here: RunCli, tmp_path: Path) -> None:
        root = tmp_path / "alike"
        root.mkdir()
        for number in range(20):
            noise = Image.frombytes("L", (64, 64), Random(number).randbytes(4096))
            (root / f"{number:02}.png").write_bytes(encode(noise.resize((256, 256)), "PNG"))
            (root / f"{number:02}.jpg").write_bytes(encode(noise.resize((300, 300)), "JPEG"))
        (root / "broken.jpg").write_bytes(b"broken")
        command = ("split", root, *self.HALVES, "--near", "--json", "-j2")
        told = report(run_here(*command, "-o", tmp_path / "told", "--leaks", "report"), 3)
        assert {leak["kind"] for leak in told["leaks"]} == {"near"}
        assert any("1 image flat or damaged" in note for note in told["notes"])
        kept = report(run_here(*command, "-o", tmp_path / "kept", "--leaks", "together"))
        assert kept["leaks"] == []
        for each in paths(tmp_path / "kept").values():
            assert set(Counter(path[:2] for path in each if path[0] != "b").values()) == {2}


class TestATree:
    @pytest.mark.parametrize("way", ["hardlink", "symlink", "copy"])
    def test_holds_every_file_once(
        self, run_here: RunCli, animals: Path, tmp_path: Path, way: str
    ) -> None:
        out = tmp_path / "out"
        assert run_here("split", animals, "-o", out, "--materialize", way).code == 0
        assert names(out) == [
            "classes.txt",
            "test",
            "test.lst",
            "train",
            "train.lst",
            "val",
            "val.lst",
        ]
        found = {}
        for side, listed in paths(out).items():
            for path in listed:
                assert path.startswith(f"{side}/")
                file = out / path
                original = animals / path.removeprefix(f"{side}/")
                found[original] = file.read_bytes()
                assert file.is_symlink() == (way == "symlink")
                assert file.samefile(original) == (way != "copy")
        assert found == {path: path.read_bytes() for path in animals.rglob("*.jpg")}
        before = places(out)
        again = run_here("split", animals, "-o", out, "--materialize", way)
        assert again.code == 0
        assert places(out) == before

    def test_of_links_can_be_moved_with_the_images(self, run_here: RunCli, tmp_path: Path) -> None:
        image_folder(tmp_path / "here" / "photos", ("cat",), 10)
        out = tmp_path / "here" / "out"
        command = ("split", tmp_path / "here" / "photos", "-o", out, "--materialize", "symlink")
        assert run_here(*command).code == 0
        (tmp_path / "here").rename(tmp_path / "there")
        assert all(path.exists() for path in (tmp_path / "there" / "out").rglob("*.jpg"))

    def test_can_be_packed(self, run_here: RunCli, photos: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        command = ("--materialize", "hardlink", "--ratio", "a=0.5,b=0.5")
        assert run_here("split", photos, "-o", out, *command).code == 0
        packed = run_here("pack", out, tmp_path / "a.rec", "--list", out / "a.lst", "--json")
        assert report(packed)["samples"] == 6
        packed = run_here("pack", out / "b", tmp_path / "b.rec", "--json")
        assert report(packed)["samples"] == 6

    def test_of_a_list_has_a_directory_for_each_class(
        self, run_here: RunCli, animals: Path, tmp_path: Path
    ) -> None:
        every = sorted(path.relative_to(animals).as_posix() for path in animals.rglob("*.jpg"))
        lines = [f"{number}\t{number % 2}\t{path}\n" for number, path in enumerate(every)]
        (tmp_path / "all.lst").write_text("".join(lines))
        (tmp_path / "classes.txt").write_text("even\nodd\n")
        out = tmp_path / "out"
        command = ("split", tmp_path / "all.lst", "--root", animals, "-o", out)
        assert run_here(*command, "--materialize", "symlink").code == 0
        assert names(out / "train") == ["even", "odd"]
        for path, number in ((path, number) for number, path in enumerate(every)):
            (found,) = out.glob(f"*/*/{os.path.basename(path)}")
            assert found.parent.name == ("even", "odd")[number % 2]
            assert found.samefile(animals / path)


class TestAnAssignment:
    @pytest.fixture
    def imagenet(self, tmp_path: Path) -> Path:
        """Eight images in one directory, as ImageNet's validation set comes."""
        root = tmp_path / "ILSVRC2012_img_val"
        root.mkdir()
        for number in range(1, 9):
            (root / f"ILSVRC2012_val_{number:08}.JPEG").write_bytes(b"%d" % number)
        return root

    NUMBERS = (2, 1, 3, 2, 2, 1, 3, 3)
    SYNSETS = ("n02119789", "n02100735", "n01440764")

    def classes(self, out: Path) -> dict[str, str]:
        return {path.name: path.parent.name for path in (out / "val").rglob("*.JPEG")}

    @property
    def truth(self) -> dict[str, str]:
        return {
            f"ILSVRC2012_val_{image:08}.JPEG": self.SYNSETS[number - 1]
            for image, number in enumerate(self.NUMBERS, 1)
        }

    def test_of_the_development_kit(self, run_here: RunCli, imagenet: Path, tmp_path: Path) -> None:
        truth = tmp_path / "ILSVRC2012_validation_ground_truth.txt"
        truth.write_text("".join(f"{number}\n" for number in self.NUMBERS))
        synsets = tmp_path / "synsets.txt"
        synsets.write_text("".join(f"{name}\n" for name in self.SYNSETS))
        out = tmp_path / "out"
        command = ("split", imagenet, "-o", out, "--assign", truth, "--classes", synsets)
        assert run_here(*command, "--materialize", "hardlink").code == 0
        assert self.classes(out) == self.truth
        assert (out / "classes.txt").read_text() == synsets.read_text()
        assert [int(row[1]) + 1 for row in sorted(rows(out / "val.lst"))] == list(self.NUMBERS)

    def test_of_kaggle(self, run_here: RunCli, imagenet: Path, tmp_path: Path) -> None:
        truth = tmp_path / "LOC_val_solution.csv"
        lines = [f"{name[:-5]},{synset} 1 2 3 4 \n" for name, synset in self.truth.items()]
        truth.write_text("ImageId,PredictionString\n" + "".join(reversed(lines)))
        out = tmp_path / "out"
        command = ("split", imagenet, "-o", out, "--assign", truth)
        assert run_here(*command, "--materialize", "symlink").code == 0
        assert self.classes(out) == self.truth
        assert (out / "classes.txt").read_text().split() == sorted(self.SYNSETS)
        flat = run_here("split", imagenet, "-o", tmp_path / "flat", "--assign", truth)
        assert flat.code == 0
        assert names(tmp_path / "flat") == ["classes.txt", "val.lst"]
        halves = ("--ratio", "a=0.5,b=0.5", "--json")
        done = report(
            run_here("split", imagenet, "-o", tmp_path / "halves", "--assign", truth, *halves)
        )
        assert [each["samples"] for each in done["lists"]] == [4, 4]
        assert "stratified by class" in done["method"]

    def test_of_classes_is_for_those_who_have_none(
        self, run_here: RunCli, animals: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "truth.txt").write_text("1\n" * 60)
        refused = run_here(
            "split", animals, "-o", tmp_path / "out", "--assign", tmp_path / "truth.txt"
        )
        assert refused.code == 2
        assert "has labels already" in refused.err

    def test_of_classes_by_name(self, run_here: RunCli, animals: Path, tmp_path: Path) -> None:
        table = tmp_path / "labels.csv"
        table.write_text("image,class\n1.jpg,cat\n")
        refused = run_here("split", animals, "-o", tmp_path / "out", "--assign", table)
        assert refused.code == 2
        assert f"give dsprep convert SOURCE DEST --labels {table} --to folder" in refused.err

    def test_of_sides(self, run_here: RunCli, lst: Path, tmp_path: Path) -> None:
        table = tmp_path / "folds.csv"
        lines = [
            f"{number},{'dev' if number % 3 else 'eval'},{number % 12}\n" for number in range(100)
        ]
        table.write_text("id,split,fold\n" + "".join(lines))
        command = ("split", lst, "--assign", table, "--json")
        sides = report(run_here(*command, "-o", tmp_path / "out", "--assign-column", "split"))
        assert paths(tmp_path / "out").keys() == {"dev", "eval"}
        assert "0.jpg" in paths(tmp_path / "out")["eval"]
        assert [each["wanted"] for each in sides["lists"]] == [None, None]
        folds = report(
            run_here(*command, "-o", tmp_path / "folds", "--assign-column", "fold", "--folds", 12)
        )
        assert list(folds["parts"]) == [str(fold) for fold in range(12)]
        assert paths(tmp_path / "folds")["fold-11-val"] == {f"{n}.jpg" for n in range(11, 100, 12)}
        wrong = run_here(*command, "-o", tmp_path / "x", "--assign-column", "fold", "--folds", 3)
        assert wrong.code == 4
        assert "has 12 folds, not 3" in wrong.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--ratio", "train=0.8,val=0.1"), 2, "0.8 + 0.1 is 0.9, not 1"),
        (("--ratio", "train=0.9,../val=0.1"), 2, "cannot be the name of a side"),
        (("--ratio", "train=nan,val=0.5"), 2, "--ratio train=nan"),
        (("--ratio", "train=1,val=0"), 2, "--ratio val=0"),
        (("--ratio", "a=0.5,b=0.5", "--folds", "2"), 2, "--ratio or --folds"),
        (("--folds", "1"), 2, "1 is less than 2"),
        (("--folds", "101"), 4, "100 samples leave 1 fold empty"),
        (("--group", "x(y"), 2, "not a regular expression"),
        (("--group", "nowhere"), 4, "matches nothing in '99.jpg'"),
        (("--group", "jpg"), 4, "1 groups leave 2 sides empty"),
        (("--stable", "--leaks", "together"), 2, "contradict each other"),
        (("--near",), 2, "--near has no effect"),
        (("--leaks", "report", "--near", "--near-distance", "17"), 2, "--near-distance 17"),
        (("--materialize", "copy", "--folds", "2"), 2, "--materialize goes with sides"),
        (("--materialize", "copy"), 2, "give --root"),
        (("--skip-unmatched",), 2, "--skip-unmatched has no effect"),
        (("--labels", "x.csv"), 2, "it goes with a directory"),
        (("--path-column", "x"), 2, "--path-column x has no effect"),
        (("--seed", "9" * 40), 2, "too large"),
        (("--root", "nowhere"), 4, "nowhere: does not exist"),
        (("--assign", "nowhere"), 4, "nowhere: cannot be read"),
        (("--ratio", "a=0.999,b=0.001"), 4, "leave 1 side empty: b"),
    ],
)
def test_what_makes_no_sense_is_refused(
    run_here: RunCli, lst: Path, tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    refused = run_here("split", lst, "-o", tmp_path / "out", *options, cwd=tmp_path)
    assert refused.code == code
    assert said in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("gone", 4, "does not exist"),
        ("t.csv", 2, "--labels t.csv; if its rows are the samples, dsprep pack t.csv OUT --to"),
        ("photo.jpg", 4, "is not a directory, nor an archive"),
        ("gone.lst", 4, "cannot be read"),
    ],
)
def test_a_source_that_is_none_is_refused(
    run_here: RunCli, tmp_path: Path, source: str, code: int, said: str
) -> None:
    (tmp_path / "t.csv").write_text("path,label\na,1\n")
    (tmp_path / "photo.jpg").touch()
    refused = run_here("split", source, "-o", "out", cwd=tmp_path)
    assert refused.code == code
    assert said in refused.err


def test_advice_of_options_that_it_lacks_names_the_command_that_has_them(
    run_here: RunCli, photos: Path, tmp_path: Path
) -> None:
    rows = [f"{path.relative_to(photos)},it has claws\n" for path in photos.rglob("*.jpg")]
    (tmp_path / "t.csv").write_text("".join(["path,caption\n", *rows]))
    how = ("--labels", tmp_path / "t.csv", "--fields", "caption", "--to", "recordio")
    refused = run_here("split", photos, "-o", tmp_path / "out", *how)
    assert refused.code == 2
    assert "give --drop caption, or --only image" in refused.err
    assert f"has no --only and --drop: dsprep pack {photos} {tmp_path}/out --to" in refused.err
    sides = ("--split", "train=0.8,val=0.2", "--drop", "caption")
    assert run_here("pack", photos, tmp_path / "out", *how, *sides).code == 0


def test_python_says_the_same_as_the_command(run_here: RunCli, lst: Path, tmp_path: Path) -> None:
    ratios = {"train": 0.7, "val": 0.2, "test": 0.1}
    done = dsprep.split(str(lst), str(tmp_path / "python"), ratios=ratios, seed=3)
    text = ",".join(f"{name}={share}" for name, share in ratios.items())
    again = report(
        run_here("split", lst, "-o", tmp_path / "cli", "--ratio", text, "--seed", 3, "--json")
    )
    assert contents(tmp_path / "python") == contents(tmp_path / "cli")
    assert [each.samples for each in done.lists] == [each["samples"] for each in again["lists"]]
