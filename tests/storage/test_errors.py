"""What S3 refuses is told with the right that is missing, and what to do."""

from __future__ import annotations

import pickle

import pytest

from dsprep.errors import StoreError
from dsprep.storage.s3.errors import OPERATIONS, Request


def refused(
    operation: str, status: int, code: str, said: str = "", request: str = "", attempts: int = 1
) -> StoreError:
    about = {"HTTPStatusCode": status, "RequestId": request}
    made = Request(operation, "b", "k", attempts)
    return made.refused({"Code": code, "Message": said}, about)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_names_its_right(operation: str) -> None:
    error = refused(operation, 403, "AccessDenied", "Access Denied", "R1")
    assert str(error).startswith("s3://b/k: ")
    assert f"the right {OPERATIONS[operation][1]} is missing" in str(error)
    assert "(AccessDenied, HTTP 403, request R1)" in str(error)
    assert error.kind == "denied"


def test_the_whole_message() -> None:
    error = refused("UploadPart", 403, "AccessDenied", "Access Denied.", "R1")
    assert str(error) == (
        "s3://b/k: a part cannot be uploaded: Access Denied (AccessDenied, HTTP 403, request R1); "
        "the right s3:PutObject is missing"
    )


def test_a_key_of_kms() -> None:
    said = "User: x is not authorized to perform: kms:GenerateDataKey on resource: key/1"
    error = refused("PutObject", 403, "AccessDenied", said)
    assert "the right kms:GenerateDataKey is missing" in str(error)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (503, "SlowDown", "transient"),
        (500, "InternalError", "transient"),
        (429, "TooManyRequests", "transient"),
        (400, "RequestTimeout", "transient"),
        (502, "502", "transient"),
        (0, "", "transient"),
        (400, "BadDigest", "damaged"),
        (400, "ExpiredToken", "expired"),
        (403, "RequestExpired", "expired"),
        (403, "403", "denied"),
        (403, "SignatureDoesNotMatch", "other"),
        (404, "404", "missing"),
        (404, "NoSuchUpload", "gone"),
        (412, "PreconditionFailed", "exists"),
        (501, "NotImplemented", "unsupported"),
        (411, "MissingContentLength", "unsupported"),
        (400, "InvalidTrailer", "unsupported"),
        (400, "EntityTooLarge", "other"),
    ],
)
def test_what_it_means(status: int, code: str, kind: str) -> None:
    assert refused("PutObject", status, code).kind == kind


def test_advice() -> None:
    expired, missing = (
        refused("PutObject", 400, "ExpiredToken"),
        refused("PutObject", 404, "NoSuchBucket"),
    )
    assert "renew them and give the same command again" in str(expired)
    assert "there is no bucket of this name" in str(missing)
    assert "tried 8 times" in str(refused("PutObject", 503, "SlowDown", attempts=8))
    assert str(Request("PutObject", "b", "k").explain(OSError("it broke"))) == (
        "s3://b/k: cannot be written: it broke; it was tried once; give the same command again to "
        "continue"
    )


def test_an_operation_that_nobody_knows() -> None:
    assert "GetBucketAcl failed" in str(refused("GetBucketAcl", 400, "X"))


def test_errors_travel() -> None:
    error = pickle.loads(pickle.dumps(StoreError("text", "denied")))
    assert (str(error), error.kind) == ("text", "denied")
