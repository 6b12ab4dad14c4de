"""The words of an SQL expression, and which of them do no harm.

SQL as polars has it reads files (``SELECT … FROM read_csv(…)``), and its aggregates would give all
samples one answer. So an expression is taken apart here first, and refused unless each of its words
is a column, a keyword or a function of one row's values. What is let through is for polars to read.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from dsprep.errors import OptionError

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ )
    | (?P<text> '(?:[^']|'')*' )
    | (?P<quoted> "(?:[^"]|"")*" )
    | (?P<number> (?:\d+(?:\.\d*)? | \.\d+) (?:[eE][-+]?\d+)? (?!\w) )
    | (?P<word> [^\W\d]\w*+ (?!['"]) )
    | (?P<comment> -- | /\* )
    | (?P<sign> <> | [<>=!]= | != | \|\| | !~ | [-+*/%=<>~(),\[\]] )
    """,
    re.VERBOSE,
)

KEYWORDS = frozenset(
    """
    AND ANY ARRAY AS BETWEEN CASE ELSE END FALSE ILIKE IN IS LIKE NOT NULL OR REGEXP RLIKE THEN TRUE
    WHEN XOR BIGINT BOOLEAN DOUBLE FLOAT INT INTEGER SMALLINT STRING TEXT VARCHAR
    """.split()  # noqa: SIM905 (a list of so many quotes cannot be read)
)
"""Those of expressions, and the types that ``CAST`` knows."""

FUNCTIONS = frozenset(
    """
    ABS CEIL CEILING EXP FLOOR LN LOG LOG10 LOG2 MOD POW POWER ROUND SIGN SQRT
    CHAR_LENGTH CONCAT ENDS_WITH LEFT LENGTH LOWER LTRIM OCTET_LENGTH REGEXP_LIKE REPLACE REVERSE
    RIGHT RTRIM STARTS_WITH STRPOS SUBSTR TRIM UPPER
    CAST COALESCE GREATEST IF IFNULL LEAST NULLIF TRY_CAST
    ARRAY_GET ARRAY_LENGTH ARRAY_MAX ARRAY_MEAN ARRAY_MIN ARRAY_SUM
    """.split()  # noqa: SIM905
)
"""Those whose result for a row follows from that row alone."""


def require_harmless(expression: str, columns: Collection[str]) -> None:
    """Refuse what is more than a question about one sample."""

    def refuse(position: int, problem: str) -> OptionError:
        return OptionError(f"--filter {expression!r}: at character {position + 1}: {problem}")

    position, named = 0, False
    while position < len(expression):
        token = _TOKEN.match(expression, position)
        if token is None or token.lastgroup == "comment":
            raise refuse(position, f"{expression[position:][:10]!r} is not understood")
        kind, text = token.lastgroup, token[0]
        is_call = expression[token.end() :].lstrip().startswith("(")
        if kind == "quoted":
            name = text[1:-1].replace('""', '"')
            if is_call or name not in columns:
                raise refuse(position, _unknown(name, columns))
            named = True
        elif kind == "word" and (upper := text.upper()) not in KEYWORDS:
            if is_call and upper not in FUNCTIONS:
                known = ", ".join(sorted(FUNCTIONS)).lower()
                raise refuse(position, f"no function {text} of one sample; there are {known}")
            if not is_call and text not in columns:
                raise refuse(position, _unknown(text, columns))
            named = named or not is_call
        position = token.end()
    if not named:
        raise OptionError(f"--filter {expression!r}: says nothing about samples; {_known(columns)}")


def _unknown(name: str, columns: Collection[str]) -> str:
    return f"there is no column {name}; {_known(columns)}"


def _known(columns: Collection[str]) -> str:
    return f"there are {', '.join(columns)}; text stands between single quotes"
