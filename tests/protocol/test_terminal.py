"""What programs write over is left as a terminal would leave it, in bounded memory and time."""

from __future__ import annotations

import io
import random

import pytest

from flask_jobrunner.protocol.terminal import (
    LOOKAHEAD,
    REGION_LINES,
    TerminalText,
    last_state,
    strip_escapes,
)
from tests.helpers.effort import is_about_linear

SECOND = 1_000_000


def lines(*pieces: str, chunk_bytes: int = 16384) -> list[str]:
    text = TerminalText(chunk_bytes, str)
    return [line for piece in pieces for line in text.feed(piece, 1)] + text.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%\r20%\r30%\n", ["30%"]),
        ("10%\r20%\r30%\r", ["30%"]),
        ("\r10%|█ |\r20%|██|\ndone\n", ["20%|██|", "done"]),
        ("one\r\ntwo\r\r\nthree", ["one", "two", "three"]),
        ("100%\r\x1b[?25h\n", ["100%"]),
        ("50%\r\x1b[Kdone\n", ["done"]),
        ("50%\r\x1b[2K\n", [""]),
        ("50%\x1b[2K\x1b[1Gdone\n", ["done"]),
        ("bar\r   \rnext\n", ["next"]),
        ("bar\r      \r", []),
        ("frame=1    \rframe=22   \r", ["frame=22"]),
        ("|\b/\b-\b\\\b done\n", [" done"]),
        ("12%\b\b\b13%\b\b\b14%\n", ["14%"]),
        ("\x1b[32m1%\x1b[0m\r\x1b[32m2%\x1b[0m\n", ["\x1b[32m2%\x1b[0m"]),
        ("\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"]),
        ("\x1b[1mhalf", ["\x1b[1mhalf"]),
        ("end \x1b[", ["end \x1b["]),
        ("\n\n", ["", ""]),
        ("", []),
    ],
)
def test_the_last_state_is_what_stays(text: str, expected: list[str]) -> None:
    assert lines(text) == expected
    assert lines(*text) == expected


def test_lines_that_are_painted_again_and_again_come_once() -> None:
    paint = "a {0}%\nb {0}%"
    again = "\r\x1b[2K\x1b[1A\x1b[2K" + paint
    text = paint.format(0) + "".join(again.format(n) for n in range(1, 101)) + "\nafter\n"
    # The first painting of the upper line came before it was known that it would be repeated.
    assert lines(text) == ["a 0%", "a 100%", "b 100%", "after"]


def test_nested_bars_as_tqdm_paints_them() -> None:
    text = "\router 0/2"
    for outer in (1, 2):
        text += "\n\rinner 0/9\x1b[A" + f"\n\rinner 9/9\x1b[A\router {outer}/2"
    text += "\n\n"
    assert lines(text)[-2:] == ["outer 2/2", "inner 9/9"]
    assert len(lines(text)) <= 3


def test_text_after_the_bars_is_text_again() -> None:
    text = "a\nb\x1b[1A\ra1\nb1\n" + "".join(f"line {n}\n" for n in range(30))
    assert lines(text)[:4] == ["a", "a1", "b1", "line 0"]
    assert lines(text)[4:] == [f"line {n}" for n in range(1, 30)]


