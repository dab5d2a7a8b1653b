"""Raw text and records, cut wherever a read may end, come out as the same lines."""

from __future__ import annotations

import random

import pytest

from flask_jobrunner.model.records import NewLine
from flask_jobrunner.protocol.encoding import split_chunks
from flask_jobrunner.protocol.output import (
    FRAME_MAX_BYTES,
    OutputParser,
    dump_record,
    dump_step,
    new_nonce,
)

NONCE = "0123456789abcdef"
MARK = b"\x1e" + NONCE.encode()


def messages(data: bytes, chunk_bytes: int = 16384) -> list[str]:
    parser = OutputParser(NONCE, chunk_bytes)
    return [line.message for line in parser.feed("stdout", data, 1) + parser.close(2)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\n\ntwo", ["one", "", "two"]),
        (b"a\r\nb\rc\n\rd\r", ["a", "c", "d"]),
        (b"bad \xff byte\n", ["bad \ufffd byte"]),
        (b"cut \xe2\x82", ["cut \ufffd"]),
        (b"nul \0 here\n", ["nul \\u0000 here"]),
        ("\u2028 is no line end \x1b[31m\n".encode(), ["\u2028 is no line end \x1b[31m"]),
        (b"\x1e alone\n", ["\x1e alone"]),
        (MARK + b"?neither\n", [MARK.decode() + "?neither"]),
        (MARK, [MARK.decode()]),
        (b"\x1efedcba9876543210={}\n", ["\x1efedcba9876543210={}"]),
        (b"postgresql://me:hunter2secret@db/x\n", ["postgresql://me:********@db/x"]),
    ],
)
def test_text_becomes_lines(data: bytes, expected: list[str]) -> None:
    assert messages(data) == expected


def test_the_end_of_a_line_may_come_in_two_reads() -> None:
    parser = OutputParser(NONCE)
    lines = [line for data in (b"one\r", b"\ntwo\r", b"\nthree") for line in feed(parser, data)]
    assert lines + texts(parser.close()) == ["one", "two", "three"]


def feed(parser: OutputParser, data: bytes, stream: str = "stdout", at: int = 1) -> list[str]:
    return texts(parser.feed(stream, data, at))


def texts(lines: list[NewLine]) -> list[str]:
    return [line.message for line in lines]


def test_a_long_line_is_cut_on_character_boundaries() -> None:
    text = "ä€😀x" * 5000
    pieces = messages(text.encode() + b"\n", chunk_bytes=1001)
    assert "".join(pieces) == text
    assert all(len(piece.encode()) <= 1001 for piece in pieces)
    assert len(pieces) in {50, 51}


def test_a_line_of_exactly_one_chunk_makes_one_row() -> None:
    assert messages(b"x" * 64 + b"\n" + b"y", chunk_bytes=64) == ["x" * 64, "y"]


def test_chunks_never_cut_a_character() -> None:
    assert split_chunks("😀😀", 4) == ["😀", "😀"]
    assert split_chunks("", 4) == [""]


def test_a_record_keeps_what_it_was_given() -> None:
    line = NewLine("hello\nworld", "warning", "stderr", "load", '{"rows":3}', 17)
    (frame,) = dump_record(NONCE, line)
    assert OutputParser(NONCE).feed("stdout", frame, 99) == [line]


def test_a_long_record_travels_in_frames_that_the_kernel_keeps_whole() -> None:
    line = NewLine("\x00€\x1e\n" * 4000, "error", at=5, context_json='{"a":"' + "b" * 9000 + '"}')
    frames = dump_record(NONCE, line)
    assert len(frames) > 10
    assert max(map(len, frames)) <= FRAME_MAX_BYTES
    (parsed,) = OutputParser(NONCE).feed("stdout", b"".join(frames), 1)
    assert parsed.message == line.message.replace("\0", "\\u0000")
    assert parsed.context_json == line.context_json


