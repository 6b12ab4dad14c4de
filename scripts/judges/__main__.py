"""Let MosaicML Streaming, Energon and litdata judge what dsprep writes, and dsprep read theirs.

python -m scripts.judges [--python .cache/judges/bin/python] [--keep DIR]

Data sets are packed from drawn images in each way that MDS is written: plain, with sides,
compressed, with other fields. `StreamingDataset` reads them shuffled, with two workers, and each
sample must have the pixels and values of its source. Data sets that `MDSWriter` writes must be
those in tests/formats/mds, byte for byte, which `make test` reads.

`energon lint` and Energon's loader read the shards that `dsprep shard index --energon` has indexed.
What `energon prepare` writes beside the shards in tests/formats/energon must be what lies there,
which `make test` compares with dsprep's.

What litdata writes must be that in tests/formats/litdata, but for the time of day. dsprep
reads from them what `StreamingDataset` of litdata reads, which also reads MDS of dsprep that is
compressed with zstd. It exits with 1 if a judge disagrees.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

import dsprep
from scripts.judges import beside_litdata
from tests.images import jpeg, png

_MOSAIC = Path(__file__).with_name("mosaic.py")
_ENERGON = Path(__file__).with_name("energon.py")
_LOOP = Path("examples/loops/mds_loop.py")
_GOLDEN, _PREPARED = Path("tests/formats/mds"), Path("tests/formats/energon")
_CLASSES = ("cat", "dog")
_FIELDS = {"caption": "ein Bild", "size": 7, "share": 0.1, "is_day": True, "tags": ["a", "b"]}


def main() -> int:
    """Run the judges; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=".cache/judges/bin/python")
    parser.add_argument("--keep", help="write the data sets to this directory, and keep them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(options.keep or scratch)
        problems = [*_read_by_mosaic(options.python, root), *_written_by_mosaic(options, root)]
        problems += [*_read_by_energon(options.python, root), *_prepared(options.python, root)]
        problems += beside_litdata.differences(options.python, root)
    for problem in problems:
        print(problem)
    print("judges: no problems" if not problems else f"judges: {len(problems)} problems")
    return int(bool(problems))


def _read_by_mosaic(python: str, root: Path) -> Iterator[str]:
    photos = _photos(root / "photos")
    sides = {side: _photos(root / "divided" / side, side) for side in ("train", "val")}
    ways: dict[str, dict[str, Any]] = {
        "plain": {},
        "zstd": {"compression": "zstd"},
        "gzip": {"compression": "gzip"},
    }
    for name, how in ways.items():
        dsprep.pack(root / "photos", root / name, to="mds", target_size=20_000, **how)
        yield from _uncounted(python, root / name, len(photos))
        yield from _differences(name, _read(python, root / name), photos)
    yield from _loop(python, root / "plain")
    dsprep.pack(root / "divided", root / "sides", to="mds", target_size=20_000)
    for side, expected in sides.items():
        yield from _differences(side, _read(python, root / "sides", side), expected)
    rows = [{"file_name": path, **_FIELDS} for path in photos]
    (root / "photos" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dsprep.pack(root / "photos", root / "fields", to="mds")
    told = {name: value for name, value in _FIELDS.items() if name != "is_day"} | {"is_day": 1}
    expected = {path: {"image": values["image"], **told} for path, values in photos.items()}
    yield from _differences("fields", _read(python, root / "fields"), expected)


def _uncounted(python: str, directory: Path, samples: int) -> Iterator[str]:
    """Read each shard as `verify --loader streaming` does."""
    words = [python, str(_MOSAIC), "count", *map(str, sorted(directory.glob("*.mds*")))]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    counts = json.loads(done.stdout)
    if not all(isinstance(count, int) for count in counts) or sum(counts) != samples:
        yield f"{directory.name}: verify --loader streaming reads {counts}, not {samples} samples"


def _photos(folder: Path, prefix: str = "") -> dict[str, dict[str, Any]]:
    """Draw images in a directory for each class; return what a loader must find, by path."""
    found = {}
    for number in range(24):
        cls = number % len(_CLASSES)
        kind, drawn = ("png", png) if number % 5 == 0 else ("jpg", jpeg)
        path = f"{_CLASSES[cls]}/{prefix}{number:03d}.{kind}"
        data = drawn(seed=number, size=(20 + number, 30))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        found[path] = {"image": _pixels(data), "label": cls}
    return found


def _pixels(data: bytes) -> list[Any]:
    with Image.open(io.BytesIO(data)) as image:
        return [image.mode, *image.size, hashlib.sha256(image.tobytes()).hexdigest()]


def _read(
    python: str, directory: Path, split: str = "", judge: Path = _MOSAIC
) -> list[dict[str, Any]]:
    words = [python, str(judge), "read", str(directory), *filter(None, [split])]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _loop(python: str, directory: Path) -> Iterator[str]:
    """Run the loop that ``dsprep bench`` measures; it must yield batches of the asked size."""
    shards = [*map(str, sorted(directory.glob("*.mds")))]
    how = json.dumps({"batch": 4, "shuffle": 8, "steps": 8, "image": ["image"]})
    words = [python, str(_MOSAIC), "loop", str(_LOOP), *shards]
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, timeout=300, env={"LOOP_OPTIONS": how}
    )
    steps = [json.loads(line).get("images") for line in done.stdout.splitlines()[1:]]
    if steps != [4] * 8:
        yield f"{_LOOP}: has batches of {steps}"


def _differences(
    name: str, found: list[dict[str, Any]], expected: dict[str, dict[str, Any]]
) -> Iterator[str]:
    by_key = {each["__key__"].rpartition("/")[2]: each for each in found}
    if len(found) != len(expected):
        yield f"{name}: {len(found)} samples of {len(expected)}"
    for path, values in expected.items():
        sample = by_key.get(Path(path).stem, {})
        yield from (
            f"{name}: {path}: {field} is {sample.get(field)!r:.200}, not {value!r:.200}"
            for field, value in values.items()
            if sample.get(field) != value
        )


def _written_by_mosaic(options: argparse.Namespace, root: Path) -> Iterator[str]:
    written = root / "written"
    words = [options.python, str(_MOSAIC), "write", str(written)]
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    names = {path.relative_to(each) for each in (written, _GOLDEN) for path in each.rglob("*.*")}
    for name in sorted(name for name in names if "." in name.name):
        one, other = written / name, _GOLDEN / name
        is_stamped = name.suffix == ".gz"  # the time of day is in its head
        if not (one.is_file() and other.is_file()):
            yield f"{name}: is not in both {written} and {_GOLDEN}"
        elif not is_stamped and one.read_bytes() != other.read_bytes():
            yield f"{name}: is not as in {_GOLDEN}"


def _read_by_energon(python: str, root: Path) -> Iterator[str]:
    """Let Energon read sides, also those whose names it knows only as dsprep has renamed them."""
    for year in ("", "2017"):
        folder, place = root / f"for-energon{year}", root / f"energon{year}"
        sides = {side: _photos(folder / f"{side}{year}", side) for side in ("train", "val")}
        dsprep.pack(folder, place, to="webdataset", target_size=30_000)
        dsprep.index(place, energon=True)
        for side, expected in sides.items():
            found = _read(python, place, side, _ENERGON)
            yield from _differences(f"energon {side}{year}", found, expected)
        words = [python, str(_ENERGON), "lint", str(place)]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
        if done.returncode:
            yield f"energon lint {place.name}: {done.stderr[-500:]}"


def _prepared(python: str, root: Path) -> Iterator[str]:
    """Compare the files of `energon prepare` with those that `make test` reads."""
    place = root / "prepared"
    shutil.copytree(_PREPARED, place)
    for path in [*place.rglob("*.idx"), *place.rglob(".nv-meta")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    words = [python, str(_ENERGON), "prepare", str(place)]
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    for path in sorted(path for path in _PREPARED.rglob("*.*") if path.is_file()):
        made = place / path.relative_to(_PREPARED)
        if not made.is_file() or made.read_bytes() != path.read_bytes():
            yield f"{path}: is not what `energon prepare` writes"


if __name__ == "__main__":
    sys.exit(main())
