"""The browser of the tests sees what pages do: so an empty list means that they do nothing."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser import Browser, requests_of, started
from tests.missing import need_commands

POLICY = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src *">'
RESTLESS = f"""{POLICY}<style>p {{ color: red }}</style>
<img src="https://elsewhere.test/a.png"><img src="http://127.0.0.1:80/b.png"><img src="c.png">
<script>alert(1)</script><p>text</p>"""
TALKING = """<script>
console.log("said", 1); document.body.append("written"); throw new Error("thrown")
</script><table width="700"><td>wide</td></table>"""


def test_it_sees_what_is_loaded_and_refused(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(RESTLESS)

    view = browser.open(page)

    assert sorted(view.loaded) == [
        (tmp_path / "c.png").as_uri(),
        "http://127.0.0.1/b.png",
        "https://elsewhere.test/a.png",
    ]
    assert sorted(each.split()[0] for each in view.requests) == ["CONNECT", "GET"]
    refused = [each for each in view.messages if "Content Security Policy" in each]
    assert len(refused) == 2, "a style and a script"


def test_what_chromium_asks_for_itself_is_not_the_pages(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(RESTLESS)
    place = urlsplit(browser.proxy)
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            with socket.create_connection((place.hostname, place.port)) as connection:
                connection.sendall(b"CONNECT www.google.com:443 HTTP/1.1\r\n\r\n")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        view = browser.open(page)
    finally:
        over.set()
        thread.join()

    hosts = {each.split()[1] for each in view.requests}
    assert hosts == {"elsewhere.test:443", "http://127.0.0.1/b.png"}


@pytest.mark.parametrize("hint", ["preconnect", "dns-prefetch", "prefetch"])
def test_it_sees_hosts_that_a_page_only_hints_at(hint: str) -> None:
    page = f'<link rel="{hint}" href="https://hinted.test/">'
    lines = ["CONNECT hinted.test:443 HTTP/1.1", "CONNECT www.google.com:443 HTTP/1.1"]
    assert requests_of(lines, page) == lines[:1]


def test_a_profile_that_was_used_before_changes_nothing(tmp_path: Path) -> None:
    need_commands("Chromium", "chromium", "bash")
    page = tmp_path / "page.html"
    page.write_text(f"<body>{TALKING}")
    for _ in range(2):
        with started(tmp_path / "profile") as browser:
            view = browser.open(page)
            assert (view.loaded, view.requests) == ([], [])


def test_it_sees_what_scripts_say_and_how_wide_a_page_is(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<body>{TALKING}")
    ask = ("matchMedia('(prefers-color-scheme: dark)').matches", "innerWidth")

    light, dark = browser.open(page, ask=ask), browser.open(page, 400, dark=True, ask=ask)

    assert (light.overflow, dark.overflow > 300) == (0, True)
    assert (light.answers, dark.answers) == ([False, 1280], [True, 400])
    for view in (light, dark):
        assert "written" in view.dom
        assert len(view.messages) == 2
        assert any(each == "console.log: said 1" for each in view.messages)
        assert (view.loaded, view.requests) == ([], [])
        assert view.picture.startswith(b"\x89PNG")
