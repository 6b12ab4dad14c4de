"""How S3 is reached and how objects are kept there: options, named as AWS's own tools do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dsprep.cli.help import option_group
from dsprep.cli.options import parse_pairs, together

if TYPE_CHECKING:
    from dsprep.stores.s3_config import S3Config

_s3 = option_group("S3")
_objects = option_group("Objects")

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
    from dsprep.stores.s3_config import S3Config

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
        tags=parse_pairs(options.pop("tags", ()), "--tag"),
        metadata=parse_pairs(options.pop("metadata", ()), "--metadata"),
    )
