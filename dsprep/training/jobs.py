"""What the training jobs and the processing jobs of SageMaker have in common."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from dsprep.errors import OptionError
from dsprep.storage.location import is_s3, parse_url
from dsprep.training.options import SagemakerOptions

MISSING = {
    "image": "REPLACE with the URI of the container image",
    "role": "REPLACE with the ARN of the role",
    "output": "s3://REPLACE-with-a-bucket/output/",
}
"""What stands in the JSON for options that were not given."""

STOPPING = {"MaxRuntimeInSeconds": 86_400}

CPU, GPU = "ml.m5.xlarge", "ml.g5.xlarge"
"""The default types of instances, without and with a GPU."""

WILD = re.compile(r"[*?\[{]")
"""What makes a name a pattern, unless a file is called so."""

_SPARE = 10  # GiB of a volume besides the data, for the model and checkpoints


def vpc_of(ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the network of a job: its subnets and security groups, by the names that they have."""
    found = {
        "SecurityGroupIds": [each for each in ids if each.startswith("sg-")],
        "Subnets": [each for each in ids if each.startswith("subnet-")],
    }
    for each in ids:
        if not each.startswith(("sg-", "subnet-")):
            raise OptionError(f"--vpc {each}: is neither a subnet (subnet-…) nor a group (sg-…)")
    if not all(found.values()):
        raise OptionError(
            f"--vpc {','.join(ids)}: give subnets and security groups: subnet-1234,sg-5678"
        )
    return found


def resources(options: SagemakerOptions, size: int, instance: str) -> dict[str, Any]:
    """Return the instances, with room for the data that is downloaded to each."""
    return {
        "InstanceType": options.instance_type or instance,
        "InstanceCount": options.instances,
        "VolumeSizeInGB": math.ceil(size / (1 << 30)) + _SPARE,
    }


def needs_upload(place: str) -> bool:
    """Return whether a job cannot read a place where it is: SageMaker brings it from S3."""
    return not is_s3(place)


def url_of(place: str, prefix: object, *above: str) -> str:
    """Return where a place is on S3; one on this disk will be below ``prefix``."""
    url = place
    if needs_upload(place):
        if prefix is None:
            raise OptionError(f"{place}: give --prefix s3://BUCKET/PATH, where it is on S3")
        url = os.path.join(str(prefix), *above, os.path.basename(os.path.abspath(place)))
    parse_url(url)
    return url
