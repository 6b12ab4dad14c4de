"""Elements of XML that are read one at a time, and hostile files."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from dsprep.annotations.elements import root_of
from dsprep.errors import SourceError
from dsprep.sources.annotated import xml_file
from dsprep.sources.annotated.xml_file import children_of


class Slow(BytesIO):
    """A file that gives one byte at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(1)


@pytest.mark.parametrize("kind", [BytesIO, Slow])
def test_elements_and_their_places(kind: Any) -> None:
    data = (
        '﻿<?xml version="1.0" encoding="UTF-8"?>\n<!-- a -->\n<all x="1">ü<a/><b n="&lt;ä">t<c>'
        "u</c>v</b>\n<!-- <d/> -->\n<a\n/ >\n</all>\n"
    ).replace("/ >", "/>")
    found = list(children_of(kind(data.encode()), "x.xml", "all"))
    assert [each.tag for *_, each in found] == ["a", "b", "a"]
    for offset, size, element in found:
        again = root_of(data.encode()[offset : offset + size])
        assert (again.tag, again.attrib) == (element.tag, element.attrib)
        assert list(again.itertext()) == list(element.itertext())
    assert found[1][-1].attrib == {"n": "<ä"}


BOMB = '<!DOCTYPE a [<!ENTITY b "cc">]><all><a>&b;</a></all>'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is no XML, or ends early: no element found"),
        (b"<all><a></all>", "is no XML, or ends early: mismatched tag"),
        (b"<all><a/>", "is no XML, or ends early: no element found"),
        (b"<all><a/></all>x", "is no XML, or ends early: junk after document"),
        (b"<other><a/></other>", "begins with <other>, not with <all>"),
        (BOMB.encode(), "declares entities, which are not read"),
        (b"<all>" + b"<a>" * 10**6, "has more than 32 elements in one another"),
        ("<all/>".encode("utf-16"), "is UTF-16: save the file as UTF-8"),
        (b"<?xml version='1.0' encoding='latin-1'?><all>\xe9</all>", "has the encoding latin-1"),
        (b"<all>\xe9</all>", "is no XML, or ends early: not well-formed"),
        (b"<all><a x='" + b"y" * (1 << 21), "has an element of more than 65,536 bytes"),
    ],
)
def test_hostile_files(data: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_file, "_LONGEST", 1 << 16)
    with pytest.raises(SourceError) as caught:
        list(children_of(BytesIO(data), "x.xml", "all"))
    assert str(caught.value).startswith(f"x.xml: {why}")


def test_a_hostile_element() -> None:
    for data in (BOMB.encode(), b"<a>" * 33 + b"</a>" * 33, b"<a/><b/>", b""):
        with pytest.raises(ValueError, match=r"entities|in one another|is no XML"):
            root_of(data)
