"""No output is lost while there is room for it, and no child hangs for want of a reader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flask_jobrunner.shim import channels
from flask_jobrunner.shim.backflow import BACKLOG_BYTES, DROP_AFTER, TAIL_BYTES, Backflow, Tail
from tests.helpers.shims import Launch, fake_child, noted

# Reads frames until `count` lines of the form "line N" were seen, frames before pipe.
READER = r"""
draining = False

def frames():
    global draining
    header = b""
    while not header.endswith(b"\n"):
        try:
            header += os.read(0, 1)
        except BlockingIOError:
            if not header:
                return b""
    header = json.loads(header)
    if header["type"] in ("draining", "resume"):
        draining = header["type"] == "draining"
        return b""
    assert (header["v"], header["type"], header["stream"]) == (1, "output", "stdout"), header
    data = b""
    while len(data) < header["size"]:
        try:
            data += os.read(0, header["size"] - len(data))
        except BlockingIOError:
            time.sleep(0.001)
    note("frames", len(data))
    return data

def collect(count):
    os.set_blocking(0, False)
    os.set_blocking(out, False)
    data = b""
    while data.count(b"\n") < count:
        framed = frames()
        if framed:
            data += framed
        if framed or draining:
            continue
        try:
            data += os.read(out, 65536)
        except BlockingIOError:
            time.sleep(0.001)
    return data
"""


def test_a_c_function_that_prints_while_it_holds_the_lock_does_not_hang(
    launch: Launch, tmp_path: Path
) -> None:
    # One call that never gives the lock back: no other thread of the child could read.
    body = READER + (
        r"""
import ctypes
import threading
claim()
threading.Thread(target=forever, daemon=True).start()
libc = ctypes.PyDLL(None)
text = b"".join(b"line %06d %s\n" % (n, b"x" * 87) for n in range(7000))
for start in range(0, 700_000, 350_000):
    assert libc.write(1, text[start : start + 350_000], 350_000) == 350_000
data = collect(7000)
assert data == text, (len(data), len(text))
note("whole", len(data))
"""
    )
    shim = launch(fake_child(tmp_path, body))
    report = shim.report()

    assert report.exit_code == 0, report.output()[1].decode()
    assert noted(tmp_path, "whole") == [700_000]
    assert sum(noted(tmp_path, "frames")) >= 350_000
    assert report.output()[0] == b""


def test_what_was_drained_and_never_read_is_reported_in_order(
    launch: Launch, tmp_path: Path
) -> None:
    body = r"""
claim()
for number in range(50_000):
    os.write(1, b"line %08d\n" % number)
os.kill(os.getpid(), signal.SIGKILL)
"""
    report = launch(fake_child(tmp_path, body)).report()
    text = report.output()[0]
    lines = text.splitlines()

    assert report.signal == 9
    assert len(text) + report.stdout_dropped == 50_000 * 14
    assert TAIL_BYTES - 14 <= len(text) <= TAIL_BYTES
    assert lines == [b"line %08d" % number for number in range(50_000 - len(lines), 50_000)]


def test_the_last_words_of_both_streams_are_kept_with_counts(
    launch: Launch, tmp_path: Path
) -> None:
    body = r"""
os.write(1, b"fine\n")
os.write(2, b"x" * 10 + b"\n" + b"y" * 99 + b"\n" + b"Traceback\n" * 10_000)
sys.exit(1)
"""
    report = launch(fake_child(tmp_path, body)).report()
    out, err = report.output()

    assert (out, report.stdout_dropped) == (b"fine\n", 0)
    assert set(err.splitlines()) == {b"Traceback"}
    assert len(err) + report.stderr_dropped == 111 + 100_000


def test_printing_without_end_is_bounded_and_says_so(launch: Launch, tmp_path: Path) -> None:
    total = 6_000_000
    body = f"""
