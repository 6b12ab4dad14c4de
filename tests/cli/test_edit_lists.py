"""`dsprep lst create`, `append` and the edits: from the command line to the real readers."""

from __future__ import annotations

import gc
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from tests.conftest import Finished
from tests.images import image_folder, jpeg

RunCli = Callable[..., Finished]


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Four cats, four dogs and four pets of other kinds; not to be shared, as tests add more."""
    root = tmp_path / "pets"
    image_folder(root, ("cat", "dog", "other/ねこ"), per_class=4)
    return root


@pytest.fixture
def lst(pets: Path, tmp_path: Path, run_here: RunCli) -> Path:
    path = tmp_path / "train.lst"
    assert run_here("lst", "create", pets, "-o", path, "--no-shuffle").code == 0
    return path


def read(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


class TestCreate:
    def test_lists_every_image_and_names_the_classes(self, lst: Path, pets: Path) -> None:
        found = read(lst)
        assert [int(index) for index, _, _ in found] == list(range(12))
        assert [path for _, _, path in found] == sorted(
            path.relative_to(pets).as_posix() for path in pets.rglob("*.jpg")
        )
        classes = (lst.parent / "classes.txt").read_text("utf-8").splitlines()
        assert classes == ["cat", "dog", "other/ねこ"]
        assert all(path.startswith(classes[int(label)] + "/") for _, label, path in found)

    def test_says_how_many_samples_classes_have(
        self, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        listed = run_here("lst", "create", pets, "-o", tmp_path / "a.lst")
        named = "named in classes.txt beside the list"
        assert f"  classes   3, of 4 samples each, {named}\n" in listed.out
        next((pets / "cat").iterdir()).unlink()
        listed = run_here("lst", "create", pets, "-o", tmp_path / "b" / "b.lst")
        assert f"  classes   3, of 3 to 4 samples, {named}\n" in listed.out

    def test_the_order_depends_on_the_seed_and_ids_do_not(
        self, lst: Path, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        orders = []
        for number, options in enumerate(((), (), ("--seed", 7))):
            path = tmp_path / f"{number}.lst"
            assert run_here("lst", "create", pets, "-o", path, *options).code == 0
            orders.append(read(path))
        assert orders[0] == orders[1] != orders[2]
        assert sorted(orders[0]) == sorted(orders[2]) == sorted(read(lst))

    @pytest.mark.parametrize("labels", ["1", "0.5,3", "2,5,1,0.1,0.25,0.5,1"])
    def test_packs_with_the_real_im2rec(
        self,
        lst: Path,
        pets: Path,
        tmp_path: Path,
        mxnet: ModuleType,
        im2rec: ModuleType,
        run_here: RunCli,
        labels: str,
    ) -> None:
        """One label, several, and one for detection."""
        if labels != "1":
            only = tmp_path / "only"
            columns = ",".join(f"y{number}" for number in range(len(labels.split(","))))
            lines = [f"path,{columns}", *(f"{path},{labels}" for _, _, path in read(lst)), ""]
            (tmp_path / "labels.csv").write_text("\n".join(lines), "utf-8")
            made = run_here(
                *("lst", "create", pets, "-o", only / "train.lst", "--no-shuffle"),
                *("--labels", tmp_path / "labels.csv", "--label-column", columns),
            )
            assert made.code == 0, made
            lst.write_bytes((only / "train.lst").read_bytes())
        words = (im2rec.__file__, "--pass-through", "--pack-label", tmp_path / "train", pets)
        with mock.patch.object(sys, "argv", list(map(str, words))):
            runpy.run_path(str(im2rec.__file__), run_name="__main__")
        gc.collect()  # closes the files that im2rec leaves open
        reader = mxnet.recordio.MXIndexedRecordIO(
            str(tmp_path / "train.idx"), str(tmp_path / "train.rec"), "r"
        )
        for index, *texts, path in read(lst):
            header, image = mxnet.recordio.unpack(reader.read_idx(int(index)))
            found = [header.label] if len(texts) == 1 else list(header.label)
            assert found == pytest.approx([float(text) for text in texts])
            assert image == (pets / path).read_bytes()
            assert labels == "1" or ",".join(texts) == labels

    def test_reads_what_im2rec_lists(
        self, pets: Path, tmp_path: Path, run_here: RunCli, im2rec: ModuleType
    ) -> None:
        path = tmp_path / "theirs.lst"
        im2rec.write_list(str(path), list(im2rec.list_image(str(pets), True, {".jpg"})))
        before = list(im2rec.read_list(str(path)))
        assert "0.000000" in path.read_text()
        assert run_here("lst", "set", path, "--id", 0, "--label", 2).code == 0
        after = list(im2rec.read_list(str(path)))
        assert after == [[0, before[0][1], 2.0], *before[1:]]

    def test_ratios_lose_nothing(self, pets: Path, tmp_path: Path, run_here: RunCli) -> None:
        dest = tmp_path / "lists"
        dest.mkdir()
        ratios = ("--train-ratio", 0.7, "--test-ratio", 0.3, "--chunks", 2)
        assert run_here("lst", "create", pets, "-o", dest / "d.lst", *ratios).code == 0
        names = sorted(path.name for path in dest.glob("*.lst"))
        assert names == ["d_0_test.lst", "d_0_train.lst", "d_1_test.lst", "d_1_train.lst"]
        ids = [int(row[0]) for name in names for row in read(dest / name)]
        assert sorted(ids) == list(range(12))

    def test_labels_may_come_from_a_table(
        self, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        images = sorted(path.relative_to(pets).as_posix() for path in pets.rglob("*.jpg"))
        table = tmp_path / "train.csv"
        lines = [f"{path},{number},{number / 2}" for number, path in enumerate(images[:6])]
        table.write_text("path,x,y\n" + "\n".join([*lines, "gone.jpg,0,0", ""]), "utf-8")
        options = ("--labels", table, "--label-column", "x,y", "--no-shuffle")
        done = run_here("lst", "create", pets, "-o", tmp_path / "t.lst", *options)
        assert done.code == 3
        assert "gone.jpg" in done.out
        expected = [["0", "0", "0"], ["1", "1", "0.5"], ["2", "2", "1"]]
        assert [row[:3] for row in read(tmp_path / "t.lst")][:3] == expected

    def test_a_name_that_no_list_can_hold_is_rejected_and_said(
        self, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        for name in ("a\tb.jpg", "a\nb.jpg", "a .jpg", " a.jpg", "a\rb.jpg"):
            (pets / "cat" / name).write_bytes(jpeg())
        done = run_here("lst", "create", pets, "-o", tmp_path / "t.lst", "--json")
        assert done.code == 3
        rejected = {each["path"] for each in json.loads(done.out)["rejects"]}
        assert rejected == {"cat/a\tb.jpg", "cat/a\nb.jpg", "cat/a\rb.jpg"}
        assert len(read(tmp_path / "t.lst")) == 14

    def test_replaces_nothing_unasked(
        self, lst: Path, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        before = lst.read_bytes()
        refused = run_here("lst", "create", pets, "-o", lst)
        assert (refused.code, lst.read_bytes()) == (5, before)
        assert "--overwrite" in refused.err
        image_folder(tmp_path / "more", ("ant",))
        refused = run_here("lst", "create", tmp_path / "more", "-o", tmp_path / "more.lst")
        assert refused.code == 5
        assert "classes.txt: names other classes" in refused.err
        assert not (tmp_path / "more.lst").exists()
        assert run_here("lst", "create", pets, "-o", lst, "--overwrite").code == 0
        assert run_here("lst", "create", pets, "-o", lst / "x.lst").code == 5
        assert run_here("lst", "create", pets, "-o", tmp_path / "new" / "x.lst").code == 0

    def test_only_what_lies_under_a_directory(
        self, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        done = run_here("lst", "create", pets, "-o", "-", "--under", "dog/", "--no-shuffle")
        assert done.code == 0
        assert [line.split("\t")[1:] for line in done.out.splitlines()] == [
            ["1", path.relative_to(pets).as_posix()] for path in sorted((pets / "dog").iterdir())
        ]
        assert run_here("lst", "create", pets, "-o", "-", "--under", "cow").code == 4

    def test_a_dry_run_writes_nothing(self, pets: Path, tmp_path: Path, run_here: RunCli) -> None:
        done = run_here("lst", "create", pets, "-o", tmp_path / "x" / "t.lst", "--dry-run")
        assert done.code == 0
        assert not (tmp_path / "x").exists()
        done = run_here("lst", "create", pets, "-o", tmp_path / "t.lst", "--dry-run")
        assert done.code == 0
        assert "nothing was written" in done.out
        assert not list(tmp_path.glob("*.lst"))


class TestAppend:
    def test_new_files_get_new_ids_and_classes_stay(
        self, lst: Path, pets: Path, run_here: RunCli
    ) -> None:
        before = read(lst)
        for name in ("dog/0.jpg", "cat/zz.jpg"):
            (pets / name).write_bytes(jpeg(9))
        done = run_here("lst", "append", lst, pets)
        assert (done.code, "2 rows added, 14 in all" in done.out) == (0, True)
        assert read(lst) == [*before, ["12", "0", "cat/zz.jpg"], ["13", "1", "dog/0.jpg"]]
        once = lst.read_bytes()
        assert run_here("lst", "append", lst, pets).code == 0
        assert lst.read_bytes() == once

    def test_an_unknown_class_is_an_error(self, lst: Path, pets: Path, run_here: RunCli) -> None:
        before = lst.read_bytes()
        image_folder(pets, ("ant",), per_class=1)
        refused = run_here("lst", "append", lst, pets)
        assert (refused.code, lst.read_bytes()) == (4, before)
        assert "'ant'" in refused.err

    def test_without_classes_it_asks(self, lst: Path, pets: Path, run_here: RunCli) -> None:
        (lst.parent / "classes.txt").rename(lst.parent / "names.txt")
        refused = run_here("lst", "append", lst, pets)
        assert (refused.code, "--classes" in refused.err) == (4, True)
        assert run_here("lst", "append", lst, pets, "--classes", lst.parent / "names.txt").code == 0

    def test_one_label_for_all(self, lst: Path, tmp_path: Path, run_here: RunCli) -> None:
        image_folder(tmp_path / "inbox", (".",), per_class=2)
        assert run_here("lst", "append", lst, tmp_path / "inbox", "--label", "dog").code == 0
        assert [row[:2] for row in read(lst)[12:]] == [["12", "1"], ["13", "1"]]
        assert run_here("lst", "append", lst, tmp_path / "inbox", "--label", "cow").code == 2


class TestEdits:
    def test_set_remove_and_replace(self, lst: Path, run_here: RunCli) -> None:
        before = read(lst)
        assert run_here("lst", "set", lst, "--class", "cat", "--label", "dog").code == 0
        changed = [[index, "1" if label == "0" else label, path] for index, label, path in before]
        assert read(lst) == changed
        assert run_here("lst", "set", lst, "--id", 3, "--new-path", "x/ y.jpg").code == 0
        changed[3][2] = "x/ y.jpg"
        assert read(lst) == changed
        assert run_here("lst", "remove", lst, "--path", "other/**").code == 0
        assert read(lst) == changed[:8]
        assert run_here("lst", "replace", lst, "dog/", "wolf/").code == 0
        assert [path for _, _, path in read(lst)[4:]] == [
            path.replace("dog/", "wolf/") for _, _, path in changed[4:8]
        ]

    def test_streams(self, lst: Path, command: Path) -> None:
        script = f"{command} lst remove - --class 0 | {command} lst replace - dog/ wolf/ -o -"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script}"],
            input=lst.read_text("utf-8"),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 8
        assert done.stdout.count("wolf/") == 4
        assert "4 rows removed" in done.stderr

    @pytest.mark.parametrize(
        ("code", "args"),
        [
            (2, ("set", "--id", "1")),
            (2, ("set", "--label", "1")),
            (2, ("set", "--class", "cow", "--label", "1")),
            (2, ("set", "--class", "cat", "--label", "cow")),
            (2, ("set", "--class", "cat", "--new-path", "x")),
            (4, ("set", "--id", "99", "--label", "1")),
            (4, ("set", "--id", "1", "--label", "1,2")),
            (5, ("set", "--id", "1", "--new-path", "../x")),
            (5, ("replace", "cat/", "/etc/")),
            (5, ("replace", "cat/", "a\tb/")),
            (4, ("replace", "cow/", "x/")),
            (4, ("remove", "--path", "**/*")),
            (2, ("remove", "--id", "x")),
        ],
    )
    def test_what_makes_no_sense_changes_nothing(
        self, lst: Path, run_here: RunCli, code: int, args: tuple[str, ...]
    ) -> None:
        before = lst.read_bytes()
        done = run_here("lst", args[0], lst, *args[1:])
        assert (done.code, done.out, lst.read_bytes()) == (code, "", before)
        assert done.err.strip()

    def test_several_labels_and_boxes_are_kept(self, tmp_path: Path, run_here: RunCli) -> None:
        path = tmp_path / "d.lst"
        boxes = "4\t5\t300\t200\t1\t0.1\t0.2\t0.3\t0.4"
        lines = [f"0\t{boxes}\ta b.jpg", f"5\t{boxes}\t2\t0\t0\t1\t1\tc.jpg"]
        path.write_text("\n".join(lines) + "\n")
        assert run_here("lst", "replace", path, "a", "z").code == 0
        assert path.read_text().splitlines() == [lines[0].replace("a b", "z b"), lines[1]]
        new = "2,5,0,0.5,0.5,1,1"
        assert run_here("lst", "set", path, "--id", 5, "--label", new).code == 0
        assert path.read_text().splitlines()[1] == "5\t" + new.replace(",", "\t") + "\tc.jpg"


class TestRelabel:
    def test_lists_that_share_classes_change_together(
        self, lst: Path, pets: Path, tmp_path: Path, run_here: RunCli
    ) -> None:
        (tmp_path / "val.lst").write_bytes(lst.read_bytes())
        (tmp_path / "map.tsv").write_text("cat\tpet\ndog\tpet\nother/ねこ\tねこ\n", "utf-8")
        before = lst.read_bytes()
        alone = run_here("lst", "relabel", lst, "--map", tmp_path / "map.tsv")
        assert (alone.code, lst.read_bytes()) == (4, before)
        assert "val.lst" in alone.err
        both = (lst, tmp_path / "val.lst")
        done = run_here("lst", "relabel", *both, "--map", tmp_path / "map.tsv")
        assert done.code == 0
        assert "8 rows from cat to pet" in done.out
        assert (tmp_path / "classes.txt").read_text("utf-8") == "pet\nねこ\n"
        for path in both:
            assert [row[1] for row in read(path)] == ["0"] * 8 + ["1"] * 4
        assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == []

    def test_elsewhere(self, lst: Path, tmp_path: Path, run_here: RunCli) -> None:
        (tmp_path / "map.tsv").write_text("cat/**\ta\n", "utf-8")
        new = tmp_path / "new"
        new.mkdir()
        args = ("lst", "relabel", lst, "--map", tmp_path / "map.tsv")
        assert run_here(*args, "-o", new / "train.lst").code == 4
        args = (*args, "--keep-unmatched")
        done = run_here(*args, "-o", new / "train.lst", "--json")
        assert done.code == 0
        moves = json.loads(done.out)["moves"]
        assert {"old": "cat", "new": "a", "moved": 4} in moves
        assert (new / "classes.txt").read_text("utf-8") == "a\ndog\nother/ねこ\n"
        assert "already done" in run_here(*args, "-o", new / "train.lst").out
        (new / "train.lst").write_text("0\t0\tx.jpg\n", "utf-8")
        assert run_here(*args, "-o", new / "train.lst").code == 5
        assert run_here(*args, "-o", tmp_path / "other.lst").code == 5
        assert (tmp_path / "classes.txt").read_text("utf-8").startswith("cat\n")
