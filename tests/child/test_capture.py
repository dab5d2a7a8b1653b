"""Both pipes, the control pipe, and what a handler may do to their descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jobrunner.child import capture as captures
from flask_jobrunner.child.capture import Capture, ControlReader, PipeSink
from flask_jobrunner.child.clean import Standing
from flask_jobrunner.child.descriptors import PrivateFd, private_copy, take_over
from flask_jobrunner.child.logbook import Logbook
from flask_jobrunner.child.steady import Alarm, Clock
from flask_jobrunner.model.records import NewLine
from flask_jobrunner.protocol.output import OutputParser
from tests.helpers.waiting import eventually, stays


def frame(stream: str, data: bytes) -> bytes:
    header = f'{{"v":1,"type":"output","stream":"{stream}","size":{len(data)}}}\n'
    return header.encode() + data


DRAINING = b'{"v":1,"type":"draining"}\n'
RESUME = b'{"v":1,"type":"resume"}\n'


class Rig:
    """Pipes as a parent makes them, with 1 and 2 of this process standing in for a child's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out_r, self.out_w = os.pipe()
        self.err_r, self.err_w = os.pipe()
        control_r, self.control_w = os.pipe()
        self.ready = True
        self.ring = Alarm()
        monkeypatch.setattr(captures, "private_copy", self._copy)
        monkeypatch.setattr(captures, "_open_pipes", self._pipes)
        standing = Standing(control=PrivateFd(control_r), ack=None, output=None, errors=None)
        self.capture = Capture(standing, b"", chunk_bytes=1000, redact_keys=None, clock=Clock())
        self.book = Logbook(limit=1 << 30, clock=Clock(), ring=self.ring)
        self.sink = self.capture.sink(self.book)

    def _copy(self, number: int) -> PrivateFd:
        return private_copy({1: self.out_w, 2: self.err_w}.get(number, number))

    def _pipes(self, _: Standing) -> dict[str, PrivateFd]:
        for fd in (self.out_r, self.err_r):
            os.set_blocking(fd, False)
        return {"stdout": PrivateFd(self.out_r), "stderr": PrivateFd(self.err_r)}

    def start(self) -> None:
        self.capture.start(self.book, self.write)

    def write(self) -> None:
        """What the lease does when it is called."""
        if self.ready:
            self.capture.collect()

    def lines(self) -> list[str]:
        with self.book._lock:
            return [line.message for lines, _ in self.book._waiting for line in lines]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(monkeypatch)
    yield rig
    rig.capture._stopped = True
    eventually(lambda: not rig.capture._thread.alive)


def test_everything_written_becomes_lines(rig: Rig) -> None:
    rig.start()
    os.write(rig.out_w, b"one\n")
    rig.sink.record(NewLine("two", "warning", at=1))
    subprocess.run(["echo", "three"], stdout=rig.out_w, check=True)
    eventually(lambda: rig.lines() == ["one", "two", "three"])
    os.write(rig.err_w, b"four\n")
    eventually(lambda: rig.lines()[3:] == ["four"])


def test_a_logger_of_any_name_can_be_shown(rig: Rig) -> None:
    """Half of a pair comes from the name of a file, say, and would break every page with it."""
    assert rig.capture.logger_context("a\0\udc80") == r'{"logger": "a\\u0000\\udc80"}'


def test_a_step_is_told_on_both_streams(rig: Rig) -> None:
    rig.sink.set_step("load")
    os.write(rig.out_w, b"a\n")
    os.write(rig.err_w, b"b\n")
    rig.start()
    eventually(lambda: len(rig.lines()) == 2)
    assert {line.step_key for lines, _ in rig.book._waiting for line in lines} == {"load"}
    assert rig.sink.step_key == "load"


def test_little_output_waits_for_the_writer_and_much_does_not(rig: Rig) -> None:
    rig.ready = False
    rig.start()
    os.write(rig.out_w, b"little\n")
    stays(lambda: rig.lines() == [], seconds=0.3)
    os.write(rig.out_w, b"x" * 40_000 + b"\n")
    eventually(lambda: "little" in rig.lines())


def test_the_last_words_stay_in_the_pipe_for_a_moment(rig: Rig) -> None:
    rig.capture._logbook = rig.book
    os.write(rig.out_w, b"and then it crashed\n")
    now = rig.capture._clock.now()
    for seen_at, lines in ((None, 0), (now + 10_000_000, 0), (now - 200_000, 1)):
        rig.capture._seen_at = seen_at
        rig.capture.collect()
        assert len(rig.lines()) == lines


def test_the_writer_never_waits_for_room_that_only_it_can_make(rig: Rig) -> None:
    rig.book._buffer_bytes = 400
    rig.book.add([NewLine("x" * 60)])
    rig.start()
    os.write(rig.out_w, b"later\n")
    stays(lambda: len(rig.lines()) == 1, seconds=0.3)
    rig.book.batch()
    rig.book.written()
    eventually(lambda: rig.lines() == ["later"])