claim()
for number in range({total} // 100):
    os.write(2, b"%099d\\n" % number)
sys.exit(0)
"""
    report = launch(fake_child(tmp_path, body)).report(timeout=60)
    text = report.output()[1]

    assert report.exit_code == 0
    assert text.endswith(b"%099d\n" % (total // 100 - 1))
    assert report.stderr_dropped > 0


@pytest.fixture
def pipes() -> Iterator[channels.Pipes]:
    pipes = channels.Pipes()
    yield pipes
    pipes.close()


def flow_of(pipes: channels.Pipes) -> Backflow:
    return Backflow(
        control=(pipes.control_r, pipes.control_w),
        out=pipes.out,
        err=pipes.err,
        unread=channels.unread,
        capacity=channels.capacity,
    )


def half_of(pipes: channels.Pipes) -> int:
    return channels.capacity(pipes.out) // 2


def test_output_is_left_alone_until_it_was_stuck_for_a_while(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"x" * (half_of(pipes) - 1))
    for now in (0.0, 1.0, 2.0):
        flow.look(now)
    assert not flow.is_suspicious

    os.write(pipes.out_w, b"x")
    flow.look(3.0)
    flow.look(3.4)
    assert flow.is_suspicious
    assert flow.readable() == []

    flow.look(3.5)
    assert set(flow.readable()) == {pipes.out, pipes.err}
    assert os.read(pipes.control_r, 1000) == b'{"v":1,"type":"draining"}\n'


def test_a_child_that_reads_is_not_disturbed(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"x" * (half_of(pipes) + 1000))
    for now in range(10):
        flow.look(now * 0.4)
        os.read(pipes.out_r, 10)

    assert flow.readable() == []


def test_a_child_that_wakes_up_right_now_is_not_overtaken(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"x" * (half_of(pipes) + 10))
    flow.look(0.0)
    send = flow.send

    def send_late(line: bytes) -> None:
        send(line)
        if b"draining" in line:
            os.read(pipes.out_r, 10)

    flow.send = send_late  # type: ignore[method-assign]
    flow.look(1.0)

    assert flow.readable() == []
    assert os.read(pipes.control_r, 1000) == (
        b'{"v":1,"type":"draining"}\n{"v":1,"type":"resume"}\n'
    )


def test_draining_ends_when_the_child_has_read_everything(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"x" * half_of(pipes))
    flow.look(0.0)
    flow.look(1.0)
    while channels.unread(pipes.out):
        flow.drain()
    flow.look(2.0)
    assert flow.readable()
    _all_of(flow)
    flow.look(3.0)
    assert os.read(pipes.control_r, 1000) == b'{"v":1,"type":"resume"}\n'

    assert flow.readable() == []
    assert not flow.is_suspicious


def test_too_much_drops_the_oldest_whole_lines_and_says_how_much(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    flow.send(b"x" * 70_000)  # the control pipe is full: nothing gets through
    line = b"line %06d\n"
    count = 0
    while count * 12 < BACKLOG_BYTES + 300_000:
        os.write(pipes.out_w, b"".join(line % number for number in range(count, count + 5000)))
        count += 5000
        flow.drain()

    first, *rest = _all_of(flow).splitlines()
    assert first.startswith(b"[")
    assert first.endswith(b" bytes of output were dropped: it came faster than it was read]")
    kept = [int(one.split()[1]) for one in rest]
    assert kept == list(range(count - len(kept), count))
    assert int(first[1:].split()[0]) == (count - len(kept)) * 12


def draining(pipes: channels.Pipes) -> Backflow:
    """A backflow that has just begun to drain, as nobody read for a while; time is 1.0."""
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"x" * half_of(pipes))
    flow.look(0.0)
    flow.look(1.0)
    assert flow.draining
    return flow


def test_a_child_that_takes_what_it_was_given_reads_the_rest_itself(pipes: channels.Pipes) -> None:
    flow = draining(pipes)
    assert flow.readable() == [pipes.out, pipes.err]
    flow.drain()
    os.read(pipes.control_r, 1000)
    flow.look(1.1)
    assert flow.readable() == []
    flow.look(1.5)
    assert flow.readable() == []
    flow.look(1.7)
    assert flow.readable() == [pipes.out, pipes.err]


def test_a_full_backlog_waits_before_it_drops(pipes: channels.Pipes) -> None:
    flow = draining(pipes)
    while flow._has_room(flow.streams["stdout"]):
        flow.drain()
        os.write(pipes.out_w, (b"x" * 99 + b"\n") * 100)
    flow.look(2.0)
    assert flow.readable() == [pipes.err]
    os.write(pipes.out_w, (b"x" * 99 + b"\n") * 100)
    kept = flow.streams["stdout"].backlog
    flow.drain()
    assert (flow.streams["stdout"].backlog, flow.streams["stdout"].untold) == (kept, 0)
    flow.look(1.0 + DROP_AFTER)
    assert flow.readable() == [pipes.out, pipes.err]
    for _ in range(20):
        os.write(pipes.out_w, (b"x" * 99 + b"\n") * 100)
        flow.drain()
    assert flow.streams["stdout"].untold > 0


def test_what_is_held_up_on_purpose_is_not_drained(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"x" * half_of(pipes))
    flow.hold(5.0)
    for now in (0.0, 1.0, 4.0):
        flow.look(now)
        assert flow.readable() == []
    flow.look(5.1)
    assert flow.readable() == [pipes.out, pipes.err]
    flow.hold(9.0)
    flow.look(6.0)
    assert flow.readable() == []


def _all_of(flow: Backflow) -> bytes:
    """What the child would be given from here on, if it read."""
    text = b""
    while flow.wants_to_write or channels.unread(flow.control_r):
        flow.flush()
        text += os.read(flow.control_r, 1 << 20) if channels.unread(flow.control_r) else b""
    text = text.lstrip(b"x")
    whole = b""
    while text:
        header, _, text = text.partition(b"\n")
        if b'"output"' not in header:
            continue
        size = int(header.rpartition(b":")[2].strip(b"}"))
        whole += text[:size]
        text = text[size:]
    return whole


def test_the_announcement_starts_a_line(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    os.write(pipes.out_w, b"no end of line")
    flow.drain()
    flow.streams["stdout"].untold = 7
    os.write(pipes.out_w, b"more\n")
    flow.drain()

    assert _all_of(flow) == (
        b"no end of line\n[7 bytes of output were dropped: it came faster than it was read]\nmore\n"
    )


def test_a_frame_read_by_half_is_left_by_half(pipes: channels.Pipes) -> None:
    flow = flow_of(pipes)
    flow.send(b"envelope\n")
    os.read(pipes.control_r, 9)
    os.write(pipes.out_w, b"0123456789")
    flow.drain()
    header = b'{"v":1,"type":"output","stream":"stdout","size":10}\n'
    assert os.read(pipes.control_r, len(header) + 4) == header + b"0123"
    os.write(pipes.out_w, b"abc")
    tails = flow.leftovers()

    assert bytes(tails["stdout"].kept) == b"456789abc"
    assert bytes(tails["stderr"].kept) == b""


def test_a_tail_without_lines_is_cut_anywhere() -> None:
    tail = Tail(limit=10)
    for _ in range(10):
        tail.add(b"abcdefg")
    tail.close()

    assert (bytes(tail.kept), tail.dropped) == (b"efgabcdefg", 60)


def test_a_short_tail_is_whole() -> None:
    tail = Tail(limit=10)
    tail.add(b"a\nb")
    tail.close()

    assert (bytes(tail.kept), tail.dropped) == (b"a\nb", 0)
