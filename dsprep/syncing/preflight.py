"""Whether a run may write where it is to write, asked before the first byte goes."""

from __future__ import annotations

from dsprep.stores.bucket import S3Store

_PROBE = ".dsprep/rights"


def require_rights(store: S3Store, prefix: str) -> None:
    """See that objects can be stored below a prefix, and that an upload can be taken back.

    Listing it has shown that the bucket is there, and its region.

    Raises:
        StoreError: If something is not allowed, naming the right that is missing.
    """
    store.abort(store.create_upload(prefix + _PROBE, {}))
