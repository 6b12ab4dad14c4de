"""The scan of a directory: what it finds, what it says of the rest, and what it survives."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places import scan as scan_module
from dsprep.places.scan import DirectoryToScan, Scanned, scan_below, scan_directories

EXTENSIONS = frozenset({"jpg", "png"})


def fill(root: Path, *names: str | bytes) -> None:
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(b"bytes")


def paths(results: list[Scanned]) -> list[str]:
    return sorted(path for found in results if found.sizes for path in found.paths.split("\0"))


def findings(results: list[Scanned]) -> list[Finding]:
    return sorted(finding for found in results for finding in found.findings)


def look(root: Path, **options: Any) -> tuple[list[str], list[Finding]]:
    results = list(scan_below(str(root), EXTENSIONS, **options))
    return paths(results), findings(results)


def test_images_are_found_at_all_depths(tmp_path: Path) -> None:
    fill(tmp_path, "a.jpg", "b/c.PNG", "b/d/e.Jpg", "f g/ü 猫.jpg", "b.jpg/h.png")
    expected = ["a.jpg", "b.jpg/h.png", "b/c.PNG", "b/d/e.Jpg", "f g/ü 猫.jpg"]
    assert look(tmp_path) == (expected, [])


def test_sizes_and_times(tmp_path: Path) -> None:
    fill(tmp_path, "a/empty.jpg", "a/full.jpg")
    (tmp_path / "a/empty.jpg").write_bytes(b"")
    os.utime(tmp_path / "a/full.jpg", ns=(1, 1_700_000_000_123_456_789))
    found = scan_directories((str(tmp_path), [DirectoryToScan("a")], EXTENSIONS))
    facts = dict(
        zip(found.paths.split("\0"), zip(found.sizes, found.mtimes, strict=True), strict=True)
    )
    assert facts["a/empty.jpg"][0] == 0
    assert facts["a/full.jpg"] == (5, 1_700_000_000_123_456_789)


def test_hidden_files_and_directories_are_passed_by(tmp_path: Path) -> None:
    fill(
        tmp_path,
        *(".a.jpg", ".git/b.jpg", "c/.ipynb_checkpoints/d.jpg", "__MACOSX/c/._e.jpg"),
        *("Thumbs.db", "c/desktop.ini", "c/f.jpg"),
    )
    found, said = look(tmp_path)
    assert found == ["c/f.jpg"]
    assert {finding.kind for finding in said} == {"hidden"}
    assert [finding.path for finding in said] == [
        ".a.jpg",
        ".git/",
        "Thumbs.db",
        "__MACOSX/",
        "c/.ipynb_checkpoints/",
        "c/desktop.ini",
    ]


def test_other_files_are_said(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "jpg", "b/c.jpg.bak", "b/noextension", "b/c.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    assert look(tmp_path) == (
        ["b/c.jpg"],
        [
            Finding("not-an-image", "a.txt"),
            Finding("not-an-image", "b/c.jpg.bak"),
            Finding("not-an-image", "b/noextension"),
            Finding("not-an-image", "jpg"),
            Finding("not-an-image", "pipe.jpg", "not a regular file"),
        ],
    )


def test_names_that_are_not_utf8_are_said_in_print(tmp_path: Path) -> None:
    fill(tmp_path, b"caf\xe9.jpg", b"\xff/a.jpg", b"\xff/b.txt", b"\xff/.c", "café.jpg")
    reason = "the name is not UTF-8"
    assert look(tmp_path) == (
        ["café.jpg"],
        [
            Finding("bad-name", "\\xff/a.jpg", reason),
            Finding("bad-name", "caf\\xe9.jpg", reason),
            Finding("hidden", "\\xff/.c"),
            Finding("not-an-image", "\\xff/b.txt"),
        ],
    )


# Links


def test_links_are_followed(tmp_path: Path) -> None:
    fill(tmp_path, "else/a.jpg", "else/deep/b.jpg", "root/c.jpg")
    (tmp_path / "root/dog").symlink_to(tmp_path / "else")
    (tmp_path / "root/d.jpg").symlink_to("../else/a.jpg")
    assert look(tmp_path / "root") == (["c.jpg", "d.jpg", "dog/a.jpg", "dog/deep/b.jpg"], [])


def test_two_links_to_one_directory_are_two_directories(tmp_path: Path) -> None:
    fill(tmp_path, "a/x.jpg")
    (tmp_path / "b").symlink_to("a")
    assert look(tmp_path) == (["a/x.jpg", "b/x.jpg"], [])


def test_broken_links_are_said(tmp_path: Path) -> None:
    fill(tmp_path, "b.jpg")
    (tmp_path / "a.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "self.png").symlink_to("self.png")
    (tmp_path / "dir").symlink_to("nowhere")
    found, said = look(tmp_path)
    assert found == ["b.jpg"]
    assert [finding[:2] for finding in said] == [
        ("missing", "a.jpg"),
        ("missing", "self.png"),
        ("not-an-image", "dir"),
    ]
    assert all(finding.detail.startswith("a broken link: ") for finding in said)


def test_loops_end(tmp_path: Path) -> None:
    fill(tmp_path, "a/x.jpg", "b/y.jpg")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/other").symlink_to("../b")
    (tmp_path / "b/other").symlink_to("../a")
    found, said = look(tmp_path)
    assert found == [*("a/other/y.jpg", "a/x.jpg"), *("b/other/x.jpg", "b/y.jpg")]
    assert {finding.kind for finding in said} == {"loop"}
    assert "a/up/" in [finding.path for finding in said]


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    fill(tmp_path, "real/a.jpg")
    (tmp_path / "link").symlink_to("real")
    assert look(tmp_path / "link") == (["a.jpg"], [])


# What cannot be read


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    fill(tmp_path, "file.jpg")
    with pytest.raises(SourceError, match="nowhere: cannot be read as a directory: No such"):
        look(tmp_path / "nowhere")
    with pytest.raises(SourceError, match=r"file.jpg: cannot be read as a directory: Not a dir"):
        look(tmp_path / "file.jpg")


def test_a_directory_that_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not with chmod: root may read everything, and the tests may run as root.
    fill(tmp_path, "a/b.jpg")
    real = os.open

    def locked(path: Any, *args: Any, **options: Any) -> int:
        if str(path) == str(tmp_path / "a"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", locked)
    with pytest.raises(SourceError, match="a: cannot be read as a directory: Permission"):
        look(tmp_path)


def test_directories_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links between siblings are no loop, but there are more ways through them than atoms."""
    names = "abcdefghijklmnop"
    for name in names:
        (tmp_path / name).mkdir()
        for other in names.replace(name, ""):
            (tmp_path / name / other).symlink_to(f"../{other}")
    monkeypatch.setattr(scan_module, "_MOST_DIRECTORIES", 1000)
    with pytest.raises(SourceError, match="more than 1,000 directories"):
        look(tmp_path)


