"""`dsprep lst check`, `stats` and `sample`: what they print, write and exit with."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.cli.lst_report import draw_bars, width_of
from tests.conftest import Finished
from tests.images import image_folder

RunCli = Callable[..., Finished]


@pytest.fixture
def run_cli(run_cli: RunCli, run_here: RunCli) -> RunCli:
    """The command in this process, unless it reads its environment when it starts."""
    return lambda *args, **options: (run_cli if "env" in options else run_here)(*args, **options)


GOOD = "".join(f"{i}\t{i % 3}\tphotos/{i}.jpg\n" for i in range(30))
BAD = "0\t0\ta.jpg\n0\t1\tb.jpg\nx\t1\tc.jpg\n4\t3\ta.jpg\n"


@pytest.fixture
def lst(tmp_path: Path) -> Path:
    path = tmp_path / "train.lst"
    path.write_text(GOOD, "utf-8")
    return path


def pipe(command: Path, text: str, *args: object) -> Finished:
    """Run a command of `lst` that reads a list from stdin."""
    done = subprocess.run(
        [command, "lst", *map(str, args)], input=text, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


class TestCheck:
    def test_of_a_good_list_finds_nothing(self, run_cli: RunCli, lst: Path) -> None:
        finished = run_cli("lst", "check", lst)
        assert (finished.code, finished.err) == (0, "")
        assert finished.out.startswith(f"{lst}: no faults\n  rows      30\n")
        assert run_cli("lst", "check", lst, "-q") == (0, "", "")

    def test_names_each_fault_and_its_line(self, run_cli: RunCli, lst: Path) -> None:
        lst.write_text(BAD, "utf-8")
        for quiet in ((), ("-q",)):
            finished = run_cli("lst", "check", lst, *quiet)
            assert (finished.code, finished.err) == (3, "")
            assert f"{lst}: 4 faults" in finished.out
            for line, kind in (
                (2, "duplicate-id"),
                (3, "unreadable"),
                (4, "duplicate-path"),
                (4, "gap"),
            ):
                assert f"  {lst}:{line}: {kind}: " in finished.out
                assert f"1 {kind}\n" in finished.out

    def test_as_json_tells_all(self, run_cli: RunCli, lst: Path) -> None:
        lst.write_text(BAD + "x\n" * 70, "utf-8")
        finished = run_cli("lst", "check", lst, "--json")
        report = json.loads(finished.out)
        assert (finished.code, finished.err, len(report["faults"])) == (3, "", 74)
        assert report["kinds"]["unreadable"] == 71
        assert report["faults"][0] == {
            "line": 2,
            "kind": "duplicate-id",
            "message": "the id 0 stands in line 1 already",
        }
        shown = run_cli("lst", "check", lst).out
        assert shown.count(f"  {lst}:") == 50
        assert shown.endswith("  and 24 more; --json lists them all\n")

    def test_reads_stdin(self, command: Path) -> None:
        assert pipe(command, GOOD, "check", "-").code == 0
        finished = pipe(command, BAD, "check", "-")
        assert finished.code == 3
        assert "<stdin>:2: duplicate-id: " in finished.out

    def test_for_a_reader_and_below_a_root(
        self, run_cli: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        images = [f"photos/{i}.jpg" for i in range(30)]
        (tmp_path / "photos").mkdir()
        for image in images[1:]:
            (tmp_path / image).write_bytes(b"x")
        (tmp_path / images[7]).write_bytes(b"")
        finished = run_cli("lst", "check", lst, "--root", tmp_path, "--for", "sagemaker")
        assert finished.code == 3
        assert f"{lst}:1: missing: 'photos/0.jpg': No such file or directory" in finished.out
        assert f"{lst}:8: empty: 'photos/7.jpg' has no bytes" in finished.out
        assert f"files below {tmp_path}, what SageMaker's image classification" in finished.out

    @pytest.mark.parametrize(
        ("args", "code"),
        [
            (("nothing.lst",), 4),
            ((".",), 4),
            (("train.lst", "--root", "nothing"), 4),
            (("train.lst", "--classes", "nothing"), 4),
            (("train.lst", "--for", "caffe"), 2),
        ],
    )
    def test_of_what_is_not_there(
        self, run_cli: RunCli, lst: Path, args: tuple[str, ...], code: int
    ) -> None:
        finished = run_cli("lst", "check", *args, cwd=lst.parent)
        assert (finished.code, finished.out) == (code, "")
        assert finished.err

    def test_of_the_lists_of_im2rec_finds_nothing(
        self, run_cli: RunCli, im2rec: ModuleType, tmp_path: Path
    ) -> None:
        image_folder(tmp_path / "images", ("cat", "dog", "pets/ねこ"), per_class=4)
        im2rec.make_list(
            argparse.Namespace(
                root=str(tmp_path / "images"),
                prefix=str(tmp_path / "all"),
                recursive=True,
                exts=[".jpeg", ".jpg", ".png"],
                shuffle=True,
                chunks=1,
                train_ratio=1.0,
                test_ratio=0.0,
            )
        )
        made = tmp_path / "all.lst"
        for reader in ("sagemaker", "mxnet"):
            args = ("--root", tmp_path / "images", "--for", reader)
            assert run_cli("lst", "check", made, *args, "-q") == (0, "", "")
        stats = json.loads(run_cli("lst", "stats", made, "--json").out)
        assert (stats["rows"], stats["imbalance"]) == (12, 1)
        sample = run_cli("lst", "sample", made, "--balanced", "-q")
        assert sample == (0, "".join(f"{line}\n" for line in plain_lines(made)), "")


def plain_lines(path: Path) -> list[str]:
    """The lines of a list, whole labels being written without a point."""
    return [line.replace(".000000", "") for line in path.read_text("utf-8").splitlines()]


class TestStats:
    def test_counts_and_draws(self, run_cli: RunCli, lst: Path) -> None:
        lst.write_text("0\t0\ta\n1\t1\tb\n2\t1\tc\n3\t1\td\n4\t1\te\n", "utf-8")
        (lst.parent / "classes.txt").write_text("cat\nねこ\nowl\n", "utf-8")
        finished = run_cli("lst", "stats", lst, env={"COLUMNS": "40"})
        assert (finished.code, finished.err) == (0, "")
        assert finished.out.splitlines() == [
            f"{lst}: 5 rows",
            "  labels    one class each",
            "  classes   3",
            "  largest   1 ねこ, 4 rows",
            "  smallest  0 cat, 1 row",
            "  imbalance 4",
            "  unused    1 class without rows: 2 owl",
            "",
            "  0 cat   1  ██████▊",
            "  1 ねこ  4  ███████████████████████████",
            "  2 owl   0",
        ]
        ascii_only = run_cli(
            "lst", "stats", lst, env={"COLUMNS": "40", "PYTHONIOENCODING": "ascii"}
        )
        assert ascii_only.out.splitlines()[-3:] == [
            "  0 cat          1  #####",
            "  1 \\u306d\\u...  4  ####################",
            "  2 owl          0",
        ]

    def test_shows_the_ends_of_many_classes(self, run_cli: RunCli, lst: Path) -> None:
        rows = [(i, j) for i in range(100) for j in range(i + 1)]
        lst.write_text("".join(f"{n}\t{i}\t{n}\n" for n, (i, _) in enumerate(rows)), "utf-8")
        bars = run_cli("lst", "stats", lst).out.partition("\n\n")[2].splitlines()
        assert [bar.split()[0] for bar in bars[:20]] == [str(99 - i) for i in range(20)]
        assert bars[20] == "  (60 more between the largest and the smallest)"
        assert [bar.split()[0] for bar in bars[21:]] == [str(19 - i) for i in range(20)]

    def test_of_other_labels(self, run_cli: RunCli, command: Path, lst: Path) -> None:
        lst.write_text("0\t2\t5\t1\t0\t0\t1\t1\ta\n1\t2\t5\t0\t0\t0\t1\t1\t1\t0\t0\t1\t1\tb\n")
        assert "objects   3; 1 to 2 a row, 1.5 on average\n" in run_cli("lst", "stats", lst).out
        several = pipe(command, "0\t2\t0.5\ta\n1\t2\t0.25\tb\n", "stats", "-")
        assert several.out == "<stdin>: 2 rows\n  labels    2 numbers each, 2 different\n"

    def test_as_json(self, run_cli: RunCli, lst: Path) -> None:
        finished = run_cli("lst", "stats", lst, "--json")
        report = json.loads(finished.out)
        assert (finished.code, report["rows"], report["kind"]) == (0, 30, "classes")
        assert report["classes"][1] == {"number": 1, "name": None, "rows": 10, "objects": None}
        assert report["widths"] == {"1": 30}

    def test_of_a_wrong_list_is_refused(self, run_cli: RunCli, lst: Path) -> None:
        lst.write_text(BAD, "utf-8")
        finished = run_cli("lst", "stats", lst)
        assert (finished.code, finished.out) == (4, "")
        assert f"{lst}:" in finished.err


@given(
    st.lists(st.tuples(st.text(max_size=40), st.integers(0, 10**7)), max_size=8),
    st.integers(40, 200),
    st.sampled_from(["utf-8", "ascii", "latin-1", "cp437"]),
)
def test_bars_fit_on_the_page(entries: list[tuple[str, int]], columns: int, encoding: str) -> None:
    lines = list(draw_bars(entries, columns, encoding))
    assert len(lines) == len(entries)
    for line, (_, number) in zip(lines, entries, strict=True):
        assert width_of(line) <= columns
        assert line.isprintable()
        assert line.encode(encoding)
        assert f"{number:,}" in line
        assert line.endswith(f"{number:,}") == (number == 0)


class TestSample:
    def test_goes_to_stdout_and_its_report_to_stderr(self, run_cli: RunCli, lst: Path) -> None:
        finished = run_cli("lst", "sample", lst, "--count", 7)
        assert finished.code == 0
        kept = finished.out.splitlines()
        assert len(kept) == 7
        assert kept == [line for line in GOOD.splitlines() if line in kept]
        assert finished.err.startswith("<stdout>: 7 of 30 rows, 23.3%\n")
        as_json = run_cli("lst", "sample", lst, "--count", 7, "--json")
        assert as_json.out == finished.out
        assert json.loads(as_json.err)["kept"] == 7

    def test_goes_to_a_file_with_its_classes(
        self, run_cli: RunCli, lst: Path, tmp_path: Path
    ) -> None:
        (lst.parent / "classes.txt").write_text("cat\ndog\nowl\n", "utf-8")
        (tmp_path / "small").mkdir()
        out = tmp_path / "small" / "train.lst"
        finished = run_cli("lst", "sample", lst, "--per-class", 2, "-o", out)
        assert (finished.code, finished.err) == (0, "")
        assert finished.out.startswith(f"{out}: 6 of 30 rows, 20%\n")
        assert "classes   3, 2 rows each" in finished.out
        assert sorted(line.split("\t")[1] for line in out.read_text().splitlines()) == [*"001122"]
        assert (out.parent / "classes.txt").read_text() == "cat\ndog\nowl\n"
        assert sorted(each.name for each in out.parent.iterdir()) == ["classes.txt", "train.lst"]

    def test_replaces_files_only_if_told(self, run_cli: RunCli, lst: Path, tmp_path: Path) -> None:
        args = ("lst", "sample", lst, "--fraction", 0.5, "-q")
        refused = run_cli(*args, "-o", lst)
        assert (refused.code, refused.out) == (5, "")
        assert "--overwrite" in refused.err
        assert lst.read_text() == GOOD
        (lst.parent / "classes.txt").write_text("cat\ndog\nowl\n", "utf-8")
        other = tmp_path / "other"
        other.mkdir()
        (other / "classes.txt").write_text("others\n", "utf-8")
        refused = run_cli(*args, "-o", other / "train.lst")
        assert refused.code == 5
        assert "names other classes" in refused.err
        assert [each.name for each in other.iterdir()] == ["classes.txt"]
        assert run_cli(*args, "-o", other / "train.lst", "--overwrite") == (0, "", "")
        assert (other / "classes.txt").read_text() == "cat\ndog\nowl\n"
        assert run_cli(*args, "-o", lst, "--overwrite") == (0, "", "")
        assert lst.read_text() == (other / "train.lst").read_text()

    def test_may_be_tried_first(self, run_cli: RunCli, lst: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.lst"
        finished = run_cli("lst", "sample", lst, "--balanced", "-o", out, "--dry-run")
        assert "nothing was written" in finished.out
        assert not out.exists()
        finished = run_cli("lst", "sample", lst, "--balanced", "--dry-run")
        assert (finished.code, finished.err) == (0, "")
        assert finished.out.startswith("<stdout>: 30 of 30 rows, 100%\n  nothing was written\n")

    def test_says_where_there_are_too_few(self, run_cli: RunCli, lst: Path) -> None:
        lst.write_text(GOOD + "40\t3\tlast.jpg\n", "utf-8")
        finished = run_cli("lst", "sample", lst, "--per-class", 4)
        assert finished.code == 0
        assert "classes   4, 1 to 4 rows each" in finished.err
        assert "short     1 class of fewer than 4 rows: 3 (1)" in finished.err
        many = run_cli("lst", "sample", lst, "--count", 40)
        assert many.out == lst.read_text()
        assert "short     40 were asked for" in many.err
        for args in (("--per-class", 4), ("--count", 40)):
            refused = run_cli("lst", "sample", lst, *args, "--strict")
            assert (refused.code, refused.out) == (4, "")
            assert "31 rows, fewer than 40" in refused.err or "the class 3 has 1" in refused.err
        assert run_cli("lst", "sample", lst, "--count", 31, "--strict").code == 0

    def test_of_a_sample_is_the_smaller_one(
        self, run_cli: RunCli, command: Path, lst: Path
    ) -> None:
        half = run_cli("lst", "sample", lst, "--fraction", 0.5, "-q").out
        less = pipe(command, half, "sample", "-", "--fraction", "0.2", "-q")
        assert less == run_cli("lst", "sample", lst, "--fraction", 0.2, "-q")
        assert less.code == 0

    def test_changes_with_the_seed(self, run_cli: RunCli, lst: Path) -> None:
        samples = [
            run_cli("lst", "sample", lst, "--count", 5, "--seed", seed, "-q").out
            for seed in (0, 0, 1, -1)
        ]
        assert samples[0] == samples[1]
        assert len(set(samples)) == 3

    @pytest.mark.parametrize(
        ("args", "code"),
        [
            ((), 2),
            (("--count", "3", "--balanced"), 2),
            (("--count", "0"), 2),
            (("--fraction", "1.5"), 2),
            (("--fraction", "nan"), 2),
            (("--fraction", "1e-9"), 4),
            (("--count", "3", "--seed", "1" * 50), 2),
            (("--count", "3", "-o", "/proc/nowhere/x.lst"), 5),
        ],
    )
    def test_that_makes_no_sense_is_refused(
        self, run_cli: RunCli, lst: Path, args: tuple[str, ...], code: int
    ) -> None:
        finished = run_cli("lst", "sample", lst, *args, cwd=lst.parent)
        assert (finished.code, finished.out) == (code, "")
        assert finished.err
        assert [each.name for each in lst.parent.iterdir()] == ["train.lst"]

    def test_whose_reader_goes_away_ends_quietly(self, command: Path, tmp_path: Path) -> None:
        many = tmp_path / "many.lst"
        many.write_text("".join(f"{i}\t0\t{i}.jpg\n" for i in range(100_000)))
        script = f"{command} lst sample {many} --fraction 1 -q | head -n1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "0\t0\t0.jpg\n", "")
