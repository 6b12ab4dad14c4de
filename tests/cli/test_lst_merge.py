"""`dsprep lst merge`, from the command line and by the real git."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished

RunCli = Callable[..., Finished]


@pytest.fixture
def run_cli(run_here: RunCli) -> RunCli:
    """The command in this process: how it starts and ends is not what these tests are about."""
    return run_here


BASE = "".join(f"{i}\t{i % 3}\timages/{i}.jpg\n" for i in range(12))
"""Short enough for git's own merge to fail on neighbors."""


def edit(*changes: tuple[str, str]) -> str:
    """BASE with texts replaced."""
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


OURS = edit(("4\t1\timages/4", "4\t2\timages/4")) + "12\t0\tours.jpg\n"
THEIRS = (
    edit(("5\t2\timages/5.jpg\n", ""), ("4\t1\timages/4", "4\t1\tmoved/4")) + "12\t1\ttheirs.jpg\n"
)
MERGED = (
    edit(("4\t1\timages/4", "4\t2\tmoved/4"), ("5\t2\timages/5.jpg\n", ""))
    + "12\t0\tours.jpg\n13\t1\ttheirs.jpg\n"
)
CONTRADICTING = edit(("4\t1\timages/4", "4\t0\timages/4"))
CONFLICT = "<<<<<<< ours\n4\t2\timages/4.jpg\n=======\n4\t0\timages/4.jpg\n>>>>>>> theirs\n"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A directory of lists."""
    texts = {"base": BASE, "ours": OURS, "theirs": THEIRS, "contradicting": CONTRADICTING}
    for name, text in texts.items():
        (tmp_path / f"{name}.lst").write_text(text)
    return tmp_path


def merge(run_here: RunCli, lists: Path, theirs: str, *options: object) -> Finished:
    return run_here("lst", "merge", "base.lst", "ours.lst", f"{theirs}.lst", *options, cwd=lists)


class TestMerge:
    def test_keeps_what_both_did(self, lists: Path, run_cli: RunCli) -> None:
        done = merge(run_cli, lists, "theirs")
        assert (done.code, done.out) == (0, MERGED)
        assert "theirs.jpg (12 to 13)" in done.err
        assert merge(run_cli, lists, "theirs", "-q") == (0, MERGED, "")

    def test_may_write_over_a_side(self, lists: Path, run_cli: RunCli) -> None:
        done = merge(run_cli, lists, "theirs", "-o", "ours.lst")
        assert (done.code, done.err) == (0, "")
        assert "ours.lst: 13 rows" in done.out
        assert (lists / "ours.lst").read_text() == MERGED

    def test_conflicts_are_listed_with_both_sides_and_stand_in_the_list(
        self, lists: Path, run_cli: RunCli
    ) -> None:
        done = merge(run_cli, lists, "contradicting", "-o", "out.lst", "-q")
        assert (done.code, done.out) == (1, "")
        assert done.err.splitlines() == [
            "conflict: the sides disagree about the label",
            "  base    4  1  images/4.jpg",
            "  ours    4  2  images/4.jpg",
            "  theirs  4  0  images/4.jpg",
        ]
        text = (lists / "out.lst").read_text()
        assert text == OURS.replace("4\t2\timages/4.jpg\n", CONFLICT)
        refused = run_cli("lst", "stats", lists / "out.lst")
        assert refused.code == 4
        assert "out.lst:5: an undecided merge conflict" in refused.err

    @pytest.mark.parametrize(("side", "label"), [("ours", 2), ("theirs", 0)])
    def test_a_side_may_decide(self, side: str, label: int, lists: Path, run_cli: RunCli) -> None:
        done = merge(run_cli, lists, "contradicting", f"--{side}")
        assert done.code == 0
        assert done.out == OURS.replace("4\t2\timages/4", f"4\t{label}\timages/4")
        assert f"1 conflict, by {side}" in done.err

    def test_json(self, lists: Path, run_cli: RunCli) -> None:
        done = merge(run_cli, lists, "contradicting", "-o", "out.lst", "--json")
        report = json.loads(done.out)
        assert (done.code, done.err) == (1, "")
        assert report["conflicts"][0]["theirs"] == [4, "0", "images/4.jpg"]
        assert (report["decided"], report["rows"]) == (None, 12)

    def test_a_side_may_come_from_stdin_and_the_base_be_none(
        self, lists: Path, command: Path
    ) -> None:
        pipe = f"'{command}' lst merge /dev/null - theirs.lst -q --ours < theirs.lst"
        done = subprocess.run(["bash", "-c", pipe], cwd=lists, capture_output=True, check=False)
        assert (done.returncode, done.stdout.decode()) == (0, THEIRS)
        pipe = f"'{command}' lst merge <(cat base.lst) ours.lst theirs.lst -q"
        done = subprocess.run(["bash", "-c", pipe], cwd=lists, capture_output=True, check=False)
        assert (done.returncode, done.stdout.decode()) == (0, MERGED)

    def test_numbers_that_mean_different_classes_are_not_merged(
        self, lists: Path, run_cli: RunCli
    ) -> None:
        (lists / "classes.txt").write_text("cat\ndog\nowl\n")
        other = lists / "other"
        other.mkdir()
        (other / "x.lst").write_text(THEIRS)
        (other / "classes.txt").write_text("ant\ncat\ndog\n")
        done = merge(run_cli, lists, "other/x", "-o", "out.lst")
        assert done.code == 4
        assert "its class 0 is 'ant', which is 'cat' to ours.lst" in done.err
        assert not (lists / "out.lst").exists()
        assert merge(run_cli, lists, "other/x", "--classes", "classes.txt").code == 0
        (other / "classes.txt").write_text("cat\ndog\nowl\nfox\n")
        assert "only theirs names fox" in merge(run_cli, lists, "other/x").err

    def test_wrong_use(self, lists: Path, run_cli: RunCli) -> None:
        assert merge(run_cli, lists, "theirs", "--ours", "--theirs").code == 2
        assert run_cli("lst", "merge", "-", "-", lists / "base.lst").code == 2
        assert merge(run_cli, lists, "none").code == 4

    def test_what_would_be_no_list_is_not_written(self, lists: Path, run_cli: RunCli) -> None:
        (lists / "wide.lst").write_text(BASE.replace("\timages", "\t1\timages"))
        assert merge(run_cli, lists, "wide", "-o", "out.lst").code == 4
        head = BASE.splitlines(keepends=True)
        (lists / "ours.lst").write_text("".join(head[:6]))
        (lists / "rest.lst").write_text("".join(head[6:]))
        empty = merge(run_cli, lists, "rest", "-o", "out.lst")
        assert empty.code == 4
        assert "no row would be left" in empty.err
        assert not (lists / "out.lst").exists()


class Repository:
    """A git repository whose lists are merged by dsprep."""

    def __init__(self, root: Path, command: Path) -> None:
        self.root = root
        self.lst = root / "train.lst"
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(root),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.git("init", "-q", "-b", "main")
        for name, value in (
            ("user.name", "A"),
            ("user.email", "a@example.com"),
            ("merge.lst.name", "merge lists row by row"),
            ("merge.lst.driver", "dsprep lst merge %O %A %B -o %A"),
        ):
            self.git("config", name, value)
        (root / ".gitattributes").write_text("*.lst merge=lst\n")
        self.commit(BASE)

    def git(self, *args: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["git", *args],
            cwd=self.root,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done

    def commit(self, text: str) -> None:
        self.lst.write_text(text)
        self.git("add", ".gitattributes", "train.lst")
        assert self.git("commit", "-q", "-m", "edit").returncode == 0

    def branch(self, ours: str, theirs: str) -> None:
        """Let `main` and `other` have one edit each; `main` is checked out."""
        self.git("checkout", "-q", "-b", "other")
        self.commit(theirs)
        self.git("checkout", "-q", "main")
        self.commit(ours)


@pytest.fixture
def repository(tmp_path: Path, command: Path) -> Repository:
    return Repository(tmp_path, command)


class TestGit:
    def test_merges_what_git_alone_would_not(self, repository: Repository) -> None:
        repository.branch(OURS, THEIRS)
        done = repository.git("merge", "-q", "--no-edit", "other")
        assert done.returncode == 0, done.stdout + done.stderr
        assert repository.lst.read_text() == MERGED
        assert repository.git("status", "--porcelain").stdout == ""
        (repository.root / ".gitattributes").write_text("")
        repository.git("commit", "-q", "-a", "-m", "without dsprep")
        repository.git("reset", "-q", "--hard", "HEAD~2")
        (repository.root / ".git" / "info" / "attributes").write_text("*.lst merge=text\n")
        assert repository.git("merge", "-q", "--no-edit", "other").returncode == 1

    def test_rebases(self, repository: Repository) -> None:
        repository.branch(OURS, THEIRS)
        repository.git("checkout", "-q", "other")
        done = repository.git("rebase", "-q", "main")
        assert done.returncode == 0, done.stdout + done.stderr
        assert repository.lst.read_text() == MERGED

    def test_a_conflict_waits_to_be_decided(self, repository: Repository) -> None:
        repository.branch(OURS, CONTRADICTING)
        done = repository.git("merge", "-q", "--no-edit", "other")
        assert done.returncode == 1
        assert "conflict: the sides disagree about the label" in done.stderr
        assert repository.git("status", "--porcelain").stdout.split() == ["UU", "train.lst"]
        text = repository.lst.read_text()
        assert text == OURS.replace("4\t2\timages/4.jpg\n", CONFLICT)
        repository.commit(text.replace(CONFLICT, "4\t0\timages/4.jpg\n"))
        assert repository.git("status", "--porcelain").stdout == ""

    def test_two_that_add_the_same_list(self, repository: Repository) -> None:
        repository.git("rm", "-q", "train.lst")
        repository.git("commit", "-q", "-m", "without")
        added = BASE + "12\t0\tours.jpg\n"
        repository.branch(added, BASE)
        done = repository.git("merge", "-q", "--no-edit", "other")
        assert done.returncode == 0, done.stdout + done.stderr
        assert repository.lst.read_text() == added

    def test_a_broken_list_is_a_conflict_and_ours_stays(self, repository: Repository) -> None:
        broken = BASE + "no line of a list\n"
        repository.branch(OURS, broken)
        done = repository.git("merge", "-q", "--no-edit", "other")
        assert done.returncode == 1
        assert "fewer than 3 columns" in done.stderr
        assert repository.lst.read_text() == OURS
