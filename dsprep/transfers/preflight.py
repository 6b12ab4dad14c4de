"""Whether a run may write where it is to write, asked before the first byte goes."""

from __future__ import annotations

from contextlib import suppress

from dsprep.errors import StoreError
from dsprep.stores.base import Upload
from dsprep.stores.bucket import S3Store
from dsprep.stores.local import SCRATCH

_PROBE = f"{SCRATCH}/rights"


def require_rights(store: S3Store, prefix: str, *, deleting: bool = False) -> None:
    """See that objects can be stored below a prefix, and that an upload can be taken back.

    Listing it has shown that the bucket is there, and its region. What a run that was killed here
    has left behind is taken back, too.

    Args:
        store: The bucket.
        prefix: What keys begin with.
        deleting: Whether objects are to be deleted, too.

    Raises:
        StoreError: If something is not allowed, naming the right that is missing.
    """
    store.abort(_begin(store, prefix))
    with suppress(StoreError):  # it takes another right, which uploads can do without
        for page in store.list_uploads(prefix + _PROBE):
            for upload in page:
                store.abort(upload)
    if deleting:
        for refused in store.delete([prefix + _PROBE]):  # which is not there
            raise refused.error


def _begin(store: S3Store, prefix: str) -> Upload:
    """Begin an upload; again, if that fails for no lasting reason."""
    failed = 0
    while True:
        try:
            return store.create_upload(prefix + _PROBE, {})
        except StoreError as error:
            failed += 1
            store.again(error, failed)


def probe(store: S3Store, prefix: str) -> Upload:
    """Begin an upload, look what a listing tells of it, and take it back.

    Raises:
        StoreError: If one of these is not allowed.
    """
    begun = _begin(store, prefix)
    try:
        for page in store.list_uploads(begun.key):
            for upload in page:
                if upload.id == begun.id:
                    return upload
    finally:
        store.abort(begun)
    raise StoreError(f"{store.url(prefix)}: the server does not list uploads that are not finished")
