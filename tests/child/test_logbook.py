"""Bounded in memory, complete in order, explicit about what is missing."""

from __future__ import annotations

import pytest

from flask_jobrunner.child.logbook import BATCH_BYTES, BATCH_ROWS, Logbook
from flask_jobrunner.child.steady import Alarm, Clock, Worker
from flask_jobrunner.model.records import NewLine, Progress
from tests.helpers.waiting import eventually


def logbook(*, limit: int = 1 << 30, buffer_bytes: int = 1 << 20) -> Logbook:
    return Logbook(limit=limit, clock=Clock(), buffer_bytes=buffer_bytes, ring=Alarm())


def taken(book: Logbook) -> list[str]:
    messages = []
    while lines := book.batch():
        messages += [line.message for line in lines]
        book.written()
    return messages


def test_a_batch_stays_the_same_until_it_is_written() -> None:
    book = logbook()
    book.add([NewLine("a")])
    first = list(book.batch())
    book.add([NewLine("b")])
    assert book.batch() == first
    assert book.unsettled
    book.written()
    assert [line.message for line in book.batch()] == ["b"]


def test_batches_are_bounded_in_rows_and_bytes() -> None:
    book = logbook(buffer_bytes=64 << 20)
    book.add([NewLine("")] * (BATCH_ROWS + 5))
    assert book.has_more
    assert len(book.batch()) == BATCH_ROWS
    book.written()
    assert len(book.batch()) == 5
    book.written()
    book.add([NewLine(f"{number}" + "ä" * 1_000_000) for number in range(20)])
    assert len(book.batch()) < 10
    messages = taken(book)
    assert [message.strip("ä") for message in messages] == [str(n) for n in range(20)]
    assert book._bytes == book._count == 0


def test_a_line_larger_than_a_batch_is_a_batch() -> None:
    book = logbook(buffer_bytes=64 << 20)
    book.add([NewLine("x" * (BATCH_BYTES + 1)), NewLine("y")])
    assert [len(batch) for batch in (book.batch(),)] == [1]
    book.written()
    assert taken(book) == ["y"]


@pytest.mark.parametrize("at_once", [1, 7, 31])
def test_past_the_limit_exactly_one_line_says_so(at_once: int) -> None:
    book = logbook(limit=1000)
    lines = [*(NewLine("x" * 92) for _ in range(30)), NewLine("small")]
    for start in range(0, 31, at_once):
        book.add(lines[start : start + at_once])
    book.add_own(NewLine("the runner's own"))
    messages = taken(book)
    assert messages[:10] == ["x" * 92] * 10
    assert "log is full (1.0 kB" in messages[10]
    assert messages[11:] == ["the runner's own"]
    assert book.left_out == 21


def test_a_full_buffer_drops_the_oldest_and_says_how_many() -> None:
    book = logbook(buffer_bytes=10_000)
    book._patience = 0.05
    book.add([NewLine(f"{number:0831}") for number in range(15)])
    messages = taken(book)
    assert messages[0].startswith("5 lines were dropped here")
    assert [int(message) for message in messages[1:]] == list(range(5, 15))
    assert book.dropped == 5


def test_a_full_buffer_waits_for_the_writer_first() -> None:
    book = logbook(buffer_bytes=10_000)

    def write() -> None:
        eventually(lambda: book._bytes > 10_000)
        while book.batch():
            book.written()

    writer = Worker(write)
    writer.start()
    book.add([NewLine(f"{number:0831}") for number in range(15)])
    eventually(lambda: not writer.alive)
    assert book.dropped == 0


def test_only_the_newest_progress_is_taken() -> None:
    book = logbook()
    book.set_progress(Progress(done=1))
    book.set_progress(Progress(done=2))
    assert book.waits
    assert book.take_progress() == Progress(done=2)
    assert book.take_progress() is None
    book.progress_not_written()
    assert book.take_progress() == Progress(done=2)


def test_a_refused_batch_is_replaced_by_one_line() -> None:
    book = logbook()
    book.add([NewLine("bad"), NewLine("worse")])
    assert len(book.batch()) == 2
    book.replace_batch(NewLine("two were lost"))
    assert taken(book) == ["two were lost"]
