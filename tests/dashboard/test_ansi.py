"""Colours of terminal output on the page: classes only, everything escaped, bounded."""

from __future__ import annotations

import random
import re

import pytest

from flask_jobrunner.dashboard.ansi import SPANS, coloured
from flask_jobrunner.dashboard.format import plain
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines


def span(classes: str, text: str) -> str:
    return f'<span class="{classes}">{text}</span>'


@pytest.mark.parametrize(
    ("raw", "markup"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        ("\x1b[31mred\x1b[0m <i>", span("c1", "red") + " &lt;i&gt;"),
        ("\x1b[31m<script>alert(1)</script>", span("c1", "&lt;script&gt;alert(1)&lt;/script&gt;")),
        ('\x1b[1;4;32m"a"\x1b[22m b\x1b[m c', span("c2 bold ul", "&#34;a&#34;")
            + span("c2 ul", " b") + " c"),
        ("\x1b[91mx\x1b[39my", span("c9", "x") + "y"),
        ("\x1b[41;37mx", span("c1 g", "x")),
        ("\x1b[7mx\x1b[27my", span("g", "x") + "y"),
        ("\x1b[7;34mx", span("c4 g", "x")),
        ("\x1b[2mx\x1b[0m\x1b[3;9my", span("dim", "x") + span("it st", "y")),
        ("\x1b[38;5;9mx", span("c9", "x")),
        ("\x1b[38;5;196mx", span("c9", "x")),
        ("\x1b[38;5;240mx", span("c8", "x")),
        ("\x1b[38;2;250;10;10mx", span("c9", "x")),
        ("\x1b[38:2::250:10:10mx", span("c9", "x")),
        ("\x1b[48;5;21mx", span("c4 g", "x")),
        ("\x1b[58;5;9;1mx", span("bold", "x")),
        ("\x1b[4:3mx", span("ul", "x")),
        ("\x9b31mx", span("c1", "x")),
        ("\x1b[31m\x1b[31m\x1b[0m", ""),
        ("\x1b[38;5mx", span("c0", "x")),
        ("\x1b[38;5;999mx\x1b[38;9mx\x1b[1000mx", "xxx"),
        ("\x1b[?25lx\x1b[2Ky\x1b[3;4Hz", "xyz"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x07", "link"),
        ("10%\r\x1b[32m20%\x1b[0m", span("c2", "20%")),
        ("\x1b[>4;1mx", "x"),
    ],
)  # fmt: skip
def test_styles_become_classes(raw: str, markup: str) -> None:
    assert coloured(raw) == (markup, 0)


def test_a_long_line_is_cut_where_it_can_be_seen() -> None:
    markup, cut = coloured("\x1b[31m" + "<" * 30 + "\x1b[32m" + "y" * 30, 40)
    assert markup == span("c1", "&lt;" * 30) + span("c2", "y" * 10)
    assert cut == 20
    assert coloured("<" * 30, 10) == ("&lt;" * 10, 20)


def test_the_number_of_spans_is_bounded() -> None:
    text = "".join(f"\x1b[3{number % 8}mx" for number in range(5000))
    markup, cut = coloured(text)
    assert markup.count("<span") == SPANS
    assert re.sub("<[^>]*>", "", markup) == "x" * 5000
    assert cut == 0


@pytest.mark.parametrize("seed", range(50))
def test_no_output_makes_markup_of_its_own(seed: int) -> None:
    source = random.Random(seed)
    pieces = [
        "\x1b[",
        "\x1b",
        "m",
        "31",
        ";",
        ":",
        "<",
        '"',
        "'",
        "&",
        "\x9b",
        "\x07",
        "]",
        "é",
        "K",
    ]
    text = "".join(source.choices(pieces, k=200))
    markup, _ = coloured(text)
    assert set(re.findall("<[^>]*>", markup)) <= set(
        re.findall(r'<span class="[a-z0-9 ]+">|</span>', markup)
    )
    assert markup.unescape() == re.sub("<[^>]*>", "", markup.unescape()) or "<" in plain(text)
    assert re.sub("</?span[^>]*>", "", markup) == str(coloured(plain(text))[0])


def test_colours_are_on_every_page_that_shows_lines(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["\x1b[31m<red>\x1b[0m"])
    for path in (f"/{uuid}", f"/{uuid}/log"):
        assert '<span><span class="c1">&lt;red&gt;</span></span>' in host.get(path).text
