"""What a manifest says of the options is read back as it was, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsprep.errors import SourceError
from dsprep.images.transform import Transform


@pytest.mark.parametrize(
    "values",
    [
        *([], "x", None, 3, {"foo": 1}, {"resize": [1]}, {"resize": [1, 2, 3]}, {"resize": 1.5}),
        *({"resize": ["a", "b"]}, {"resize": True}, {"crop": 5}, {"crop": [2.0, 2]}, {"crop": []}),
        *({"enlarge": "x"}, {"enlarge": 1, "resize": 5}, {"quality": 90.5}, {"quality": "x"}),
        *({"encode": []}, {"encode": "gif"}, {"color": None}, {"filter": {}}),
    ],
    ids=str,
)
def test_a_transform_that_is_none_is_refused(values: Any) -> None:
    with pytest.raises(SourceError, match="transform"):
        Transform.from_json(values)


def test_a_transform_is_read_as_it_was() -> None:
    transform = Transform(resize=(8, 9), crop=(3, 4), enlarge=True, quality=77)
    assert Transform.from_json(json.loads(json.dumps(transform.to_json()))) == transform
