"""What could not be listed: nobody knows what lies there, so it is never as if nothing did."""

from __future__ import annotations

from glob import escape
from shlex import quote

from dsprep.errors import DsprepError
from dsprep.syncing.filters import Filters
from dsprep.syncing.report import Failure
from dsprep.syncing.sides import ROOT, Listing, Side


def require_listed(side: Side, listing: Listing, error: type[DsprepError]) -> None:
    """See that at least the place itself was listed."""
    for each in listing.unseen:
        if each.path == ROOT:
            raise error(f"{side.name('')}: {each.why}; nothing has been done")


def unseen_in(side: Side, listing: Listing, filters: Filters) -> list[Failure]:
    """What was not seen on a side, as failures; what takes no part anyway is none."""
    return [
        Failure(
            each.path,
            f"{side.name(each.path)}: {each.why}; mend that, or leave it out with "
            f"--exclude {quote(escape(each.path) + '*')}",
        )
        for each in listing.unseen
        if filters.may_admit(each.path)
    ]
