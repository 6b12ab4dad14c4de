"""Labels in the one spelling that lists are compared by, most of which have it already."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dsprep.lst import format_number

_WHOLE = r"0|-?[1-9][0-9]{0,14}"
_BELOW_ONE = r"-?0\.0{0,3}(?:[1-9][0-9]{0,13})?[1-9]"
_DECIMAL = r"-?[1-9][0-9]{0,6}\.[0-9]{0,6}[1-9]"
_NUMBER = rf"(?:{_WHOLE}|{_BELOW_ONE}|{_DECIMAL})"
_CANONICAL = rf"^{_NUMBER}(?:\t{_NUMBER})*$"
"""Up to 15 digits tell one float from all others, so these are the shortest decimals of theirs."""


def canonical_label(words: Sequence[str]) -> str:
    """The numbers of a label, each in its shortest form, a whole one without a point."""
    return "\t".join(format_number(float(word)) for word in words)


def canonical_labels(words: pl.Series) -> pl.Series:
    """The canonical texts of labels, each given as a list of texts that are numbers."""
    texts = words.list.join("\t").alias("label")
    is_other = ~texts.str.contains(_CANONICAL)
    if not is_other.any():
        return texts
    others = words.filter(is_other).to_list()
    places = is_other.arg_true()
    return texts.scatter(places, [canonical_label(each) for each in others])
