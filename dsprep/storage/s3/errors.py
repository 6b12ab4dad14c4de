"""Failures of S3 in words for users: what was refused, which right is missing, what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.location import Location

# What cannot be done, and the right that it needs (Service Authorization Reference, Amazon S3).
_OPERATIONS = {
    "AbortMultipartUpload": ("the unfinished upload cannot be aborted", "s3:AbortMultipartUpload"),
    "CompleteMultipartUpload": ("the upload cannot be completed", "s3:PutObject"),
    "CopyObject": ("cannot be copied to", "s3:PutObject, and s3:GetObject on what is copied"),
    "CreateMultipartUpload": ("an upload cannot be begun", "s3:PutObject"),
    "DeleteObjects": ("cannot be deleted", "s3:DeleteObject"),
    "GetObject": ("cannot be read", "s3:GetObject"),
    "GetObjectTagging": ("its tags cannot be read", "s3:GetObjectTagging"),
    "HeadBucket": ("the bucket cannot be reached", "s3:ListBucket"),
    "HeadObject": ("cannot be looked up", "s3:GetObject"),
    "ListMultipartUploads": (
        "unfinished uploads cannot be listed",
        "s3:ListBucketMultipartUploads",
    ),
    "ListObjectsV2": ("cannot be listed", "s3:ListBucket"),
    "ListParts": (
        "the parts of an unfinished upload cannot be listed",
        "s3:ListMultipartUploadParts",
    ),
    "PutObject": ("cannot be written", "s3:PutObject"),
    "UploadPart": ("a part cannot be uploaded", "s3:PutObject"),
    "UploadPartCopy": (
        "a part cannot be copied to it",
        "s3:PutObject, and s3:GetObject on what is copied",
    ),
}
RIGHTS = {operation: right for operation, (_, right) in _OPERATIONS.items()}

TRANSIENT_STATUS = {429, 500, 502, 503, 504}

_TRANSIENT = {
    *("InternalError", "InternalServerError", "RequestTimeout", "ServiceUnavailable", "SlowDown"),
    *("OperationAborted", "ConditionalRequestConflict", "Throttling", "ThrottlingException"),
    *("TooManyRequests", "RequestLimitExceeded", "BandwidthLimitExceeded"),
}

_KINDS = {
    "expired": {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"},
    "denied": {"AccessDenied", "AllAccessDisabled", "Forbidden", "403", "AccountProblem"},
    "gone": {"NoSuchUpload"},
    "missing": {"NoSuchKey", "NoSuchBucket", "NotFound", "404"},
    "exists": {"PreconditionFailed", "412"},
    "unsupported": {"MissingContentLength", "InvalidTrailer", "NotImplemented", "411", "501"},
    "damaged": {"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"},
}
_KIND = {code: kind for kind, codes in _KINDS.items() for code in codes}

_ELSEWHERE = "the bucket is in another region; name it in AWS_REGION, or with sync --region"

_ADVICE = {
    "NoSuchBucket": "there is no bucket of this name; create it, or look at its spelling, the "
    "region and the endpoint",
    "InvalidAccessKeyId": "the server does not know this access key; look at the credentials, the "
    "profile and the endpoint",
    "SignatureDoesNotMatch": "the secret key is not that of the access key; check the credentials",
    "RequestTimeTooSkewed": "this computer's clock is wrong; set it",
    "InvalidToken": "the session token is not valid; get new credentials",
    "PermanentRedirect": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "IllegalLocationConstraintException": _ELSEWHERE,
    "EntityTooLarge": "the server does not take objects or parts as large as this",
    "InvalidObjectState": "it is in an archive storage class; restore it first",
    "QuotaExceeded": "the quota is used up; make room and give the same command again to continue",
    "PreconditionFailed": "something else has been stored there meanwhile",
    "412": "something else has been stored there meanwhile",
    "KMS.NotFoundException": "there is no such KMS key in this region",
    "KMS.DisabledException": "the KMS key is disabled",
    "InvalidStorageClass": "the server does not know this storage class",
}

_ADVICE_BY_KIND = {
    "expired": "the credentials have expired; renew them and give the same command again to "
    "continue",
    "missing": "it is not there",
    "gone": "the upload is not there any more: it was completed or aborted by something else",
    "unsupported": "the server does not support this",
    "transient": "it was tried {attempts}; give the same command again to continue",
    "damaged": "the bytes that arrived are not those that were sent; it was tried "
    "{attempts}: look at the network and the memory of this computer",
}

_KMS = re.compile(r"kms:\w+")

_POOL = re.compile(r"^\w+\(host='([^']*)', port=(\d+)\): ")
"""The beginning of urllib3's messages about a server that it cannot reach."""

