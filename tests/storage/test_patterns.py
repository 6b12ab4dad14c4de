"""What a pattern means on S3 is what it means on a disk."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dsprep.storage.objects import matches

NAMES = ("a", "b.tar", "ab-0.tar", ".a", "a[0]", "b0", "-", "!b")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files at three depths, in directories hidden or not."""
    root = tmp_path_factory.mktemp("tree")
    for path in (*NAMES, *(f"d{name}/{name}" for name in NAMES), *(f"{n}d/x/{n}" for n in NAMES)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


MARKS = st.sampled_from(["*", "?", "[ab]", "[!a]", "[0-9]", "[[]", "[]a]", "[", "]", *"ab0-./xd"])
NAME = st.lists(MARKS, min_size=1, max_size=4).map("".join)


@given(st.lists(st.just("**") | NAME, min_size=1, max_size=3), NAME)
def test_as_on_a_disk(tree: Path, directories: list[str], name: str) -> None:
    pattern = "/".join((*directories, name))
    # No key means these as paths do; and "/**" would walk through this whole machine, and /proc.
    assume(not {"", ".", ".."}.intersection(pattern.split("/")))
    found = glob.glob(pattern, root_dir=tree, recursive=True)
    files = {each for each in found if (tree / each).is_file() and not each.endswith("/")}
    paths = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    assert {path for path in paths if matches(path, pattern)} == files


@pytest.mark.parametrize("pattern", ["[]", "[!]", "a[", "[]a", "[!]a"])
def test_a_set_of_nothing_is_no_set(pattern: str) -> None:
    assert matches(pattern, pattern)
