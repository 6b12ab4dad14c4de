"""A path that does not exist, cannot be read or is of the wrong kind is named as what it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from tests.conftest import Finished
from tests.images import image_folder
from tests.limits import bound_to_permissions

Run = Callable[..., Finished]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, and shards of them with a manifest and without."""
    root = tmp_path_factory.mktemp("made")
    image_folder(root / "images", ("a", "b"), per_class=2)
    dsprep.pack(root / "images", root / "set", format="webdataset", workers=1)
    (root / "file").write_text("text")
    (root / "empty").mkdir()
    (root / "empty.tar").mkdir()
    return root


@pytest.mark.parametrize("path", ["nowhere", "nowhere.tar", "images/nowhere/x"])
@pytest.mark.parametrize(
    "words",
    [
        ("pack", "{path}", "{out}", "--format", "webdataset"),
        ("convert", "{path}", "{out}", "--to", "tfrecord"),
        ("shard", "{path}", "{out}", "--shards", "2"),
        ("shard", "append", "{path}", "{set}"),
        ("shard", "append", "{images}", "{path}"),
        ("shard", "index", "{path}"),
        ("verify", "{path}"),
        ("verify", "{set}", "--against", "{path}"),
        ("split", "{path}", "-o", "{out}"),
        ("lst", "create", "{path}", "-o", "{out}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_nothing_is_there(
    run_here: Run, made: Path, tmp_path: Path, words: tuple[str, ...], path: str
) -> None:
    names = {"path": made / path, "out": tmp_path / "out", "set": made / "set"}
    words = tuple(word.format(**names, images=made / "images") for word in words)
    done = run_here(*words, "-j1")
    assert done.code == (5 if words[-1] == str(made / path) and words[1] == "append" else 4)
    assert f"{made / path}: does not exist; " in done.err


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("file", "file: is a file; name the directory of a data set"),
        ("set/train-000000.tar", "train-000000.tar: is a file; name the directory"),
        ("empty", "empty: holds no manifest.json"),
    ],
)
def test_no_data_set_to_append_to(run_here: Run, made: Path, path: str, said: str) -> None:
    done = run_here("shard", "append", made / "images", made / path)
    assert (done.code, said in done.err) == (5, True)


@pytest.fixture
def closed(made: Path, tmp_path: Path) -> Path:
    """A copy, in which nobody may read a shard, the classes, and a directory."""
    root = tmp_path / "made"
    shutil.copytree(made, root)
    shutil.copy(root / "set" / "train-000000.tar", root / "alone.tar")
    for path in ("set/train-000000.tar", "set/classes.txt", "alone.tar", "empty"):
        (root / path).chmod(0)
    return root


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("verify", "set"), 3, {"train-000000.tar: cannot be read", "classes.txt: cannot be read"}),
        (("verify", "alone.tar"), 3, {"alone.tar: cannot be read (Permission denied)"}),
        (("shard", "empty", "out", "--shards", "2"), 4, {"empty: cannot be read (Permission"}),
        (("shard", "append", "images", "empty"), 5, {"empty: cannot be read: permission denied"}),
        (("shard", "index", "alone.tar"), 3, {"alone.tar: cannot be read (Permission denied)"}),
    ],
    ids=lambda words: "-".join(words[:2]) if isinstance(words, tuple) else None,
)
def test_what_nobody_may_read(
    run_cli: Run, closed: Path, words: tuple[str, ...], code: int, said: set[str]
) -> None:
    done = run_cli(*words, "-j1", cwd=closed, under=bound_to_permissions())
    lines = {line.strip().removeprefix("dsprep: ") for line in (done.out + done.err).splitlines()}
    assert done.code == code
    for start in said:
        assert any(line.startswith(start) for line in lines), lines
    assert "bytes, not" not in done.out  # it has not been looked at