def test_long_records_of_two_processes_may_mingle() -> None:
    first = dump_record(NONCE, NewLine("a" * 9000, at=1))
    second = dump_record(NONCE, NewLine("b" * 9000, at=2))
    mingled = [frame for pair in zip(first, second, strict=True) for frame in pair]
    assert messages(b"".join(mingled)) == ["a" * 9000, "b" * 9000]


def test_a_record_does_not_tear_the_line_it_fell_into() -> None:
    (frame,) = dump_record(NONCE, NewLine("record", at=1))
    assert messages(b"first half, " + frame + b"second half\n") == [
        "record",
        "first half, second half",
    ]


def test_a_step_marks_what_comes_after_it_on_its_stream() -> None:
    parser = OutputParser(NONCE, step_key="boot")
    before = parser.feed("stderr", b"a\n", 1)
    parser.feed("stdout", b"".join(dump_step(NONCE, "load")), 1)
    after = parser.feed("stdout", b"b\n", 1) + parser.feed("stderr", b"c\n", 1)
    parser.feed("stderr", b"".join(dump_step(NONCE, "load")), 1)
    after += parser.feed("stderr", b"d\n", 1)
    parser.feed("stdout", b"".join(dump_step(NONCE, None)), 1)
    last = parser.feed("stdout", b"e\n", 1)
    keys = [line.step_key for line in before + after + last]
    assert keys == ["boot", "load", "boot", "load", None]


def test_text_after_a_record_is_not_older_than_it() -> None:
    (frame,) = dump_record(NONCE, NewLine("record", at=50))
    lines = OutputParser(NONCE).feed("stdout", b"before\n" + frame + b"after\n", 20)
    assert [(line.message, line.at) for line in lines] == [
        ("before", 20),
        ("record", 50),
        ("after", 50),
    ]


def test_an_unfinished_line_is_shown_after_a_while_and_its_end_makes_no_empty_row() -> None:
    parser = OutputParser(NONCE)
    assert feed(parser, b"working", at=0) == []
    assert parser.idle(900_000) == []
    assert texts(parser.idle(1_000_000)) == ["working"]
    assert parser.idle(9_000_000) == []
    assert feed(parser, b"\ndone\n", at=10_000_000) == ["done"]


def test_without_a_nonce_nothing_is_a_record() -> None:
    parser = OutputParser(None)
    (frame,) = dump_record(NONCE, NewLine("x", at=1))
    assert texts(parser.feed("stdout", frame, 1)) == [frame.decode().rstrip("\n")]


def test_garbage_in_a_frame_is_dropped_and_odd_values_are_tamed() -> None:
    parser = OutputParser(NONCE)
    assert feed(parser, MARK + b"={not json\n") == []
    (line,) = parser.feed("stdout", MARK + b'={"m":1,"l":"loud","s":"x","t":"y"}\n', 7)
    assert line == NewLine("1", "info", "", None, None, 7)


def test_a_mark_without_an_end_is_not_held_for_ever() -> None:
    parser = OutputParser(NONCE)
    assert "".join(feed(parser, MARK + b"=" + b"x" * 5000 + b"\n")).endswith("x")


@pytest.mark.parametrize("seed", range(20))
def test_reads_may_end_anywhere(seed: int) -> None:
    source = random.Random(seed)
    data = b""
    for number in range(60):
        choice = source.randrange(4)
        if choice == 0:
            line = NewLine(f"r{number} " + "é\x1e" * source.randrange(3000), at=number)
            data += b"".join(dump_record(NONCE, line))
        elif choice == 1:
            data += b"".join(dump_step(NONCE, f"s{number}"))
        else:
            end = source.choice(["\n", "\r\n", "\r", ""])
            data += (f"t{number} " + "€" * source.randrange(50) + end).encode()
    whole = OutputParser(NONCE)
    expected = whole.feed("stdout", data, 1) + whole.close(1)
    parser, lines = OutputParser(NONCE), []
    while data:
        size = source.choice([1, 2, 17, 300, 5000])
        lines += parser.feed("stdout", data[:size], 1)
        data = data[size:]
    assert lines + parser.close(1) == expected


def test_nonces_differ() -> None:
    assert new_nonce() != new_nonce()
    assert len(new_nonce()) == 16
