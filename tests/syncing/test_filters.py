"""Which files take part: the last rule that matches wins, as with AWS's command line."""

from __future__ import annotations

import pytest

from dsprep.syncing.filters import Filters, Rule


@pytest.mark.parametrize(
    ("rules", "path", "admitted"),
    [
        ("", "a.tar", True),
        ("-*", "a.tar", False),
        ("-* +*.tar", "a.tar", True),
        ("-* +*.tar", "deep/er/a.tar", True),
        ("-* +*.tar", "a.idx", False),
        ("+*.tar -*", "a.tar", False),
        ("-tmp/*", "tmp/a/b", False),
        ("-tmp/*", "other/tmp/a", True),
        ("-?.tar", "a.tar", False),
        ("-?.tar", "ab.tar", True),
        ("-[ab].tar", "b.tar", False),
        ("-A.tar", "a.tar", True),
        ("-*.tar", "line\nbreak.tar", False),
    ],
)
def test_the_last_match_wins(rules: str, path: str, admitted: bool) -> None:
    made = [Rule(rule[0] == "+", rule[1:]) for rule in rules.split()]
    assert Filters(made).admit(path) is admitted


@pytest.mark.parametrize(
    ("rules", "unseen", "may"),
    [
        ("", "tmp/", True),
        ("-tmp/*", "tmp/", False),
        ("-tmp*", "tmp/", False),
        ("-tmp", "tmp/", True),
        ("-tmp/*.tar", "tmp/", True),
        ("-*", "tmp/", False),
        ("-* +*.tar", "tmp/", True),
        ("+*.tar -*", "tmp/", False),
        ("-tmp/*", "tmp", True),
        ("-tmp*", "tmp", False),
    ],
)
def test_what_may_take_part_of_what_was_not_seen(rules: str, unseen: str, may: bool) -> None:
    made = [Rule(rule[0] == "+", rule[1:]) for rule in rules.split()]
    assert Filters(made).may_admit(unseen) is may
