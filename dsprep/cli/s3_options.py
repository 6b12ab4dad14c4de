"""How S3 is reached and how objects are kept there: options, named as AWS's own tools do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dsprep.cli.help import option_group
from dsprep.cli.options import parse_pairs, together
from dsprep.errors import OptionError

if TYPE_CHECKING:
    from dsprep.storage.s3.config import S3Config

_s3 = option_group("S3")
_objects = option_group("Objects")

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")

_IN_HEADERS = {"--storage-class": "storage_class", "--sse-kms-key-id": "kms_key", "--acl": "acl"}
"""Options whose values travel in HTTP's headers as they are, and what they are called here."""

_MOST_TAGS = 10
_LONGEST_TAG = 128
_LONGEST_TAG_VALUE = 256

s3_options = together(
    _s3("--profile", metavar="NAME", help="Credentials of this profile in AWS's files."),
    _s3("--region", metavar="NAME", help="Region of the bucket."),
    _s3("--endpoint-url", "endpoint", metavar="URL", help="Server, if it is not AWS."),
    _s3("--path-style", is_flag=True, help="Bucket in the path, not in the host name."),
    _s3("--no-sign-request", "unsigned", is_flag=True, help="No credentials: for public buckets."),
    _s3(
        "--request-payer",
        type=click.Choice(["requester"]),
        help="Pay for requests to buckets whose owners do not.",
    ),
)

object_options = together(
    _objects("--storage-class", metavar="CLASS", default="", help="Such as STANDARD_IA."),
    _objects(
        "--sse",
        type=click.Choice(["AES256", "aws:kms", "aws:kms:dsse"]),
        default=None,
        help="Encryption by the server.",
    ),
    _objects("--sse-kms-key-id", "kms_key", metavar="ID", default="", help="Its key in KMS."),
    _objects("--acl", metavar="ACL", default="", help="Such as bucket-owner-full-control."),
    _objects("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag of each object."),
    _objects("--metadata", metavar="NAME=VALUE", multiple=True, help="Metadata of each object."),
)


def take_config(options: dict[str, Any]) -> S3Config:
    """Take these options out of all others."""
    from dsprep.storage.s3.config import S3Config, require_endpoint

    if options["endpoint"]:
        require_endpoint("--endpoint-url", options["endpoint"])
    for option, name in _IN_HEADERS.items():
        value = options.get(name)
        if value and not _HEADER_VALUE.fullmatch(value):
            raise OptionError(f"{option} {value}: is not of printable ASCII characters")
    return S3Config(
        profile=options.pop("profile"),
        region=options.pop("region"),
        endpoint=options.pop("endpoint"),
        path_style=options.pop("path_style"),
        sign=not options.pop("unsigned"),
        request_payer=options.pop("request_payer") is not None,
        storage_class=options.pop("storage_class", ""),
        sse=options.pop("sse", None) or "",
        kms_key=options.pop("kms_key", ""),
        acl=options.pop("acl", ""),
        tags=_parse_tags(options.pop("tags", ())),
        metadata=_parse_metadata(options.pop("metadata", ())),
    )


def _parse_metadata(pairs: tuple[str, ...]) -> Mapping[str, str]:
    """Read metadata, which travels in HTTP's headers."""
    metadata = parse_pairs(pairs, "--metadata")
    for name, value in metadata.items():
        if not _HEADER_NAME.fullmatch(name):
            raise OptionError(
                f"--metadata {name}={value}: names of metadata are of ASCII letters, digits and "
                "characters such as - and _"
            )
        if not _HEADER_VALUE.fullmatch(value):
            raise OptionError(
                f"--metadata {name}={value}: metadata is of printable ASCII characters, without "
                "blanks around it"
            )
    return metadata


def _parse_tags(pairs: tuple[str, ...]) -> Mapping[str, str]:
    tags = parse_pairs(pairs, "--tag")
    if len(tags) > _MOST_TAGS:
        raise OptionError(f"--tag: an object has {_MOST_TAGS} tags at most, not {len(tags)}")
    for name, value in tags.items():
        if len(name) > _LONGEST_TAG or len(value) > _LONGEST_TAG_VALUE:
            raise OptionError(
                f"--tag {name}={value}: a tag's name has {_LONGEST_TAG} characters at most, its "
                f"value {_LONGEST_TAG_VALUE}"
            )
        if not (name + value).isprintable():
            raise OptionError(f"--tag {name}={value}: tags are of printable characters")
    return tags
