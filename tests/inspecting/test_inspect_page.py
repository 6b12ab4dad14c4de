"""The page of ``inspect -o``: what it shows, in a browser as well, and that it is only text."""

from __future__ import annotations

import re
import resource
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars
import pytest
from PIL import Image

import dsprep
from dsprep.errors import DestinationError, OptionError
from dsprep.inspecting import inspect_page
from dsprep.inspecting.pictures import Picture
from tests.browser import Browser
from tests.conftest import Finished
from tests.images import jpeg
from tests.inspecting.conftest import texture

Seen = tuple[dsprep.InspectReport, Path]

HOSTILE = (
    "<script>document.title = 'run'</script>",
    "</title></style></script><script>document.title = 'run'</script>",
    '"><img src=x onerror="document.title=1">',
    "javascript:alert(1)",
    "it's & {{ 7 * 7 }} {% raw %}",
    "turned \u202egnp.exe \u2066 \x1b[31m",
    "x" * 10_000,
    "\u05e9\u05dc\u05d5\u05dd",
)

TEXTS = """[...document.querySelectorAll(".figures svg:not(.picture)")].flatMap(svg => {
    const box = svg.getBoundingClientRect()
    return [...svg.querySelectorAll("text")].filter(text => {
        const each = text.getBoundingClientRect()
        return each.left < box.left || each.right > box.right || each.bottom > box.bottom + 1
    }).map(text => text.textContent)
})"""
"""The texts that leave their drawing."""

TILES = """[...document.querySelectorAll(".tile")].filter(tile => {
    const box = tile.getBoundingClientRect()
    return tile.firstElementChild.getBoundingClientRect().width < 40
        || [...tile.querySelectorAll("figcaption > *")].some(
            each => each.getBoundingClientRect().right > box.right + 1)
}).length"""
"""How many pictures are too small, or have captions that leave them."""

ROWS = """[...document.querySelectorAll("tr[data-name]")].filter(
    row => !row.hidden).map(row => row.dataset.name)"""


class Words(HTMLParser):
    """The words of a page, its elements, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sides with a leak, copies of two classes, images to look at, and some that are broken."""
    root = tmp_path_factory.mktemp("data")
    for number in range(24):
        side, name = ("val", "train")[number % 3 > 0], ("cat", "dog", "owl")[number % 4 % 3]
        (root / side / name).mkdir(parents=True, exist_ok=True)
        texture(number, (100 + 9 * number, 80)).save(root / side / name / f"{number:02}<i>.jpg")
    Image.new("RGB", (64, 64)).save(root / "train" / "cat" / "flat.png")
    texture(50, (400, 50)).save(root / "train" / "cat" / "long.png")
    texture(51, (9, 9)).save(root / "train" / "cat" / "tiny.png")
    leak = next((root / "train" / "dog").iterdir())
    shutil.copy(leak, root / "val" / "cat" / "leak.jpg")
    (root / "val" / "dog" / "cut.jpg").write_bytes(leak.read_bytes()[:700])
    (root / "val" / "dog" / "none.jpg").write_bytes(b"no image \x1b[31m")
    return root


