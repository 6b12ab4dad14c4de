"""Augmented copies, as a data set records them: their number, samples and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.images.augment import FILLS, OPS, Augment, parse_ops
from dsprep.images.transform import Transform
from dsprep.sample import key_expr, original_expr

if TYPE_CHECKING:
    from dsprep.catalog import Catalog


class Copies(Frozen):
    """The options that decide how many augmented copies are made."""

    per_image: int | None = None  # copies of each sample
    per_class: int | None = None  # samples of each class, with the originals that are kept
    balance: bool = False  # whether each class gets as many samples as the largest class has
    keep_originals: bool = True
    any_side: bool = False  # whether samples for validation and test get copies, too

    def __post_init__(self) -> None:
        given = [self.per_image is not None, self.per_class is not None, self.balance]
        if sum(given) != 1:
            raise OptionError("give one of --per-image, --per-class and --balance")

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest records."""
        return {
            "per_image": self.per_image,
            "per_class": self.per_class,
            "balance": self.balance,
            "keep_originals": self.keep_originals,
            "any_side": self.any_side,
        }


def recorded(augment: Augment | None, asked: Copies) -> dict[str, Any]:
    """Return what a manifest records of copies."""
    return (augment.to_json() if augment else {}) | asked.to_json()


def copies_of(options: Mapping[str, Any]) -> tuple[Augment | None, Copies | None]:
    """Return what a manifest, which may come from anywhere, records of copies."""
    if (values := options.get("augment")) is None:
        return None, None
    text = ",".join(f"{name}={value!r}" for name, value in values["ops"].items())
    fill, mask_fill = str(values["fill"]), int(values["mask_fill"])
    told = Transform(quality=values.get("quality"), min_visible=values.get("min_visible"))
    rare = (told.quality, told.min_visible)
    augment = Augment(parse_ops(text), int(values["seed"]), fill, mask_fill, *rare)
    names = ("per_image", "per_class", "balance", "keep_originals", "any_side")
    asked = Copies(*(values[name] for name in names))
    numbers = [each for each in (asked.per_image, asked.per_class) if each is not None]
    flags = (asked.balance, asked.keep_originals, asked.any_side)
    if (
        not {*map(type, numbers)} <= {int}
        or min(numbers, default=1) < 1
        or {*map(type, flags)} != {bool}
    ):
        raise ValueError("its copies have numbers that are none")
    if recorded(augment, asked) != values or fill not in FILLS or not 0 <= mask_fill <= 255:
        raise ValueError("its copies were made in no way that dsprep knows")
    return augment, asked


def augment_table(catalog: Catalog, augment: Augment, rejected: Sequence[str]) -> bytes:
    """Return the file that tells the origin and the parameters of each copy, as Parquet."""
    import polars as pl

    from dsprep.catalog import whole_path  # imported late: loads polars

    copies = catalog.table.filter(pl.col("copy") > 0)
    table = copies.with_columns(whole_path(copies)).filter(~pl.col("path").is_in(rejected))
    keys = table.select(key=key_expr(), copy=pl.col("copy"), path=original_expr())
    keys = keys.select("key", key_expr().alias("origin"), "copy")
    drawn = [augment.draw(key, copy) for _, key, copy in keys.iter_rows()]
    columns = [
        pl.Series(name, [each[name] for each in drawn], pl.Float64)
        for op in augment.ops
        for name in OPS[op].params
    ]
    out = BytesIO()
    keys.with_columns(columns).write_parquet(out)
    return out.getvalue()