def test_a_bar_shows_its_state_once_a_second_and_less_often_as_it_grows_old() -> None:
    text = TerminalText(16384, str)
    shown = [
        (tenth, line)
        for tenth in range(6000)
        for line in text.feed(f"\r{tenth}", tenth * SECOND // 10)
    ]
    assert [tenth for tenth, _ in shown[:5]] == [10, 20, 30, 40, 50]
    assert all(line == str(tenth) for tenth, line in shown)
    assert 60 < len(shown) < 110
    assert shown[-1][0] - shown[-2][0] == 100
    assert text.feed("\n", 600 * SECOND) == ["5999"]


def test_the_end_of_a_bar_that_was_just_shown_is_no_second_row() -> None:
    text = TerminalText(16384, str)
    assert text.feed("\r100%", 0) == []
    assert text.idle(2 * SECOND) == ["100%"]
    assert text.idle(9 * SECOND) == []
    assert text.feed("\nnext\n", 9 * SECOND) == ["next"]


def test_painted_lines_are_shown_while_they_change() -> None:
    text = TerminalText(16384, str)
    text.feed("a0\nb0\x1b[1A\ra1\nb1", 0)
    assert text.idle(SECOND) == ["a1", "b1"]
    assert text.feed("\x1b[1A\ra1\nb2", 2 * SECOND + 1) == ["b2"]
    assert text.close() == []


def test_a_long_line_is_handed_out_in_parts_and_none_is_lost() -> None:
    text = "".join(random.Random(1).choices("xä€😀 ", k=200_000))
    pieces = [text[start : start + 3001] for start in range(0, len(text), 3001)]
    reader, parts = TerminalText(1001, str), list[str]()
    for piece in pieces:
        parts += reader.feed(piece, 1)
        assert len(reader._row.raw) <= 1001 + LOOKAHEAD + 3001
    assert all(998 <= len(part.encode()) <= 1001 for part in parts)
    assert "".join(parts + reader.close()) == text
    assert "".join(lines("\r", *pieces, chunk_bytes=1001)) == text


def test_a_secret_across_the_end_of_a_part_is_masked() -> None:
    secret = "s3cret" * 20
    for place in range(900, 1100, 7):
        text = TerminalText(1000, lambda part: part.replace(secret, "***"))
        whole = "x" * place + " " + secret + " " + "y" * 9000
        parts = text.feed(whole[: place + 50], 1) + text.feed(whole[place + 50 :], 1)
        assert "s3cret" not in "".join(parts)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000 + "\b" * 100_000 + "y",
        "\r" * 500_000,
        "\x1b[A" * 100_000,
        "\x1b[9999A\n" * 50_000,
        "\x1b[" * 200_000,
        "\x1b]8;;" * 100_000,
        "a\r" * 200_000,
        "\x1b[2K" * 200_000,
        "\n\x1b[64A" * 20_000,
    ],
    ids=range(9),
)
def test_no_text_costs_more_than_linear_time_or_memory(text: str) -> None:
    assert is_about_linear(_read_all, text)


def _read_all(text: str) -> None:
    reader = TerminalText(16384, str)
    for start in range(0, len(text), 65536):
        reader.feed(text[start : start + 65536], start)
        assert len(reader._above) + len(reader._below) <= 2 * REGION_LINES + 2
    reader.close()


@pytest.mark.parametrize("seed", range(30))
def test_reads_may_end_anywhere(seed: int) -> None:
    source = random.Random(seed)
    parts = [
        "a",
        "\n",
        "\r",
        "\r\n",
        "\x1b[A",
        "\x1b[2K",
        "\x1b[1B",
        "\x1b[31m",
        "\b",
        "x y",
        "\x1b[K",
    ]
    text = "".join(source.choices(parts, k=300))
    pieces, place = list[str](), 0
    while place < len(text):
        size = source.choice([1, 2, 3, 40])
        pieces.append(text[place : place + size])
        place += size
    assert lines(*pieces) == lines(text)


def test_a_state_is_found_and_codes_are_removed() -> None:
    assert last_state("plain") == "plain"
    assert strip_escapes("\x1b]0;title\x07a\x1b[1mb\x1b(B\x9b0mc") == "abc"


def test_bars_of_the_real_rich() -> None:
    rich_progress = pytest.importorskip("rich.progress")
    console = pytest.importorskip("rich.console").Console(
        file=(out := io.StringIO()), force_terminal=True, width=80
    )
    with rich_progress.Progress(console=console, refresh_per_second=50) as progress:
        load, save = progress.add_task("load", total=50), progress.add_task("save", total=50)
        for _ in range(50):
            progress.advance(load)
            progress.advance(save)
            progress.refresh()
    console.print("[green]finished[/green]")
    assert out.getvalue().count("\n") > 50
    shown = [strip_escapes(line) for line in lines(out.getvalue())]
    assert [line.split()[0] for line in shown[-3:]] == ["load", "save", "finished"]
    assert shown[-2].split()[2] == "100%"
    assert len(shown) <= 5
