"""Taking from a catalog what a selection wants."""

from __future__ import annotations

from dataclasses import replace

from dsprep.catalog import Catalog
from dsprep.planning.selection import Chosen, Selection


def select(catalog: Catalog, selection: Selection) -> tuple[Catalog, Chosen]:
    """Take some samples, and some more than once.

    Returns:
        The samples taken, in their order, and what was left out or repeated.

    Raises:
        OptionError: If the filter is wrong, or there are no classes to balance.
        SourceError: If nothing is left.
    """
    from dsprep.selecting.balance import balance
    from dsprep.selecting.filter import filter_catalog

    chosen = Chosen()
    if selection.filter is not None:
        before = len(catalog)
        catalog = filter_catalog(catalog, selection.filter)
        chosen = replace(chosen, filtered=before - len(catalog))
    if selection.balance:
        catalog, counts = balance(catalog, selection.seed, selection.oversample)
        chosen = replace(chosen, left_out=counts.left_out, repeated=counts.repeated)
    return catalog, chosen