@pytest.fixture(scope="module")
def seen(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dsprep.InspectReport, Path]:
    page = tmp_path_factory.mktemp("page") / "report.html"
    return dsprep.inspect(folder, workers=1, output=page), page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of data whose paths, labels and reasons are those of an attacker."""
    root = tmp_path_factory.mktemp("hostile")
    for side in ("train", "val"):
        (root / side / "<script>alert(1)<").mkdir(parents=True)
    table = ["file,label"]
    for number, label in enumerate(HOSTILE):
        for side in ("train", "val"):
            path = f"{side}/<script>alert(1)</{number}\"'\u202e{side}.jpg"
            (root / path).write_bytes(jpeg(number, (80, 60)) if number else b"<b>broken</b>")
            cells = (each.replace('"', '""') for each in (path, label))
            table.append(",".join(f'"{each}"' for each in cells))
    labels = root.with_suffix(".csv")
    labels.write_text("\n".join(table), "utf-8")
    page = root / "report.html"
    dsprep.inspect([root], labels=labels, workers=1, output=page)
    return page


def test_the_page_shows_what_the_report_says(seen: Seen, folder: Path) -> None:
    report, page = seen
    text = page.read_text("utf-8")
    words = Words(text).text
    heads = re.findall(r'<h2 id="(\w+)"', text)
    assert heads == [
        *("summary", "copies", "suspects", "rejects", "classes", "distributions", "pictures")
    ]
    assert f"{report.samples} samples." in words
    # A leak comes first, and samples of both sides are beside each other.
    first = text[text.index('id="copies"') : text.index("</section>", text.index('id="copies"'))]
    assert "2 samples with the same bytes" in first
    assert re.findall('class="tag">([^<]*)', first) == ["on several sides", "different labels"]
    assert re.findall(r'class="side s\d">([^<]*)', first) == ["val", "train"]
    for suspect in report.suspects:
        assert f"{suspect.why}: 1" in words
    for reject in report.rejects:
        assert reject.path in words
    assert {each.path for each in report.rejects} == {"val/dog/cut.jpg", "val/dog/none.jpg"}
    for side in report.sides:
        for name, count in side.classes.items():
            row = re.search(rf'<tr data-name="{name}">.*?</tr>', text)
            assert row
            assert f">{count}<" in row[0]
    assert len(re.findall('<path class="area', text)) == 2 * len(report.sides[0].distributions)


def test_the_page_has_code_that_normalizes(seen: Seen) -> None:
    report, page = seen
    code = dict(re.findall(r"^(torchvision|tf|mx)\.[\w.]*\((.*)\)$", page.read_text(), re.M))
    channels = next(side.channels for side in report.sides if side.name == "train")
    assert channels is not None
    for name, args in code.items():
        assert name in ("torchvision", "tf", "mx")
        given = eval(f"dict({args.removeprefix('image, ')})")  # noqa: S307
        assert [*given.pop("mean")] == pytest.approx(channels.mean, abs=1e-4)
        (spread,) = given.values()
        power = 2 if name == "tf" else 1
        assert [*spread] == pytest.approx([each**power for each in channels.std], abs=1e-4)
    assert len(code) == 3


def test_what_data_says_is_text(hostile: Path) -> None:
    text = hostile.read_text("utf-8")
    found = Words(text)
    assert text.count("<script") == 1
    assert "img" not in found.tags
    assert not [name for name in found.attributes if name.startswith("on")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", text)
    for name in HOSTILE[:5]:
        assert name in found.text
    assert r"turned \u202egnp.exe \u2066 \x1b[31m" in found.text
    assert f"{'x' * 120}…" in found.text
    assert "x" * 121 not in found.text
    assert "not an image of a known kind (starts with b'<b>broke" in found.text
    # Only what is in the page itself: a place in it, or data.
    assert re.findall(r'(?:href|src)="(?!#p\d|#[a-z]|data:image/(?:jpeg|png);base64,)', text) == []
    assert "url(" not in text


def test_the_same_data_makes_the_same_page(folder: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        dsprep.inspect(folder, workers=workers, sample=20, output=tmp_path / f"{workers}.html")
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
    assert "30 samples, 20 of them looked at (seed 0)" in (tmp_path / "1.html").read_text()


def test_data_sets_are_compared(folder: Path, tmp_path: Path) -> None:
    data = [str(folder / side) for side in ("train", "val")]
    dsprep.inspect(data, workers=1, output=tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    for number, place in enumerate(data):
        assert f"<th>{place}</th>" in text
        assert f'<span class="side s{number}">…{place[-18:]}</span>' in text
    assert "on several sides" in text


def test_labels_that_are_numbers_are_distributed(tmp_path: Path) -> None:
    for number in range(6):
        texture(number, (40, 30)).save(tmp_path / f"{number}.png")
    rows = [f"{number}.png,{number / 2},{-number}" for number in range(6)]
    table, page = tmp_path / "labels.csv", tmp_path / "report.html"
    table.write_text("\n".join(["path,x,y", *rows]))
    columns = {"labels": table, "label_columns": ["x", "y"], "label_type": "float"}
    dsprep.inspect(tmp_path, output=page, **columns)
    assert "numbers of the label" in Words(page.read_text("utf-8")).text


def test_without_decoding_there_are_no_pictures(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    for _ in range(2):  # an older page is replaced
        dsprep.inspect(folder, decode=False, workers=1, output=page)
    text = page.read_text()
    assert "No pictures: --no-decode was given." in text
    assert "data:image" not in text
    assert 'id="distributions"' in text
    assert [*tmp_path.iterdir()] == [page]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nowhere/report.html", "nowhere: no such directory"),
        (".", "is a directory; give a file in it"),
        ("nowhere/looks.parquet", "nowhere: no such directory"),
        ("image.png", "image.png: is not of dsprep inspect, and is not replaced"),
        ("looks.csv", "looks.csv: give FILE.html for a page, FILE.parquet for a table"),
        ("other.parquet", "other.parquet: is not of dsprep inspect, and is not replaced"),
        ("s3://bucket/report.html", "s3://bucket/report.html: this cannot be written to S3"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("image.png").write_bytes(b"an image")
    polars.DataFrame({"path": ["a"]}).write_parquet("other.parquet")
    with pytest.raises((OptionError, DestinationError), match=re.escape(why)):
        dsprep.inspect("no-data", output=place)
    assert Path("image.png").read_bytes() == b"an image"


def test_a_full_disk_leaves_nothing(
    folder: Path, tmp_path: Path, run_here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # no compiled module is cut
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        done = run_here("inspect", folder, "--no-decode", "-o", tmp_path / "report.html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (done.code, [*tmp_path.iterdir()]) == (5, [])


def test_pictures_beyond_the_budget_are_left_out() -> None:
    large = "x" * 4_000_000
    found = {(0, row): Picture(9, 9, large, []) for row in range(5)}
    pictures, full = inspect_page._within_budget(dict.fromkeys(found), found, 13_000_000)
    shown = [each for each in pictures.values() if not isinstance(each, str)]
    assert (len(shown), full, len(pictures)) == (3, 2, 5)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_hostile_page_is_whole_and_asks_for_nothing(
    browser: Browser, hostile: Path, width: int, dark: bool
) -> None:
    view = browser.open(hostile, width, dark, (TEXTS, TILES, "document.title", ROWS))
    assert (view.loaded, view.requests, view.messages) == ([], [], [])
    assert view.overflow <= 0
    assert view.answers[:2] == [[], 0]
    assert view.answers[2] == str(hostile.parent)
    assert len(view.answers[3]) == len(HOSTILE)


def test_search_and_order(browser: Browser, seen: Seen) -> None:
    def search(text: str) -> str:
        return f"""(() => {{
            const input = document.querySelector("#search input")
            input.value = {text!r}
            input.dispatchEvent(new Event("input"))
            return document.querySelector("#search output").value
        }})()"""

    by_name = "document.querySelectorAll('#search input')[1].click()"
    tiles = """[...new Set([...document.querySelectorAll(".tile[data-name]")].filter(
        tile => tile.getBoundingClientRect().width).map(tile => tile.dataset.name))].sort()"""
    link = "location.hash = '#q=ow'; dispatchEvent(new Event('hashchange'))"
    injected = """document.body.append(Object.assign(document.createElement("script"),
        {text: "document.title = 'run'"})); document.title"""
    asked = (
        *(ROWS, tiles, search(" DO"), ROWS, tiles, search("nothing"), ROWS, search("")),
        *(by_name, ROWS, by_name, ROWS, link, ROWS, injected),
    )
    view = browser.open(seen[1], ask=asked)
    by_count = ["dog", "cat", "owl"] if view.answers[0][0] == "dog" else ["cat", "dog", "owl"]
    assert view.answers[:8] == [
        *(by_count, ["cat", "dog", "owl"], "1 of 3 classes", ["dog"], ["dog"]),
        *("0 of 3 classes", [], "3 of 3 classes"),
    ]
    assert view.answers[9] == ["cat", "dog", "owl"]
    assert view.answers[11] == by_count
    assert view.answers[13] == ["owl"]
    assert view.answers[14] != "run"  # the policy stops it


def test_without_its_script_the_page_shows_all(seen: Seen) -> None:
    text = seen[1].read_text()
    assert re.findall(r"<(\w+)[^>]* hidden", text) == ["div"]  # the search
