"""The glossary of docs/architecture.md: one word for one thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.test_architecture import PACKAGE, ROOMS, table_below
from tests.house.test_docs import PAGE as COMMANDS
from tests.house.test_docs import PAGES

GLOSSARY = table_below("Glossary")
TERMS = [term for term, *_ in GLOSSARY]
OTHERS = [word for *_, others in GLOSSARY for word in filter(None, others.split(", "))]
MOST_CHARACTERS = 120
"""Of a meaning: one line."""
CORE = {"dataset", "plan", "run", "schema", "splits"}
WITHOUT_TERMS = {"cli", "pages"}
# What was called otherwise then, and what the glossary says.
PAST = {"changelog.md", "decisions.md"}


def test_each_term_stands_once_in_order_on_one_line() -> None:
    assert sorted(set(TERMS)) == TERMS
    assert not {*TERMS} & {*OTHERS}
    assert [meaning for _, meaning, _ in GLOSSARY if not 0 < len(meaning) <= MOST_CHARACTERS] == []


def texts() -> Iterator[tuple[str, str]]:
    """Yield the texts that users read, with their place: pages without code, and messages."""
    for page in PAGES:
        if page.name not in PAST:
            text = re.sub(r"(?ms)^## Glossary\n.*?^## ", "## ", page.read_text("utf-8"))
            blocks = r"(?ms)^```.*?^```" if page != COMMANDS else "(?!)"
            yield page.name, re.sub(rf"{blocks}|`[^`\n]+`", "", text)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{path.name}:{node.lineno}", re.sub(r"`[^`\n]+`", "", node.value)


def test_other_words_are_not_used() -> None:
    # A term may have such a word in it, as the Hub's name for its README.md has.
    terms = "|".join(re.escape(each) for each in TERMS if {*each.split()} & {*OTHERS})
    found = re.compile(rf"(?<![\w/.-])(?!{terms})({'|'.join(map(re.escape, OTHERS))})(?![\w/.-])")
    used = {f"{place}: {match[0]}" for place, text in texts() for match in found.finditer(text)}
    assert used == set(), "use the term of the glossary"


def test_docstrings_of_rooms_and_core_classes_use_terms() -> None:
    term = re.compile(rf"(?i)\b({'|'.join(TERMS)}|copies)(e?s)?\b")
    modules = {path: ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    rooms = (room / "__init__.py" for room in ROOMS if room.name not in WITHOUT_TERMS)
    described = {str(path): ast.get_docstring(modules[path]) for path in rooms}
    for path, tree in modules.items():
        if path.parent.name in CORE:
            classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
            described |= {each.name: ast.get_docstring(each) for each in classes}
    assert described
    assert [
        name
        for name, text in described.items()
        if text and not name.endswith("Options") and not term.search(text)
    ] == [], "say what it is by a term of the glossary"