def test_draining_reads_to_the_end_although_the_pipe_stays_open(rig: Rig) -> None:
    rig.ready = False
    rig.start()
    os.write(rig.out_w, b"a\nb\nunfinished")
    os.write(rig.control_w, frame("stderr", b"from the parent"))
    rig.capture.drain()
    assert sorted(rig.lines()) == ["a", "b", "from the parent", "unfinished"]


def test_what_the_parent_drained_is_older_than_the_pipe(rig: Rig) -> None:
    os.write(rig.control_w, frame("stdout", b"first, ") + frame("stdout", b"second\nthird "))
    os.write(rig.out_w, b"fourth\n")
    rig.start()
    eventually(lambda: rig.lines() == ["first, second", "third fourth"])


def test_while_the_parent_drains_only_the_parent_reads(rig: Rig) -> None:
    os.write(rig.control_w, DRAINING)
    rig.start()
    os.write(rig.out_w, b"third\n" + b"x" * 40_000 + b"\n")
    os.write(rig.control_w, frame("stdout", b"first\n"))
    eventually(lambda: rig.lines() == ["first"])
    stays(lambda: rig.lines() == ["first"], seconds=0.2)
    os.write(rig.control_w, frame("stdout", b"second\n") + RESUME)
    eventually(lambda: rig.lines()[:3] == ["first", "second", "third"])


def test_what_was_read_as_the_parent_began_to_drain_waits(rig: Rig) -> None:
    class Announces(PrivateFd):
        """The parent announces itself while this read is on its way back."""

        def read(self, size: int) -> bytes | None:
            data = super().read(size)
            if data:
                os.write(rig.control_w, DRAINING)
            return data

    rig.capture._pipes["stdout"] = Announces(rig.out_r)
    os.write(rig.out_w, b"last\n")
    rig.start()
    eventually(lambda: rig.capture._held)
    os.write(rig.control_w, frame("stdout", b"first\n") + RESUME)
    eventually(lambda: rig.lines() == ["first", "last"])