@pytest.fixture
def stat_fails(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, OSError], None]:
    real = os.stat

    def fail(name: str, error: OSError) -> None:
        def stat(path: Any, **options: Any) -> os.stat_result:
            if path == name:
                raise error
            return real(path, **options)

        monkeypatch.setattr(os, "stat", stat)

    return fail


def test_a_file_that_vanishes_during_the_scan(
    tmp_path: Path, stat_fails: Callable[[str, OSError], None]
) -> None:
    fill(tmp_path, "a.jpg", "b.jpg")
    stat_fails("a.jpg", FileNotFoundError(2, "No such file or directory"))
    expected = Finding("missing", "a.jpg", "it vanished during the scan")
    assert look(tmp_path) == (["b.jpg"], [expected])


def test_a_disk_that_fails(tmp_path: Path, stat_fails: Callable[[str, OSError], None]) -> None:
    fill(tmp_path, "a.jpg", "b.jpg")
    stat_fails("a.jpg", OSError(5, "Input/output error"))
    with pytest.raises(SourceError, match="cannot be read as a directory: Input/output error"):
        look(tmp_path)


# Many directories


def test_only_some_directories(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/1.jpg", "a/2.jpg", "a/c/3.jpg", "d/4.jpg", "5.jpg")
    assert look(tmp_path, only={"", "a", "a/b"})[0] == ["5.jpg", "a/2.jpg", "a/b/1.jpg"]


def test_other_processes_find_the_same_in_few_calls(tmp_path: Path) -> None:
    fill(tmp_path, *(f"{a:02d}/{b:02d}/x.jpg" for a in range(40) for b in range(50)))
    calls = 0

    def in_another_process(function: Callable[..., Any], arguments: list[Any]) -> Iterator[Any]:
        nonlocal calls
        for argument in arguments:
            calls += 1
            task = pickle.loads(pickle.dumps((function, argument)))
            yield pickle.loads(pickle.dumps(task[0](task[1])))

    assert look(tmp_path, run_all=in_another_process) == look(tmp_path)
    assert len(look(tmp_path)[0]) == 2000
    assert calls < 300
