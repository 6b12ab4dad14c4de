"""YOLO's texts and data.yaml, judged by ultralytics' check of labels and by PyYAML."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dsprep.annotations.objects import SHARES
from dsprep.annotations.yolo import Pose, parse, parse_data_yaml

CLASSES = 3


def ultralytics(text: str, pose: Pose | None) -> Any:
    """``verify_image_label`` of ultralytics 8.4, written out: class and box of each row."""
    rows = [line.split() for line in text.strip().splitlines() if len(line)]
    if any(len(row) > 6 for row in rows) and pose is None:
        classes = np.array([row[0] for row in rows], dtype=np.float32)
        segments = [np.array(row[1:], dtype=np.float32).reshape(-1, 2) for row in rows]
        low, high = (np.array([end(each) for each in segments]) for end in (_low, _high))
        found = np.concatenate((classes[:, None], (low + high) / 2, high - low), 1)
    else:
        found = np.array(rows, dtype=np.float32)
    if not len(found):
        return np.zeros((0, 5))
    if pose is not None:
        assert found.shape[1] == 5 + pose[0] * pose[1]
        points = found[:, 5:].reshape(-1, pose[1])[:, :2]
    else:
        assert found.shape[1] == 5
        points = found[:, 1:]
    assert points.max() <= 1.01
    assert found.min() >= -0.01
    assert found[:, 0].max() < CLASSES
    return np.unique(found, axis=0)


def _low(points: Any) -> Any:
    return points.min(0)


def _high(points: Any) -> Any:
    return points.max(0)


@pytest.mark.parametrize(
    ("text", "pose"),
    [
        ("", None),
        ("0 0.5 0.5 0.2 0.2\n2 0.1 0.1 0.2 0.2\n", None),
        ("0 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.2\n", None),
        ("1 0.5 0.5 1.005 1\n", None),
        ("1 -0.005 0.5 0.1 0.1\n", None),
        ("0 0.1 0.1 0.3 0.1 0.2 0.4\n1 0.1 0.1 0.3 0.1 0.2 0.4 0.1 0.2 0 0\n", None),
        ("0 0.5 0.5 0.2 0.2 0.4 0.4 2 0 0 0\n", (2, 3)),
        ("0 0.5 0.5 0.2 0.2 0.4 0.4 0.1 0.2\n", (2, 2)),
        ("3 0.5 0.5 0.2 0.2\n", None),
        ("0 0.5 0.5 0.2 1.02\n", None),
        ("0 -0.02 0.5 0.2 0.2\n", None),
        ("0 nan 0.5 0.2 0.2\n", None),
        ("0 0.5 0.5 0.2 0.2 0.9\n", None),
        ("0 0.5 0.5 0.2\n", None),
        ("0 0.1 0.1 0.3 0.1 0.2 0.4 0.1\n", None),
        ("0 0.5 0.5 0.2 0.2\n", (2, 3)),
        ("a 0.5 0.5 0.2 0.2\n", None),
    ],
)
def test_as_ultralytics_reads_it(text: str, pose: Pose | None) -> None:
    try:
        wanted = ultralytics(text, pose)
    except (AssertionError, ValueError):
        with pytest.raises(ValueError, match="."):
            parse(text.encode(), CLASSES, pose)
        return
    found = parse(text.encode(), CLASSES, pose)
    assert found.extent == SHARES
    rows = [
        (each.number, (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
        for each in found.items
        for x0, y0, x1, y1 in [each.box]
    ]
    assert np.allclose(sorted(rows), wanted[:, :5].tolist(), atol=1e-6)


NAME = st.text(st.sampled_from("ab z0-'\"#:,[]{}&*!é\\"), min_size=1, max_size=8)


@given(st.lists(NAME, min_size=1, max_size=4, unique=True), st.sampled_from([None, True, False]))
def test_names_as_yaml_writes_them(names: list[str], flow: bool | None) -> None:
    values: dict[str, Any] = {"train": "images/train", "nc": len(names)}
    for form in (names, dict(enumerate(names))):
        text = yaml.safe_dump(
            values | {"names": form}, default_flow_style=flow, allow_unicode=True, width=10_000
        )
        told = parse_data_yaml(text)
        assert told.names == tuple(names)
        assert told.sides == {"train": ["images/train"]}


@pytest.mark.parametrize(
    "names",
    [
        "names: &x [cat, dog]",
        "classes: &x [cat, dog]\nnames: *x",
        "names:\n- >-\n  cat\n- |-\n  dog",
        'names: ["ca\\\n  t", dog]',
        "names: !list\n- !!str cat\n- dog",
        "? names\n: [cat,\n  dog]",
        "%YAML 1.1\n---\nnames: {1: dog, 0: cat}\n...",
        "download: |\n  names: [a]\n  names: [b]\nnames: [cat, dog]",
        "{names: [cat, dog], more: {a: 1, a: 2}}",
    ],
)
def test_yaml_is_read_in_all_its_forms(names: str) -> None:
    assert parse_data_yaml(names).names == ("cat", "dog")


@pytest.mark.parametrize(
    "key", ["train: b\nval: c\ntrain: b", "names:\n  0: a\n  0: b", "a:\n\na:"]
)
def test_a_key_that_is_there_twice_is_refused_with_its_line(key: str) -> None:
    with pytest.raises(ValueError, match="line 3: the key '.*' is there twice"):
        parse_data_yaml(key)


@given(st.text(st.sampled_from("ab \n\t-:#,[]{}'\"&*!|0\\"), max_size=40))
def test_whatever_is_read_is_what_yaml_says(text: str) -> None:
    text = f"names: {text}"
    try:
        told = parse_data_yaml(text)
    except ValueError:
        return
    try:
        names = yaml.load(text, yaml.BaseLoader)["names"]
    except (yaml.YAMLError, TypeError, KeyError):
        pytest.fail(f"read, though YAML does not allow it: {text!r}")
    if told.names is not None and names:
        values = names.values() if isinstance(names, dict) else names
        assert told.names == tuple(values)
