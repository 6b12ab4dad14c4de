"""Requests to S3: made, tried again, and their failures told.

They are tried again here, by one policy, rather than by boto3, so that what is waited for in all is
bounded and a stop is noticed at once.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.base import Progress, ignore
from dsprep.storage.body import Body
from dsprep.storage.retries import Retries
from dsprep.storage.s3 import Connection
from dsprep.storage.s3_answers import DamagedError
from dsprep.storage.s3_config import S3Config
from dsprep.storage.s3_errors import Failure
from dsprep.storage.urls import Location

Data = bytes | bytearray | memoryview
T = TypeVar("T")

_SMALL = 1 << 20
"""Bytes that are sent without asking first whether they are welcome."""

_POOL = re.compile(r"^\w+\(host='([^']*)', port=(\d+)\): ")
"""How urllib3 begins to tell of a server that it cannot reach."""

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
    "SSLError": "the server's certificate is not to be trusted; if it is one of your own, name "
    "its file in AWS_CA_BUNDLE",
}
_EXPIRED = {"UnauthorizedSSOTokenError", "TokenRetrievalError"}


class Requests:
    """Makes requests for a bucket; several threads may do so at once."""

    def __init__(
        self,
        bucket: str,
        config: S3Config,
        retries: Retries,
        wait: Callable[[float], object] = time.sleep,
        on_retry: Callable[[StoreError, float], object] = ignore,
        on_fallback: Callable[[str], object] = ignore,
        role: type[StoreError] = StoreError,
    ) -> None:
        """Connect, which sends nothing yet; the arguments are those of `S3Store`."""
        self._bucket, self._role = bucket, role
        self._retries, self._wait = retries, wait
        self._on_retry, self._on_fallback = on_retry, on_fallback
        self._always = config.to_all()
        self._plain = False
        self._falling_back = threading.Lock()
        try:
            self._connection = Connection(config)
        except Exception as error:  # whatever is wrong in AWS's files
            raise self._failure("", "", error, 1).to_error(self._role) from None

    def close(self) -> None:
        """Let go of connections."""
        self._connection.close()

    def call(
        self,
        operation: str,
        key: str,
        parse: Callable[[Any], T],
        *,
        data: Data | None = None,
        progress: Progress = ignore,
        once: bool = False,
        **args: Any,
    ) -> T:
        """Make a request, again if that may help."""
        method = self._connection.method(operation)
        args |= self._always
        attempt = 0
        while True:
            attempt += 1
            if self._plain:
                args = {name: value for name, value in args.items() if "Checksum" not in name}
            body = Body(data, progress) if data is not None else None
            if body is not None:
                args["Body"] = body if len(body) > _SMALL else body.whole()
            try:
                answer = self._quickly(operation, key, args)
                if answer is None:
                    answer = method(Bucket=self._bucket, **args)
                return parse(answer)
            except (KeyError, ValueError) as error:
                failure = Failure(operation, self._bucket, key, 200, message=_nonsense(error))
            except Exception as error:
                failure = self._failure(operation, key, error, attempt)
            if body is not None:
                progress(-body.tell())
            refused = failure.to_error(self._role)
            checksums = any("Checksum" in name for name in args)
            if refused.kind == "unsupported" and checksums:
                self._fall_back(failure.code)
            elif once:
                raise refused
            else:
                self.again(refused, attempt)

    def failure(self, operation: str, key: str, entry: dict[str, Any]) -> StoreError:
        """The error of one object among those of a request."""
        code, message = entry.get("Code", ""), entry.get("Message", "")
        return Failure(operation, self._bucket, key, 0, code, message).to_error(self._role)

    def broken(self, key: str, error: Exception, failed: int) -> StoreError:
        """The error of an answer that ends, or stops, before it is whole, for so many times now."""
        return self._failure("GetObject", key, error, failed).to_error(self._role)

    def _quickly(self, operation: str, key: str, args: Mapping[str, Any]) -> Any:
        """The answer of a request that can be made without boto3; else None."""
        quick = self._connection.quick() if operation in ("GetObject", "PutObject") else None
        if quick is None:
            return None
        if operation == "GetObject":
            return quick.get(key, args)
        body = args["Body"]
        return quick.put(key, body, args) if isinstance(body, bytes) else None

    def again(self, error: StoreError, failed: int) -> None:
        """Wait until something that has failed so often may be tried again."""
        may_help = error.kind in ("transient", "damaged") and failed < self._retries.attempts
        if error.is_final or not may_help:
            error.is_final = True  # whoever called for this does not begin anew
            raise error
        delay = self._retries.delay(failed)
        self._on_retry(error, delay)
        self._wait(delay)

    def _fall_back(self, code: str) -> None:
        """Do without checksums from now on; several threads may find out that it has to be."""
        with self._falling_back:
            is_told, self._plain = self._plain, True
        if not is_told:
            self._on_fallback(
                f"{Location(self._bucket, '')}: the server takes no checksums ({code}): "
                "going on with MD5"
            )

    def _failure(self, operation: str, key: str, error: Exception, attempt: int) -> Failure:
        """What a request failed with."""
        inner = getattr(error, "kwargs", {}).get("error")
        for each in (error, inner):
            if isinstance(each, DsprepError):
                raise each
        if isinstance(error, DamagedError):
            return Failure(
                operation, self._bucket, key, 200, "BadDigest", str(error), attempts=attempt
            )
        answer = getattr(error, "response", None)
        if isinstance(answer, dict) and "Error" in answer:
            about, told = answer.get("ResponseMetadata", {}), answer["Error"]
            return Failure(
                operation,
                self._bucket,
                key,
                status=int(about.get("HTTPStatusCode", 0)),
                code=str(told.get("Code", "")),
                message=str(told.get("Message", "")),
                request_id=str(about.get("RequestId", "")),
                attempts=attempt,
            )
        name = type(error).__name__
        if name in _CREDENTIALS:
            kind = "expired" if name in _EXPIRED else "other"
            told = _CREDENTIALS[name].format(**getattr(error, "kwargs", {}))
            raise self._role(f"{Location(self._bucket, key)}: {told}", kind)
        if isinstance(error, TypeError) or name == "ParamValidationError":
            raise error  # ours
        text = _POOL.sub(r"\1:\2: ", f"{inner or error!s:.300}")
        return Failure(operation, self._bucket, key, message=text, attempts=attempt)


def _nonsense(error: KeyError | ValueError) -> str:
    """What is wrong with an answer that cannot be understood."""
    what = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
    return (
        f"the server's answer makes no sense: {what:.200}; look at the endpoint, and at what lies "
        "between here and it"
    )