_CREDENTIALS = {
    "NoCredentialsError": "there are no credentials: set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; what is public, `dsprep sync --no-sign-request` reads",
    "PartialCredentialsError": "the credentials are not complete: a secret key belongs to each "
    "access key",
    "ProfileNotFound": "there is no profile {profile} in AWS's configuration files",
    "UnauthorizedSSOTokenError": "the SSO session has expired; log in again (aws sso login)",
    "SSOTokenLoadError": "there is no SSO session; log in (aws sso login)",
    "TokenRetrievalError": "the SSO session has expired; log in again (aws sso login)",
    "CredentialRetrievalError": "the credentials cannot be had",
    "SSLCertVerificationError": "the server's certificate is not trusted; if it is your own, name "
    "its file in AWS_CA_BUNDLE",
}
_EXPIRED = {"UnauthorizedSSOTokenError", "TokenRetrievalError"}


class DamagedError(Exception):
    """An answer shows that other bytes have arrived than were sent."""


@dataclass(frozen=True)
class Failure:
    """A request that failed."""

    operation: str  # its name in the API, such as `UploadPart`
    bucket: str  # the bucket
    key: str  # the object, or the prefix that was listed
    status: int = 0  # HTTP's status code; 0 if there was no answer
    code: str = ""  # S3's, such as `AccessDenied`; empty if there was no answer
    message: str = ""  # what the server said, or what broke
    request_id: str = ""  # what the server calls the request
    attempts: int = 1  # how often it was tried

    @property
    def kind(self) -> str:
        """What it means, in the words of `StoreError`."""
        if self.code in _KIND:
            return _KIND[self.code]
        if not self.status or self.status in TRANSIENT_STATUS or self.code in _TRANSIENT:
            return "transient"
        return {404: "missing", 403: "other", 412: "exists", 411: "unsupported"}.get(
            self.status, "other"
        )

    def to_error(self, role: type[StoreError] = StoreError) -> StoreError:
        """The message for the user, as the error of what is read or written there."""
        what, _ = _OPERATIONS.get(self.operation, (f"{self.operation} failed", ""))
        said = self.message if self.message not in ("", "None", "Unknown") else ""
        facts = [self.code if not self.code.isdigit() else "", f"HTTP {self.status}"]
        facts = [fact for fact in facts if fact and fact != "HTTP 0"]
        if self.request_id:
            facts.append(f"request {self.request_id}")
        parts = [f"{Location(self.bucket, self.key)}: {what}"]
        if said:
            parts.append(f"{said.rstrip('.')[:500]}")
        message = ": ".join(parts) + (f" ({', '.join(facts)})" if facts else "")
        advice = self._advice()
        return role(f"{message}; {advice}" if advice else message, self.kind)

    def _advice(self) -> str:
        if self.kind == "denied":
            needed = _KMS.search(self.message)
            right = needed[0] if needed else RIGHTS.get(self.operation, "")
            also = (
                ", or it is not there and the right s3:ListBucket is missing"
                if self.operation in ("HeadObject", "GetObject")
                else ""
            )
            return f"the right {right} is missing{also}" if right else "a right is missing"
        found = _ADVICE.get(self.code) or _ADVICE_BY_KIND.get(self.kind, "")
        tried = "once" if self.attempts == 1 else f"{self.attempts} times"
        return found.format(attempts=tried)


def explain(error: Exception, failed: Failure, role: type[StoreError]) -> Failure:
    """Say what a request failed with; raise what another attempt cannot help."""
    inner = getattr(error, "kwargs", {}).get("error")
    for found in (error, inner):
        if isinstance(found, DsprepError):
            raise found
    name = type(error).__name__
    if isinstance(error, DamagedError):
        return replace(failed, status=200, code="BadDigest", message=str(error))
    answer: Any = getattr(error, "response", None)
    if isinstance(answer, dict) and "Error" in answer:
        about, told = answer.get("ResponseMetadata", {}), answer["Error"]
        return replace(
            failed,
            status=int(about.get("HTTPStatusCode", 0)),
            code=str(told.get("Code", "")),
            message=str(told.get("Message", "")),
            request_id=str(about.get("RequestId", "")),
        )
    if name in _CREDENTIALS:
        kind = "expired" if name in _EXPIRED else "other"
        told = _CREDENTIALS[name].format(**getattr(error, "kwargs", {}))
        raise role(f"{Location(failed.bucket, failed.key)}: {told}", kind)
    if isinstance(error, TypeError) or name == "ParamValidationError":
        raise error  # a mistake of ours
    if isinstance(error, KeyError | ValueError) and not isinstance(error, OSError):
        what = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        text = (
            f"the server's answer makes no sense: {what:.200}; look at the endpoint, and at what "
            "lies between here and it"
        )
        return replace(failed, status=200, message=text)
    text = _POOL.sub(r"\1:\2: ", f"{inner or error!s:.300}")
    return replace(failed, message=text)
