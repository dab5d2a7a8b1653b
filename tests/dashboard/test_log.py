"""The log page: any part of the log, without a script; and how one line looks."""

from __future__ import annotations

import html
import re

import pytest

from flask_jobrunner.dashboard.format import plain
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines


@pytest.fixture
def long_log(host: Host) -> str:
    uuid = add_job(host.runtime, "succeeded")
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 3501)])
    return uuid


def numbers(body: str) -> list[int]:
    return [int(number) for number in re.findall(r'<p id="L(\d+)"', body)]


def hrefs(body: str) -> dict[str, str]:
    found = re.findall(r'<a href="([^"]+)">(First lines|Earlier|Later|Last lines)</a>', body)
    return {text: html.unescape(url).removeprefix("/jobs") for url, text in found}


def test_the_end_comes_first(host: Host, long_log: str) -> None:
    body = host.get(f"/{long_log}/log").text

    assert numbers(body) == list(range(2501, 3501))
    assert set(hrefs(body)) == {"First lines", "Earlier"}
    assert "Lines 2,501 to 3,500" in body


def test_every_line_is_reached_by_earlier_and_by_later(host: Host, long_log: str) -> None:
    body = host.get(f"/{long_log}/log").text
    seen = numbers(body)
    while "Earlier" in hrefs(body):
        body = host.get(hrefs(body)["Earlier"]).text
        seen = numbers(body) + seen
    assert seen == list(range(1, 3501))

    again = numbers(body)
    while "Later" in hrefs(body):
        body = host.get(hrefs(body)["Later"]).text
        again += [number for number in numbers(body) if number > again[-1]]
    assert again == list(range(1, 3501))


def test_a_line_stands_in_the_middle_of_its_page(host: Host, long_log: str) -> None:
    body = host.get(f"/{long_log}/log?line=2000").text

    assert numbers(body) == list(range(1500, 2500))
    assert '<p id="L2000"><a href="?line=2000#L2000">2000</a>' in body


@pytest.mark.parametrize(
    ("place", "first", "last"),
    [
        ("line=1", 1, 1000),
        ("line=0", 1, 1000),
        ("line=99999999999", 3000, 3500),
        ("before=1", None, None),
        ("before=2", 1, 1),
        ("before=9999999999999999999", 2501, 3500),
    ],
)
def test_a_place_beyond_the_log_is_clamped(
    host: Host, long_log: str, place: str, first: int | None, last: int | None
) -> None:
    found = numbers(host.get(f"/{long_log}/log?{place}").text)

    assert (found[0] if found else None) == first
    assert (found[-1] if found else None) == last


def test_a_page_of_an_empty_log_says_so(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")

    assert "This job wrote no log" in host.get(f"/{uuid}/log").text


@pytest.mark.parametrize(
    ("line", "mark", "css"),
    [
        ({"message": "m", "stream": "stdout"}, "out", None),
        ({"message": "m", "stream": "stderr"}, "err", "r"),
        ({"message": "m", "level": "warning"}, "warn", "w"),
        ({"message": "m", "level": "error"}, "error", "e"),
        ({"message": "m", "level": "debug"}, "debug", "d"),
    ],
)
def test_a_mark_tells_stream_and_level_in_a_word(
    host: Host, line: dict[str, str], mark: str, css: str | None
) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [line])

    body = host.get(f"/{uuid}").text

    attribute = f' class="{css}"' if css else ""
    assert f'<p id="L1"{attribute}>' in body
    assert f"<b>{mark}</b><span>m</span>" in body


def test_an_ordinary_line_has_no_mark(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["m"])

    body = host.get(f"/{uuid}").text
    assert re.search(r'<i data-o="[\d:]+">[\d:]{8}</i><span>m</span></p>', body)


def test_context_stands_behind_its_line(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [{"message": "read", "context": {"rows": 3, "file": "a b"}}])

    assert "<em>rows=3 file=&#34;a b&#34;</em>" in host.get(f"/{uuid}").text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;208mbold\x1b[m", "bold"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b(Btext", "text"),
        ("\x9b31mred", "red"),
        ("10%\r50%\r100%", "100%"),
        ("done\r", "done"),
        ("a\tb", "a\tb"),
        ("bell\x07", "bell\u2407"),
        ("back\x08space", "back\u2408space"),
        ("\x1b", "\u241b"),
        ("admin\u202etxt.exe", "admin\u27e8U+202E\u27e9txt.exe"),
        ("\x1b]" + "x" * 10_000, None),
    ],
)
def test_terminal_output_becomes_text(raw: str, text: str | None) -> None:
    if text is not None:
        assert plain(raw) == text
    assert "\x1b" not in plain(raw)
