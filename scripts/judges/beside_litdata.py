"""Let litdata judge: dsprep reads what it writes as it does, and it reads the MDS that it can."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

import dsprep

_LIGHTNING = Path(__file__).with_name("lightning.py")
_LOOP = Path("examples/loops/litdata_loop.py")
_GOLDEN = Path("tests/formats/litdata")
_REFUSED = ("pickled", "tokens")
_PNG = b"\x89PNG"


def differences(python: str, root: Path) -> Iterator[str]:
    """Say how dsprep and litdata differ, and how the data sets of the tests differ from new ones.

    Args:
        python: The Python of an environment that has litdata.
        root: The directory to write to.
    """
    written = root / "litdata"
    _run(python, "write", written)
    for name in sorted({path.parent.relative_to(written) for path in written.rglob("index.json")}):
        for path in sorted({*_files(written / name), *_files(_GOLDEN / name)}):
            one, other = (_content(place / name / path) for place in (written, _GOLDEN))
            if one != other:
                yield f"{name}/{path}: is not in {_GOLDEN} as litdata writes it"
        if str(name) in _REFUSED:
            continue
        out = root / "rows" / name
        dsprep.convert(written / name, out, to="parquet")
        theirs = json.loads(_run(python, "read", written / name))
        yield from _different(str(name), [*_rows(out)], theirs)
    fields = {"caption": "ein Bild", "size": 7}
    photos = root / "photos-of-litdata"
    photos.mkdir()
    for number in range(8):
        data = io.BytesIO()
        Image.new("RGB", (20 + number, 10), (30 * number, 200, 0)).save(data, "JPEG")
        (photos / f"{number}.jpg").write_bytes(data.getvalue())
    lines = [json.dumps({"file_name": f"{number}.jpg", **fields}) for number in range(8)]
    (photos / "metadata.jsonl").write_text("\n".join(lines))
    dsprep.pack(photos, root / "mds-of-litdata", to="mds", compression="zstd", target_size=5000)
    theirs = json.loads(_run(python, "read", root / "mds-of-litdata"))
    expected = [
        {"__key__": str(number), "image": (photos / f"{number}.jpg").read_bytes().hex(), **fields}
        for number in range(8)
    ]
    yield from _different("mds", expected, sorted(theirs, key=lambda each: each["__key__"]))
    chunks = {name: written / name for name in ("batch", "chunk", "pairs", "rows")}
    dsprep.pack(photos, root / "mds-of-loop", to="mds", compression="zstd", target_size=5000)
    for place in (*chunks.values(), root / "mds-of-loop"):
        for work in ("bytes", "train"):
            yield from _loop(python, place, "0" if place.name == "pairs" else "image", work)


def _loop(python: str, place: Path, image: str, work: str) -> Iterator[str]:
    """Run the loop that ``dsprep bench`` measures: it takes its steps, and changes no file."""
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    shards = sorted(str(path) for path in place.iterdir() if path.suffix != ".json")
    how = json.dumps({"work": work, "batch": 2, "shuffle": 8, "steps": 8, "image": [image]})
    done = subprocess.run(
        [python, str(_LOOP), *shards],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={"LOOP_OPTIONS": how, "LITDATA_DISABLE_VERSION_CHECK": "1"},
    )
    steps = sum("seconds" in line for line in done.stdout.splitlines())
    if steps != 8:
        yield f"{_LOOP}: {place.name}: {work}: takes {steps} steps of 8: {done.stderr[-300:]}"
    if before != {path.name: path.read_bytes() for path in place.iterdir()}:
        yield f"{_LOOP}: {place.name}: has changed files"


def _run(python: str, verb: str, directory: Path) -> str:
    words = [python, str(_LIGHTNING), verb, str(directory)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=600)
    return done.stdout.splitlines()[-1] if done.stdout else ""


def _files(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("*.*") if path.is_file()]


def _content(path: Path) -> Any:
    """Return what is in a file; of an index, without the time of day."""
    if not path.is_file():
        return None
    if path.name != "index.json":
        return path.read_bytes()
    return json.loads(path.read_text()) | {"updated_at": None}


def _rows(directory: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            yield {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        value = value.get("bytes", value)  # an image of Hugging Face
    if isinstance(value, bytes) and value.startswith(_PNG):
        with Image.open(io.BytesIO(value)) as image:
            return [image.mode, *image.size, hashlib.sha256(image.tobytes()).hexdigest()]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.loads(value)
    return value.hex() if isinstance(value, bytes) else value


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return the leaves of a sample by their keys, as dsprep names them."""
    if isinstance(value, list) and not path:  # a tuple, whose first value is the image
        value = {"image": value[0]} | dict(list(enumerate(value))[1:])
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{path}/{key}".lstrip("/"))
    else:
        yield path, value


def _different(name: str, ours: list[Any], theirs: list[Any]) -> Iterator[str]:
    if len(ours) != len(theirs):
        yield f"{name}: dsprep has {len(ours)} samples, and litdata {len(theirs)}"
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        mine, its = dict(_flat(one)), dict(_flat(other))
        for key in sorted(mine.keys() | its.keys()):
            if mine.get(key) != its.get(key):
                shown = f"{mine.get(key)!r:.100}, and litdata {its.get(key)!r:.100}"
                yield f"{name}: {number}: {key}: dsprep has {shown}"
