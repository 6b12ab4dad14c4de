"""A contact sheet of some samples, each beside its augmented copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

from dsprep.errors import BadSample, OptionError
from dsprep.images.transform import Transform
from dsprep.lists.store import editing, real_path, write_files
from dsprep.plan.plan import Plan
from dsprep.sample import Sample, key_of, original_name
from dsprep.storage.files import require_disk

if TYPE_CHECKING:
    from PIL.Image import Image

_SAMPLES, _COPIES, _EDGE, _GAP = 8, 5, 160, 4


def write_preview(plan: Plan, path: str) -> None:
    """Write a PNG that has a line for each of some samples: the original, then its copies."""
    from PIL import Image as PillowImage

    require_disk(path)
    if not path.lower().endswith(".png"):
        raise OptionError(f"--preview {path}: give a file that ends in .png")
    lines = list(_lines(plan))
    across, down = max(map(len, lines), default=1), max(1, len(lines))
    size = (across * (_EDGE + _GAP) + _GAP, down * (_EDGE + _GAP) + _GAP)
    sheet = PillowImage.new("RGB", size, "white")
    for row, line in enumerate(lines):
        for column, image in enumerate(line):
            image.thumbnail((_EDGE, _EDGE))
            left, top = (_GAP + each * (_EDGE + _GAP) for each in (column, row))
            place = left + (_EDGE - image.width) // 2, top + (_EDGE - image.height) // 2
            sheet.paste(image.convert("RGB"), place)
    out = BytesIO()
    sheet.save(out, "PNG")
    with editing(path, new=True):
        write_files(path, {real_path(path).name: out.getvalue()})


def _lines(plan: Plan) -> Iterator[list[Image]]:
    import polars as pl

    images, table = plan.job.images, plan.catalog.table
    augment, transform = images.augment, images.transform or Transform()
    assert augment is not None
    first = table.filter(pl.col("copy") > 0).unique("origin", keep="first", maintain_order=True)
    count = min(_SAMPLES, first.height)
    chosen = first[[number * first.height // count for number in range(count)]]
    copies = table.filter(pl.col("copy") > 0).group_by("origin").len()
    counts: dict[int, int] = dict(copies.iter_rows())
    rows = replace(plan.catalog, table=chosen).rows()
    read = plan.job.pipeline(plan.catalog).reader.read(rows.originals()[0])
    for path, origin, found in zip(rows.paths, rows.origins, read, strict=True):
        data: Any = found
        key = key_of(original_name(path))
        if isinstance(found, Sample):
            data, key = found.encoded, found.key
        try:
            original = transform.decoded(data, images.max_pixels).pixels
        except (BadSample, TypeError):
            continue  # a sample that cannot be read is reported by the workers of the run
        numbers = range(1, min(counts[origin], _COPIES) + 1)
        drawn = ((augment.draw(key, number), key, number) for number in numbers)
        yield [original.copy(), *(augment.apply(original.copy(), *each) for each in drawn)]
