"""Jobs of SageMaker, as the model of the service that botocore has judges them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import botocore.loaders
import botocore.model
import botocore.validate

Job: TypeAlias = Callable[..., dict[str, Any]]
"""Calls `dsprep.sagemaker` and returns the job's JSON, if the service would take it."""

_LOADER = botocore.loaders.Loader()

PREFIX = "s3://amzn-s3-demo-bucket/birds"


@cache
def service() -> botocore.model.ServiceModel:
    """The model of the service."""
    return botocore.model.ServiceModel(_LOADER.load_service_model("sagemaker", "service-2"))


def judge(request: str, job: dict[str, Any]) -> None:
    """Fail if the service would refuse the JSON of a request."""
    shape = service().operation_model(request).input_shape
    found = botocore.validate.ParamValidator().validate(job, shape)
    assert not found.has_errors(), found.generate_report()
    wrong = list(unfit(shape, job))
    assert not wrong


def unfit(shape: Any, value: Any, place: str = "") -> Any:
    """Find values that are none of an enumeration, too long, or not of a pattern.

    The service checks these, and botocore does not. What the user has to replace is passed over.
    """
    if shape.type_name == "structure":
        for name, item in value.items():
            yield from unfit(shape.members[name], item, f"{place}.{name}")
    elif shape.type_name == "list":
        for item in value:
            yield from unfit(shape.member, item, place)
    elif shape.type_name == "map":
        for item in value.values():
            yield from unfit(shape.value, item, place)
    elif shape.type_name == "string" and "REPLACE" not in value:
        about = shape.metadata
        if value not in about.get("enum", [value]) or len(value) > about.get("max", len(value)):
            yield place, value
        if not re.fullmatch(about.get("pattern", ".*"), value, re.DOTALL):
            yield place, value


def on_s3(channel: dict[str, Any]) -> dict[str, Any]:
    source: dict[str, Any] = channel["DataSource"]["S3DataSource"]
    return source
