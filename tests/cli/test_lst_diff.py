"""`dsprep lst diff` and `patch`, from the command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished
from tests.images import image_folder

RunCli = Callable[..., Finished]


@pytest.fixture
def run_cli(run_here: RunCli) -> RunCli:
    """The command in this process: how it starts and ends is not what these tests are about."""
    return run_here


MONDAY = """\
0\t0.000000\tcat/1.jpg
1\t0.000000\tcat/2.jpg
2\t1.000000\tdog/3.jpg
3\t1.000000\tdog/4.jpg
4\t2.000000\tpets/ねこ.jpg
"""

FRIDAY = """\
4\t2\tpets/ねこ2.jpg
0\t1\tcat/1.jpg
2\t1\tdog/3.jpg
3\t1\tdog/4.jpg
9\t2\tnew.jpg
"""

ROWS = [
    "-\t1\t0\tcat/2.jpg",
    "<\t4\t2\tpets/ねこ.jpg",
    ">\t4\t2\tpets/ねこ2.jpg",
    "<\t0\t0\tcat/1.jpg",
    ">\t0\t1\tcat/1.jpg",
    "+\t5\t9\t2\tnew.jpg",
    "^\t1\t4",
]


@pytest.fixture
def monday(tmp_path: Path) -> Path:
    path = tmp_path / "monday.lst"
    path.write_text(MONDAY, "utf-8")
    return path


@pytest.fixture
def friday(tmp_path: Path) -> Path:
    path = tmp_path / "friday.lst"
    path.write_text(FRIDAY, "utf-8")
    return path


class TestDiff:
    def test_nothing_differs(self, monday: Path, tmp_path: Path, run_cli: RunCli) -> None:
        other = tmp_path / "other.lst"
        other.write_text(MONDAY.replace(".000000", ""), "utf-8")
        assert run_cli("lst", "diff", monday, other) == (0, "", "")
        assert run_cli("lst", "diff", monday, monday, "--summary") == (0, "", "")

    def test_tells_the_rows_and_what_that_means_for_each_class(
        self, monday: Path, friday: Path, run_cli: RunCli
    ) -> None:
        (monday.parent / "classes.txt").write_text("cat\ndog\nねこ\n", "utf-8")
        done = run_cli("lst", "diff", monday, friday)
        assert (done.code, done.err) == (1, "")
        remarks = [line for line in done.out.splitlines() if line.startswith("#")]
        assert done.out.splitlines()[len(remarks) :] == ROWS
        words = [line.split()[1:] for line in remarks]
        for name in ("added", "removed", "relabeled", "moved", "reordered"):
            assert [name, "1"] in words
        assert ["0", "cat", "2", "0", "0", "1", "0", "1"] in words
        assert ["2", "ねこ", "1", "2", "1", "0", "0", "0"] in words
        assert ["relabeled", "1", "row", "from", "cat", "to", "dog"] in words

    def test_summary_and_quiet(self, monday: Path, friday: Path, run_cli: RunCli) -> None:
        done = run_cli("lst", "diff", monday, friday, "--summary")
        assert done.code == 1
        assert all(line.startswith("#") for line in done.out.splitlines())
        assert run_cli("lst", "diff", monday, friday, "-q") == (1, "", "")

    def test_json(self, monday: Path, friday: Path, run_cli: RunCli) -> None:
        done = run_cli("lst", "diff", monday, friday, "--json")
        found = json.loads(done.out)
        assert done.code == 1
        assert found["counts"]["moved"] == 1
        assert found["removed"] == [{"line": 2, "id": 1, "label": "0", "path": "cat/2.jpg"}]
        assert found["added"] == [{"place": 5, "id": 9, "label": "2", "path": "new.jpg"}]
        assert found["reordered"] == [{"place": 1, "id": 4}]
        assert [each["new_path"] for each in found["changed"]] == ["pets/ねこ2.jpg", "cat/1.jpg"]
        summary = json.loads(run_cli("lst", "diff", monday, friday, "--json", "--summary").out)
        assert summary == {key: found[key] for key in summary}
        assert "changed" not in summary
        nothing = run_cli("lst", "diff", monday, monday, "--json")
        assert nothing.code == 0
        assert set(json.loads(nothing.out)["counts"].values()) == {0}

    def test_ids_and_order_may_be_ignored(
        self, monday: Path, tmp_path: Path, run_cli: RunCli
    ) -> None:
        other = tmp_path / "other.lst"
        lines = MONDAY.splitlines()
        other.write_text("".join(f"1{line}\n" for line in reversed(lines)), "utf-8")
        assert run_cli("lst", "diff", monday, other, "--ignore-ids", "--ignore-order").code == 0
        for option, letters in (("--ignore-ids", "^"), ("--ignore-order", "<>")):
            done = run_cli("lst", "diff", monday, other, option)
            rows = [line for line in done.out.splitlines() if not line.startswith("#")]
            assert (done.code, {line[0] for line in rows}) == (1, set(letters))

    def test_content_finds_what_was_moved_and_renumbered(
        self, tmp_path: Path, run_cli: RunCli
    ) -> None:
        root, later = tmp_path / "v1", tmp_path / "v2"
        names = image_folder(root, ("cat",), 3)
        old = tmp_path / "old.lst"
        old.write_text("".join(f"{i}\t0\t{name}\n" for i, name in enumerate(names)))
        (later / "pets").mkdir(parents=True)
        lines = []
        for number, name in enumerate(reversed(names)):
            data = (root / name).read_bytes() + str(name).encode()
            (root / name).write_bytes(data)
            (later / "pets" / f"{number}.jpg").write_bytes(data)
            lines.append(f"{number}\t0\tpets/{number}.jpg\n")
        new = tmp_path / "new.lst"
        new.write_text("".join(lines))
        options = ("--content", "--root", root, "--root", later)
        found = json.loads(run_cli("lst", "diff", old, new, "--json", *options).out)
        moved = {(each["path"], each["new_path"]) for each in found["changed"]}
        assert moved == {(name, f"pets/{2 - i}.jpg") for i, name in enumerate(map(str, names))}
        assert found["unread"] == 0
        elsewhere = run_cli("lst", "diff", old, new, "--content", "--root", tmp_path / "none")
        assert "unread      6 files" in elsewhere.out
        patch = tmp_path / "p"
        patch.write_text(run_cli("lst", "diff", old, new, *options).out)
        assert run_cli("lst", "patch", old, patch).code == 0
        assert old.read_text() == new.read_text()

    def test_names_that_differ_are_told(self, tmp_path: Path, run_cli: RunCli) -> None:
        for name, classes, label in (("a", "cat\ndog\n", 0), ("b", "cat\nwolf\nowl\n", 1)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "classes.txt").write_text(classes)
            (tmp_path / name / "x.lst").write_text(f"0\t0\tx\n1\t{label}\ty\n")
        a, b = tmp_path / "a" / "x.lst", tmp_path / "b" / "x.lst"
        done = run_cli("lst", "diff", a, b)
        assert done.code == 1
        assert "# " in done.out
        assert "1 is wolf now, was dog" in done.out
        assert "2 is owl now, had none" in done.out
        b.write_text(a.read_text())
        same = run_cli("lst", "diff", a, b)
        assert (same.code, same.out) == (0, "")
        assert "1 is wolf now, was dog" in same.err
        assert run_cli("lst", "diff", a, b, "--classes", tmp_path / "a/classes.txt").err == ""

    def test_wrong_use(self, monday: Path, tmp_path: Path, run_cli: RunCli) -> None:
        assert run_cli("lst", "diff", "-", "-").code == 2
        assert run_cli("lst", "diff", monday, monday, "--content").code == 2
        assert run_cli("lst", "diff", monday, monday, "--root", tmp_path).code == 2
        missing = run_cli("lst", "diff", monday, tmp_path / "no.lst")
        assert missing.code == 4
        assert "no.lst" in missing.err

    def test_a_name_never_becomes_a_line_of_the_patch(self, monday: Path, run_cli: RunCli) -> None:
        odd = monday.with_name("x\n-\t0\t0\tcat.lst")
        odd.write_text(FRIDAY, "utf-8")
        done = run_cli("lst", "diff", monday, odd)
        rows = [line for line in done.out.splitlines() if not line.startswith("#")]
        assert rows == ROWS

    @pytest.mark.parametrize("args", ["diff monday.lst friday.lst", "merge /dev/null {0} {0}"])
    def test_what_cannot_be_printed_is_no_difference(
        self, args: str, monday: Path, friday: Path, command: Path
    ) -> None:
        line = f"'{command}' lst {args.format('friday.lst')}"
        for target, code in (("> /dev/full", 5), ("| true; exit ${PIPESTATUS[0]}", None)):
            done = subprocess.run(
                ["bash", "-c", f"{line} {target}"],
                cwd=monday.parent,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == code or code is None
            assert "Traceback" not in done.stderr


class TestPatch:
    def test_gives_the_other_list_whatever_the_locale(
        self, monday: Path, friday: Path, command: Path
    ) -> None:
        pipe = f"'{command}' lst diff monday.lst friday.lst | '{command}' lst patch monday.lst -"
        done = subprocess.run(
            ["bash", "-c", pipe],
            cwd=monday.parent,
            env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"1 row added, 1 row removed, 2 rows changed, 1 row put elsewhere" in done.stdout
        assert monday.read_text("utf-8") == FRIDAY

    def test_writes_where_it_is_told(
        self, monday: Path, friday: Path, tmp_path: Path, run_cli: RunCli
    ) -> None:
        patch = tmp_path / "p"
        patch.write_text(run_cli("lst", "diff", monday, friday).out, "utf-8")
        assert run_cli("lst", "patch", monday, patch, "-o", "-", "-q") == (0, FRIDAY, "")
        dry = run_cli("lst", "patch", monday, patch, "--dry-run")
        assert "if it were written" in dry.out
        assert monday.read_text("utf-8") == MONDAY
        assert run_cli("lst", "patch", monday, patch, "-o", tmp_path / "new.lst", "-q").out == ""
        assert (tmp_path / "new.lst").read_text("utf-8") == FRIDAY
        report = json.loads(run_cli("lst", "patch", monday, patch, "--json").out)
        assert (report["rows"], report["changed"], report["written"]) == (5, 2, True)
        assert monday.read_text("utf-8") == FRIDAY
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            *("friday.lst", "monday.lst", "new.lst", "p")
        ]

    def test_a_patch_that_does_not_fit_changes_nothing(
        self, monday: Path, friday: Path, tmp_path: Path, run_cli: RunCli
    ) -> None:
        patch = tmp_path / "p"
        patch.write_text(run_cli("lst", "diff", monday, friday).out, "utf-8")
        again = run_cli("lst", "patch", friday, patch)
        assert again.code == 4
        assert "does not fit" in again.err
        assert friday.read_text("utf-8") == FRIDAY

    @pytest.mark.parametrize(
        "text",
        [
            b"\xff\xfe",
            b"\x00",
            b"-\t0\t0\tcat/1.jpg\x00",
            b"+\t1\t9\t0\t1\tx\n",
            b"+\t1\t7\t0\ta\rb\n",
            b"".join(
                b"-\t%d\t%d\t%b\n" % each
                for each in (
                    (0, 0, b"cat/1.jpg"),
                    (1, 0, b"cat/2.jpg"),
                    (2, 1, b"dog/3.jpg"),
                    (3, 1, b"dog/4.jpg"),
                    (4, 2, "pets/ねこ.jpg".encode()),
                )
            ),
        ],
    )
    def test_no_patch_makes_what_is_no_list(
        self, text: bytes, monday: Path, tmp_path: Path, run_cli: RunCli
    ) -> None:
        patch = tmp_path / "p"
        patch.write_bytes(text)
        assert run_cli("lst", "patch", monday, patch).code in (4, 5)
        assert monday.read_text("utf-8") == MONDAY

    def test_wrong_use(self, monday: Path, tmp_path: Path, run_cli: RunCli) -> None:
        assert run_cli("lst", "patch", "-", "-").code == 2
        assert run_cli("lst", "patch", monday, tmp_path / "none").code == 4
