"""Pages of the templates beside this module. Every value is escaped, and nothing else is loaded."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsprep.printable import visible
from dsprep.storage.local import read_whole

_HERE = Path(__file__).parent
_LONGEST = 2000  # maximum number of characters of a value


def is_page(data: bytes) -> bool:
    """Return whether a file is a page that :func:`render` has made."""
    return b'content="dsprep"' in data[:200]


def render(template: str, title: str, values: Mapping[str, Any]) -> str:
    """Return a page of a template and its values; :func:`drawing` marks drawings.

    Styles and a script of the template's name are added. In all values, what cannot be seen, and
    what turns text around, is written as an escape; no value has more than 2,000 characters.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value)[:_LONGEST] if type(value) is str else value,
    )
    own = {each.suffix: each for each in _HERE.glob(f"{Path(template).stem}.*")}
    style, script = (
        "".join(read_whole(each).decode() for each in files if each)
        for files in ([_HERE / "page.css", own.get(".css")], [own.get(".js")])
    )
    # The policy names the style and the script by their hashes: no other one takes effect.
    common = {"title": title, "style": drawing(style), "style_hash": _hash_of(style)}
    common |= {"script": drawing(script), "script_hash": _hash_of(script)}
    return environment.get_template(template).render(**common, **values) + "\n"


def _hash_of(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def drawing(text: str) -> Any:
    """Mark text of :mod:`dsprep.pages.charts`, which is escaped already."""
    import markupsafe

    return markupsafe.Markup(text)
