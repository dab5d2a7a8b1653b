"""Text on its way to a terminal."""

from __future__ import annotations

import pytest

from flask_jobrunner.cli.output import clip, count, one_line, safe, table, width_of


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain, gr\u00fc\u00dfe, \u4f60\u597d\ttab", "plain, gr\u00fc\u00dfe, \u4f60\u597d\ttab"),
        ("two\nlines", "two\nlines"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb\x00\x9b2J", "a\\x0db\\x00\\x9b2J"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_a_terminal_would_act_upon_is_shown(written: str, shown: str) -> None:
    assert safe(written) == shown


def test_colours_pass_when_allowed_and_are_closed() -> None:
    assert safe("a\x1b[31mb\x1b[2Kc", colours=True) == "a\x1b[31mb\\x1b[2Kc\x1b[0m"
    assert safe("none", colours=True) == "none"


def test_a_cell_is_one_line() -> None:
    assert one_line("a\n\tb  c\x1b[31m") == "a b c"


def test_width_counts_columns() -> None:
    assert width_of("abc") == 3
    assert width_of("\u4f60\u597d") == 4
    assert width_of("e\u0301") == 1
    assert width_of("\x1b[1mab\x1b[0m") == 2


def test_cutting_leaves_an_ellipsis_and_no_half_character() -> None:
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdef", 4) == "abc\u2026"
    assert clip("\u4f60\u597d\u4f60", 4) == "\u4f60\u2026"


def test_a_table_gives_way_where_it_may() -> None:
    rows = [["1", "a very long title indeed"], ["22", "short"]]

    assert table(["id", "title"], rows)[1] == "1   a very long title indeed"
    assert table(["id", "title"], rows, give=[1], width=14) == [
        "ID  TITLE",
        "1   a very lo\u2026",
        "22  short",
    ]
    assert max(map(len, table(["id", "title"], rows, give=[1], width=3))) <= 12


def test_counting() -> None:
    assert (count(1, "line"), count(2000, "line")) == ("1 line", "2,000 lines")
