"""Pages of the templates beside this module. Every value is escaped, and nothing else is loaded."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dsprep.errors import OptionError
from dsprep.storage.local import read_whole

_HERE = Path(__file__).parent


def require_jinja() -> None:
    """Refuse to go on without the library that fills templates."""
    if find_spec("jinja2") is None:
        raise OptionError("jinja2 is not installed, and pages need it; pip install 'dsprep[bench]'")


def render(template: str, title: str, values: Mapping[str, Any]) -> str:
    """Return a page of a template and its values; :func:`drawing` marks drawings."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined
    )
    style = read_whole(_HERE / "page.css").decode()
    # The policy names the style by its hash: no other style, and no script, takes effect.
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    common = {"title": title, "style": drawing(style), "style_hash": f"sha256-{digest}"}
    return environment.get_template(template).render(**common, **values) + "\n"


def drawing(text: str) -> Any:
    """Mark text of :mod:`dsprep.pages.charts`, which is escaped already."""
    import markupsafe

    return markupsafe.Markup(text)