@pytest.mark.parametrize("end", ["resumed", "gone", "silent"])
def test_the_end_waits_for_what_the_parent_drained(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(captures, "_DRAIN_SECONDS", 0.5 if end == "silent" else 20)
    os.write(rig.out_w, b"b\n")
    os.write(rig.control_w, DRAINING + frame("stdout", b"a\n"))
    later = threading.Timer(
        0.2,
        {
            "resumed": lambda: os.write(rig.control_w, frame("stdout", b"aa\n") + RESUME),
            "gone": lambda: os.close(rig.control_w),
            "silent": lambda: None,
        }[end],
    )
    rig.start()
    later.start()
    rig.capture.drain()
    later.join()
    assert rig.lines() == {"resumed": ["a", "aa", "b"], "gone": ["a", "b"], "silent": ["a"]}[end]


def test_the_end_waits_for_as_long_as_the_parent_gives_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a megabyte took a busy machine longer than the whole time that was left for it."""
    monkeypatch.setattr(captures, "_DRAIN_SECONDS", 2.0)
    own_time = 0.0

    class Slow(PrivateFd):
        """Once it is empty a second's work follows, and the next frame comes."""

        def read(self, size: int) -> bytes | None:
            nonlocal own_time
            data = super().read(size)
            if data is None and own_time < 9:
                own_time += 1.0
                os.write(rig.control_w, frame("stdout", b"a\n"))
                if own_time == 9:
                    os.write(rig.control_w, RESUME)
            return data

    os.write(rig.out_w, b"after\n")
    os.write(rig.control_w, DRAINING + frame("stdout", b"a\n"))
    rig.capture._logbook = rig.book
    rig.capture._control.fd = Slow(rig.capture._control.fd.number)
    monkeypatch.setattr(Capture, "_own_time", lambda _: own_time)
    rig.capture.drain()
    assert rig.lines() == ["a"] * 10 + ["after"]


def test_an_unfinished_line_is_shown_after_a_while(rig: Rig) -> None:
    rig.start()
    os.write(rig.out_w, b"working")
    eventually(lambda: rig.lines() == ["working"])


def test_a_reading_end_that_was_closed_is_opened_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = PrivateFd.restore
    through = {1: rig.out_w, 2: rig.err_w}
    monkeypatch.setattr(
        PrivateFd,
        "restore",
        lambda self, number, flags: restore(self, through[number], flags),
    )
    parents = os.dup(rig.out_r)
    os.close(rig.out_r)
    other_r, other_w = os.pipe()
    assert rig.out_r in {other_r, other_w}
    rig.start()
    os.write(rig.out_w, b"still heard\n")
    eventually(lambda: rig.lines() == ["still heard"])
    for fd in (parents, other_r, other_w):
        os.close(fd)


def test_a_dead_reader_can_be_revived(rig: Rig) -> None:
    assert rig.capture.revive()
    assert not rig.capture.revive()


def test_records_take_the_short_way_where_the_pipe_is_gone() -> None:
    reader, writer = os.pipe()
    pipe = PrivateFd(writer)
    os.close(reader)
    os.close(writer)
    book = Logbook(limit=1 << 30, clock=Clock(), ring=Alarm())
    sink = PipeSink(pipe, pipe, book, "0" * 16)
    sink.record(NewLine("kept"))
    sink.set_step("x")
    assert [line.message for line in book.batch()] == ["kept"]


def test_a_reused_number_is_never_written_to() -> None:
    reader, writer = os.pipe()
    pipe = PrivateFd(writer)
    os.close(writer)
    other_r, other_w = os.pipe()
    if other_r == writer:
        other_r, other_w = other_w, other_r
    os.dup2(other_w, writer)
    assert not pipe.write(b"x")
    assert pipe.read(10) == b""
    for fd in {reader, writer, other_r, other_w}:
        os.close(fd)


@pytest.mark.parametrize(
    "garbage",
    [b"no header\n", b'{"type":"output"}\n', b'{"type":"output","stream":"x","size":1}\n', b"[]\n"],
)
def test_what_is_no_frame_ends_the_control_stream(garbage: bytes) -> None:
    reader, writer = os.pipe()
    control = ControlReader(PrivateFd(reader), frame("stdout", b"rest"))
    os.write(writer, garbage)
    assert control.read()[0] == ("stdout", b"rest")
    assert control.ended
    os.write(writer, frame("stdout", b"ignored"))
    assert control.read() == []
    assert not control.is_behind
    os.close(reader)
    os.close(writer)


def test_frames_may_come_in_pieces() -> None:
    reader, writer = os.pipe()
    control = ControlReader(PrivateFd(reader), b"")
    whole = frame("stdout", b"x" * 5000)
    os.write(writer, whole[:20])
    assert control.read() == []
    os.write(writer, whole[20:1000])
    assert control.read() == []
    os.write(writer, whole[1000:])
    assert control.read() == [("stdout", b"x" * 5000)]
    os.close(writer)
    assert control.read() == []
    assert control.ended
    os.close(reader)


def test_numbers_of_the_parent_are_taken_out_of_reach() -> None:
    pipes = [os.pipe() for _ in range(2)]
    numbers = [fd for pair in pipes for fd in pair]
    taken = take_over(",".join(map(str, numbers)))
    for old, new in zip(numbers, taken, strict=True):
        assert new is not None
        assert new.number >= 64
        assert not os.get_inheritable(new.number)
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(old)
        os.close(new.number)


@pytest.mark.parametrize("numbers", [None, "", "1,2", "a,b,c,d", "-1,4,5,6", "900,901,902,903"])
def test_numbers_that_are_none(numbers: str | None) -> None:
    assert take_over(numbers) == [None] * 4


def test_a_number_that_became_a_file_is_not_taken() -> None:
    with Path(__file__).open("rb") as file:
        assert take_over(",".join([str(file.fileno())] * 4)) == [None] * 4
        assert file.read(3) == b'"""'


def test_without_the_parents_ends_a_child_reads_pipes_of_its_own() -> None:
    program = """
import os, sys
from flask_jobrunner.child.capture import Capture
from flask_jobrunner.child.clean import Standing
from flask_jobrunner.child.descriptors import PrivateFd
from flask_jobrunner.child.logbook import Logbook
from flask_jobrunner.child.steady import Alarm, Clock
kept = os.dup(1)
standing = Standing(control=PrivateFd(0), ack=None, output=None, errors=None)
capture = Capture(standing, b"", chunk_bytes=100, redact_keys=None, clock=Clock())
book = Logbook(limit=1 << 20, clock=Clock(), ring=Alarm())
capture.start(book, capture.collect)
assert capture.is_captured(1) and capture.is_captured(2) and not capture.is_captured(kept)
print("captured", flush=True)
os.system("echo captured too >&2")
capture.drain()
os.write(kept, repr(sorted(line.message for line in book.batch())).encode())
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, stdin=subprocess.DEVNULL, check=True
    )
    assert done.stdout == b"['captured', 'captured too']"


def test_a_parser_reads_what_a_sink_wrote_and_nobody_took() -> None:
    reader, writer = os.pipe()
    book = Logbook(limit=1, clock=Clock(), ring=Alarm())
    sink = PipeSink(PrivateFd(writer), PrivateFd(writer), book, "ab" * 8)
    sink.record(NewLine("last words", "error", at=3))
    (line,) = OutputParser("ab" * 8).feed("stdout", os.read(reader, 9999), 9)
    assert line == NewLine("last words", "error", at=3)
    os.close(reader)
    os.close(writer)
