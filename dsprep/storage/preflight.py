"""Whether a run may write where it is to write, asked before the first byte goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dsprep.errors import StoreError
from dsprep.storage.local import SCRATCH
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.config import S3Config
from dsprep.storage.store import Upload

_PROBE = f"{SCRATCH}/rights"


def require_rights(store: S3Store, prefix: str, *, deleting: bool = False) -> None:
    """See that objects can be stored below a prefix, and that an upload can be taken back.

    Listing it has shown that the bucket is there, and its region. What a run that was killed here
    has left behind is taken back, too.
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
            with _naming_options(store.config):
                store.again(error, failed)


@contextmanager
def _naming_options(config: S3Config) -> Iterator[None]:
    """Name what was asked for of each object, if S3 may have refused just that."""
    try:
        yield
    except StoreError as error:
        asked = " ".join(_asked(config))
        if not asked or error.kind not in ("other", "denied", "unsupported"):
            raise
        message = f"{error}; what is refused may be an option: {asked}"
        raise type(error)(message, error.kind) from None


def _asked(config: S3Config) -> Iterator[str]:
    """The options of objects that were given."""
    named = {
        "--storage-class": config.storage_class,
        "--acl": config.acl,
        "--sse": config.sse,
        "--sse-kms-key-id": config.kms_key,
    }
    yield from (f"{option} {value}" for option, value in named.items() if value)
    for option, pairs in (("--tag", config.tags), ("--metadata", config.metadata)):
        yield from (f"{option} {name}={value}" for name, value in pairs.items())


def probe(store: S3Store, prefix: str) -> Upload:
    """Begin an upload, look what a listing tells of it, and take it back."""
    begun = _begin(store, prefix)
    try:
        for page in store.list_uploads(begun.key):
            for upload in page:
                if upload.id == begun.id:
                    return upload
    finally:
        store.abort(begun)
    raise StoreError(f"{store.url(prefix)}: the server does not list uploads that are not finished")
