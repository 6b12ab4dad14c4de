"""Streams of samples with boxes and masks: the same samples as from the file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.images.transform import Transform
from dsprep.sample import Sample
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.sources.boxes import SIZE, box, coco, image, write

SUFFIX = {"webdataset": "tar", "tfrecord": "tfrecord", "recordio": "rec"}
MOVES = Transform(resize=(20, 16), crop=(16, 12), encode="png")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of each format, copied to where no manifest lies beside it."""
    root = tmp_path_factory.mktemp("streams")
    names = [f"{number}.jpg" for number in range(6)]
    mask = io.BytesIO()
    with Image.new("L", SIZE, 1) as made:
        made.paste(0, (0, 0, 20, 20))
        made.save(mask, "PNG")
    files: dict[str, Any] = {
        f"in/{name}": image(orientation=6 * (name == "3.jpg")) for name in names
    }
    turned = {"width": SIZE[1], "height": SIZE[0]}
    parts = json.loads(coco(names, [box(at, at, 3 + at % 2 * 4) for at in (1, 2, 2, 3, 4, 5, 6)]))
    parts["images"][3] |= turned
    for at, each in enumerate(parts["annotations"], 1):
        each |= {"id": at, "iscrowd": int(at == 2)}
    parts["annotations"][4]["bbox"] = [2, 3, 10, 20]
    files |= {"a.json": json.dumps(parts), "classes.txt": "ground\nroad\n"}
    for at in range(5):
        data = mask.getvalue()
        if at == 3:
            out = io.BytesIO()
            Image.new("L", SIZE[::-1], 1).save(out, "PNG")
            data = out.getvalue()
        files[f"masks/{at}.png"] = data
    write(root, files)
    source = {"annotations": [str(root / "a.json")]}
    masks = {"masks": str(root / "masks"), "mask_classes": str(root / "classes.txt")}
    for format, suffix in SUFFIX.items():
        with_masks = {} if format == "recordio" else masks
        made_of = {"format": format, "workers": 1} | source | with_masks
        dsprep.pack(str(root / "in"), str(root / "made" / f"x.{suffix}"), **made_of)
        data = (root / "made" / f"x.{suffix}").read_bytes()
        write(root, {f"plain/x.{suffix}": data})
    return root / "plain"


def told(path: Path) -> dict[str, Any]:
    """What lies in a file: objects, sizes and pixels of images."""
    catalog, _ = read_source(make_source(str(path)))
    found = {}
    for sample in catalog.reader.read(catalog.rows()):
        assert isinstance(sample, Sample)
        facts = ("width", "height")  # of which only a manifest tells that they are fields
        fields = {name: each for name, each in sample.fields.items() if name not in facts}
        for name in {"mask", str(sample.image)}.intersection(fields):
            with Image.open(io.BytesIO(fields[name])) as opened:
                fields[name] = opened.size, opened.mode, opened.tobytes()
        found[sample.key] = fields
    return found


@pytest.mark.parametrize("to", SUFFIX)
@pytest.mark.parametrize("source", SUFFIX)
@pytest.mark.parametrize("transform", [None, MOVES], ids=["same", "moved"])
def test_a_stream_has_the_samples_of_the_file(
    shards: Path, tmp_path: Path, source: str, to: str, transform: Transform | None
) -> None:
    shard = shards / f"x.{SUFFIX[source]}"
    options: dict[str, Any] = {"transform": transform}
    if to == "recordio" and source != "recordio":
        options["drop"] = ["mask"]
    notes = list[str]()
    with shard.open("rb") as file:
        stream = dsprep.convert_stream(file, source=source, to=to, on_note=notes.append, **options)
        write(tmp_path, {f"stream.{SUFFIX[to]}": stream.read()})
    done = dsprep.convert(
        str(shard), str(tmp_path / f"file.{SUFFIX[to]}"), to=to, workers=1, **options
    )
    found, wanted = (told(tmp_path / f"{name}.{SUFFIX[to]}") for name in ("stream", "file"))
    if source == to and transform is None:
        assert (tmp_path / f"stream.{SUFFIX[to]}").read_bytes() == shard.read_bytes()
    assert found == wanted
    assert [note for note in done.notes if "object" in note or "moved" in note] == [
        note for note in notes if "object" in note or "moved" in note
    ]
    (key,) = (key for key in found if key in ("4", "stream-0000004", "x-0000004"))
    if transform is not None:
        fields = found[key]
        name = next(each for each in fields if each in ("image", "png", "jpg"))
        assert fields[name][0] == (16, 12)
        if "mask" in fields:
            assert fields["mask"][:2] == ((16, 12), "L")
