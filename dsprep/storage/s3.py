"""The connection to S3. The only module that imports boto3's core, and only when a bucket is used.

boto3 tries nothing again and computes no checksums here. Payloads are not signed, which would hash
all bytes once more: what guards them are checksums of our own.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from dsprep.storage.body import Body
from dsprep.storage.quick import Quick
from dsprep.storage.s3_answers import seconds
from dsprep.storage.s3_config import S3Config, require_endpoint
from dsprep.storage.signing import Keys, Route, route_of

_CONNECT_TIMEOUT = 20.0
"""Seconds; also what 256 KiB may take on their way to the network."""

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables that name the server."""


class Connection:
    """boto3's client for S3, and a quicker way for what thousands of small files take."""

    def __init__(self, config: S3Config) -> None:
        """Connect, which sends nothing yet."""
        import botocore.session
        from botocore import UNSIGNED
        from botocore.config import Config

        for name in _ENDPOINTS:
            if not config.endpoint and os.environ.get(name):
                require_endpoint(name, os.environ[name])
        self._session = botocore.session.Session(profile=config.profile)
        # boto3's own reads a time in 50 µs, as long as all the rest of a listing's entry takes.
        parsers = self._session.get_component("response_parser_factory")
        parsers.set_parser_defaults(timestamp_parser=seconds)
        self._timeout = config.read_timeout
        self._client = self._session.create_client(
            "s3",
            region_name=config.region or os.environ.get("AWS_REGION") or None,
            endpoint_url=config.endpoint,
            config=Config(
                connect_timeout=min(_CONNECT_TIMEOUT, config.read_timeout),
                read_timeout=config.read_timeout,
                max_pool_connections=config.connections,
                retries={"total_max_attempts": 1, "mode": "standard"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                tcp_keepalive=True,
                s3={
                    "payload_signing_enabled": False,
                    **({"addressing_style": "path"} if config.path_style else {}),
                },
                **({} if config.sign else {"signature_version": UNSIGNED}),
            ),
        )
        events = self._client.meta.events
        for operation in ("GetObject", "PutObject"):
            events.register(f"before-parameter-build.s3.{operation}", self._note_key)
            events.register(f"before-send.s3.{operation}", self._note_request)
        events.register_last("before-call.s3", _send_at_once)
        self._methods = {_camel(name): name for name in dir(self._client) if name[0] != "_"}
        self._noted = threading.local()
        self._following = threading.Lock()
        self._quick: Quick | None = None

    def method(self, operation: str) -> Any:
        """The method of the client for an operation of the API."""
        return getattr(self._client, self._methods[operation])

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()
        if self._quick is not None:
            self._quick.close()

    def quick(self) -> Quick | None:
        """The quick way to put and get objects; None as long as boto3 has not shown it."""
        route: Route | None = getattr(self._noted, "route", None)
        if route is not None:
            self._noted.route = None
            with self._following:
                self._quick = self._quick or self._follow(route)
        return self._quick

    def _note_key(self, params: dict[str, Any], **_: Any) -> None:
        """Keep which object this thread's next request is about."""
        self._noted.key = params["Key"]

    def _note_request(self, request: Any, **_: Any) -> None:
        """Keep where the request goes to, and how it is signed."""
        signed = request.headers.get("Authorization", "")
        signed = signed.decode() if isinstance(signed, bytes) else signed
        self._noted.route = route_of(request.url, self._noted.key, signed)

    def _follow(self, route: Route) -> Quick | None:
        import ssl

        from botocore.httpsession import get_cert_path
        from botocore.utils import get_environ_proxies

        if get_environ_proxies(f"{route.scheme}://{route.host}"):
            return None
        trusted = self._session.get_config_variable("ca_bundle") or get_cert_path(True)
        tls = ssl.create_default_context(cafile=trusted) if route.scheme == "https" else None
        return Quick(route, self._keys, tls, self._timeout)

    def _keys(self) -> Keys:
        now = self._session.get_credentials().get_frozen_credentials()
        return Keys(now.access_key, now.secret_key, now.token)


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """Ask before a large body is sent whether it is welcome, not before a small one."""
    if not isinstance(params.get("body"), Body):
        params["headers"].pop("Expect", None)


def _camel(name: str) -> str:
    """The API's name of a method: ``list_objects_v2`` is ``ListObjectsV2``."""
    return "".join(word.capitalize() for word in name.split("_"))
