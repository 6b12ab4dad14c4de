"""Failures of S3 in words for users: what was refused, which right is missing, what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dsprep.errors import DsprepError, StoreError
from dsprep.frozen import Frozen
from dsprep.storage.location import Location

_COPYING = "s3:PutObject, and s3:GetObject on what is copied"

# What cannot be done, and the right that it needs (Service Authorization Reference, Amazon S3).
OPERATIONS = {
    "AbortMultipartUpload": ("the unfinished upload cannot be aborted", "s3:AbortMultipartUpload"),
    "CompleteMultipartUpload": ("the upload cannot be completed", "s3:PutObject"),
    "CopyObject": ("cannot be copied to", _COPYING),
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
    "UploadPartCopy": ("a part cannot be copied to it", _COPYING),
}

# The `kind` of a `StoreError`, by the error code of S3 or, for other codes, by the HTTP status. A
# server that did not answer has the status 0.
_KINDS = {
    "transient": {
        *("InternalError", "InternalServerError", "RequestTimeout", "ServiceUnavailable"),
        *("OperationAborted", "ConditionalRequestConflict", "Throttling", "ThrottlingException"),
        *("TooManyRequests", "RequestLimitExceeded", "BandwidthLimitExceeded", "SlowDown"),
    },
    "expired": {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"},
    "denied": {"AccessDenied", "AllAccessDisabled", "Forbidden", "403", "AccountProblem"},
    "gone": {"NoSuchUpload"},
    "missing": {"NoSuchKey", "NoSuchBucket", "NotFound", "404"},
    "exists": {"PreconditionFailed", "412"},
    "unsupported": {"MissingContentLength", "InvalidTrailer", "NotImplemented", "411", "501"},
    "damaged": {"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"},
}
_KIND = {code: kind for kind, codes in _KINDS.items() for code in codes}
_KIND_OF_STATUS = {404: "missing", 412: "exists", 411: "unsupported"}
_KIND_OF_STATUS |= dict.fromkeys((0, 429, 500, 502, 503, 504), "transient")

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
    "KMS.NotFoundException": "there is no such KMS key in this region",
    "KMS.DisabledException": "the KMS key is disabled",
    "InvalidStorageClass": "the server does not know this storage class",
}

_ADVICE_BY_KIND = {
    "expired": "the credentials have expired; renew them and give the same command again to "
    "continue",
    "missing": "it is not there",
    "exists": "something else has been stored there meanwhile",
    "gone": "the upload is not there any more: it was completed or aborted by something else",
    "unsupported": "the server does not support this",
    "transient": "it was tried {attempts}; give the same command again to continue",
    "damaged": "the bytes that arrived are not those that were sent; it was tried "
    "{attempts}: look at the network and the memory of this computer",
}

_KMS = re.compile(r"kms:\w+")

# The beginning of urllib3's messages about a server that it cannot reach.
_POOL = re.compile(r"^\w+\(host='([^']*)', port=(\d+)\): ")

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


_ANSWERED = {"HTTPStatusCode": 200}


class DamagedError(Exception):
    """An answer shows that other bytes have arrived than were sent."""


class Request(Frozen):
    """A request that failed."""

    operation: str  # its name in the API, such as `UploadPart`
    bucket: str
    key: str  # the object, or the prefix that was listed
    attempts: int = 1  # how often it was tried
    role: type[StoreError] = StoreError  # the error of what is read or written there

    def explain(self, error: Exception) -> StoreError:
        """Return the error for users; raise what another attempt cannot help."""
        inner = getattr(error, "kwargs", {}).get("error")
        for found in (error, inner):
            if isinstance(found, DsprepError):
                raise found
        name = type(error).__name__
        answer = getattr(error, "response", None)
        if isinstance(answer, dict) and "Error" in answer:
            return self.refused(answer["Error"], answer.get("ResponseMetadata", {}))
        if isinstance(error, DamagedError):
            return self.refused({"Code": "BadDigest", "Message": str(error)}, _ANSWERED)
        if name in _CREDENTIALS:
            kind = "expired" if name in _EXPIRED else "other"
            advice = _CREDENTIALS[name].format(**getattr(error, "kwargs", {}))
            raise self.role(f"{Location(self.bucket, self.key)}: {advice}", kind)
        if isinstance(error, TypeError) or name == "ParamValidationError":
            raise error  # a bug of dsprep
        if isinstance(error, KeyError | ValueError) and not isinstance(error, OSError):
            what = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
            message = (
                f"the server's answer makes no sense: {what:.200}; look at the endpoint, and at "
                "what lies between here and it"
            )
            return self.refused({"Message": message}, _ANSWERED)
        return self.refused({"Message": _POOL.sub(r"\1:\2: ", f"{inner or error!s:.300}")}, {})

    def refused(self, error: Mapping[str, Any], about: Mapping[str, Any]) -> StoreError:
        """Return the error for users, from an answer's `Error` and `ResponseMetadata`."""
        status, code = int(about.get("HTTPStatusCode", 0)), str(error.get("Code", ""))
        said = str(error.get("Message", ""))
        kind = _KIND.get(code) or _KIND_OF_STATUS.get(status, "other")
        what, right = OPERATIONS.get(self.operation, (f"{self.operation} failed", ""))
        message = f"{Location(self.bucket, self.key)}: {what}"
        if said not in ("", "None", "Unknown"):
            message += f": {said.rstrip('.')[:500]}"
        facts = [
            "" if code.isdigit() else code,
            f"HTTP {status}" if status else "",
            f"request {about['RequestId']}" if about.get("RequestId") else "",
        ]
        if any(facts):
            message += f" ({', '.join(filter(None, facts))})"
        tried = "once" if self.attempts == 1 else f"{self.attempts} times"
        advice = _ADVICE.get(code) or _ADVICE_BY_KIND.get(kind, "")
        if kind == "denied":
            needed = _KMS.search(said)
            right = needed[0] if needed else right
            advice = f"the right {right} is missing" if right else "a right is missing"
            if right and self.operation in ("HeadObject", "GetObject"):
                advice += ", or it is not there and the right s3:ListBucket is missing"
        return self.role("; ".join(filter(None, (message, advice.format(attempts=tried)))), kind)
