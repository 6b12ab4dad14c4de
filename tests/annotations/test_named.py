"""Objects whose classes have names, and rows of the files that tell them."""

from __future__ import annotations

import pytest

from dsprep.annotations.named import NamedObjects, most_json, numbered, numbers_in, read_rows
from dsprep.annotations.objects import Object, Objects, to_json

PLAIN = Object((1, 2, 3, 4), -1)
SHAPE = PLAIN._replace(polygons=((1, 2, 3, 4, 5, 6),), more={"a": "ü"})


def test_classes_get_their_numbers() -> None:
    found = NamedObjects([("b", PLAIN), ("a", SHAPE)], (40, 20))
    assert numbered(found, {"a": 7, "b": 0}) == Objects(
        (PLAIN._replace(number=0), SHAPE._replace(number=7)), (40, 20)
    )
    with pytest.raises(ValueError, match="the class 'b' is not among the 1 classes"):
        numbered(found, {"a": 0})


def test_the_size_in_json_is_not_too_small() -> None:
    assert most_json(NamedObjects([("a", PLAIN)] * 9)) == 0
    alone = to_json(Objects((SHAPE,)))
    assert most_json(NamedObjects([("a", PLAIN), ("a", SHAPE)])) == len(alone.encode())


def test_rows_tell_their_line() -> None:
    assert read_rows(b"\xef\xbb\xbf1 2\r\n\n  \n3\t4", numbers_in) == [(1, 2), (3, 4)]
    for text in (b"1\n\n2 x\n", b"1\n\ninf\n", b"1\n\n1e40\n"):
        with pytest.raises(ValueError, match="^line 3: "):
            read_rows(text, numbers_in)
    with pytest.raises(ValueError, match="is not UTF-8"):
        read_rows(b"\xff", numbers_in)
