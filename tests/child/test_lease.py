"""The one writer: what it sends again, what it gives up, and what it never decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flask_jobrunner.child.lease import Lease
from flask_jobrunner.child.logbook import BATCH_ROWS, Logbook
from flask_jobrunner.child.steady import Alarm, Clock
from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import (
    BeatAnswer,
    Fence,
    NewLine,
    Outcome,
    OwnedJob,
    Progress,
)
from flask_jobrunner.model.statuses import StopReason
from tests.child.fakes import a_claim, an_owned_job
from tests.helpers.waiting import eventually

RUNNING = BeatAnswer(status="running", stop_reason=None)
DONE = Outcome(status="succeeded", result_json="1")


class FakeClock(Clock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__(1_000_000)
        self.seconds = 100.0
        self.monotonic = lambda: self.seconds


@dataclass
class Rows:
    """The database as the lease sees it; `faults` are raised one by one, None lets a call pass."""

    answer: BeatAnswer | None = RUNNING
    faults: list[BaseException | None] = field(default_factory=list)
    after_commit: bool = False
    messages: list[str] = field(default_factory=list)
    beats: int = 0
    progress: Progress | None = None
    reasons: list[StopReason] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outcome: Outcome | None = None
    during: Callable[[], None] | None = None

    def _fault(self) -> BaseException | None:
        return self.faults.pop(0) if self.faults else None

    def _store(self, lines: Sequence[NewLine], last_seq: int) -> None:
        if len(self.messages) == last_seq:
            self.messages += [line.message for line in lines]
        else:
            # The very same lines again, after a commit that broke.
            assert self.messages[last_seq:] == [line.message for line in lines]

    def beat(
        self,
        fence: Fence,
        *,
        lines: Sequence[NewLine] = (),
        last_seq: int = 0,
        progress: Progress | None = None,
    ) -> BeatAnswer | None:
        self.beats += 1
        if self.during:
            self.during()
        fault = self._fault()
        if fault is not None and not self.after_commit:
            raise fault
        if self.answer is not None and self.outcome is None:
            self._store(lines, last_seq)
            self.progress = progress or self.progress
        if fault is not None:
            raise fault
        return self.answer if self.outcome is None else None

    def peek(self, fence: Fence) -> BeatAnswer | None:
        fault = self._fault()
        if fault is not None:
            raise fault
        return self.answer

    def set_stop_reason(self, fence: Fence, reason: StopReason) -> bool:
        self.reasons.append(reason)
        return True

    def note(
        self, fence: Fence, action: str, reason: str | None, evidence: dict[str, Any] | None
    ) -> bool:
        if self.faults and (fault := self.faults.pop(0)):
            raise fault
        self.notes.append(action)
        return True

    def finish(
        self,
        fence: Fence,
        outcome: Outcome,
        *,
        lines: Sequence[NewLine] = (),
        last_seq: int = 0,
        progress: Progress | None = None,
    ) -> OwnedJob | None:
        fault = self._fault()
        if fault is not None and not self.after_commit:
            raise fault
        if self.answer is None:
            return None
        self._store(lines, last_seq)
        self.outcome, self.progress = self.outcome or outcome, progress or self.progress
        if fault is not None:
            raise fault
        return an_owned_job()


class Rig:
    def __init__(self) -> None:
        self.rows, self.clock, ring = Rows(), FakeClock(), Alarm()
        self.book = Logbook(limit=1 << 30, clock=self.clock, ring=ring, buffer_bytes=64 << 20)
        self.lease = Lease(
            self.rows,
            self.rows,
            a_claim(),
            self.book,
            clock=self.clock,
            ring=ring,
            lease=15,
            margin=3,
            heartbeat=5,
            trusted_from=100.0,
        )

    def finish(self, outcome: Outcome = DONE) -> OwnedJob | None:
        return self.lease.finish(outcome, pause=self.pause)

    def pause(self, seconds: float) -> None:
        self.clock.seconds += seconds


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_beat_writes_what_waits(rig: Rig) -> None:
    rig.book.add([NewLine("a"), NewLine("b")])
    rig.book.set_progress(Progress(done=3))
    rig.lease.beat()
    assert rig.rows.messages == ["a", "b"]
    assert rig.rows.progress == Progress(done=3)
    assert not rig.book.waits


@pytest.mark.parametrize("fault", [LockBusy("busy"), DatabaseAway("away"), OSError("odd")])
@pytest.mark.parametrize("after_commit", [False, True])
def test_a_failed_beat_is_sent_again_unchanged(
    rig: Rig, fault: Exception, after_commit: bool
) -> None:
    rig.rows.faults, rig.rows.after_commit = [fault], after_commit
    rig.book.add([NewLine("a")])
    rig.book.set_progress(Progress(done=1))
    rig.lease.beat()
    assert str(fault) in (rig.lease.trouble or "")
    rig.book.add([NewLine("b")])
    rig.lease.beat()
    rig.lease.beat()
    assert rig.rows.messages == ["a", "b"]
    assert rig.rows.progress == Progress(done=1)
    assert not rig.lease.fenced


def test_lines_that_the_database_refuses_are_given_up_with_a_word(rig: Rig) -> None:
    rig.rows.faults = [ValueError("bad"), ValueError("bad")]
    rig.book.add([NewLine("a"), NewLine("b")])
    for _ in range(3):
        rig.lease.beat()
    rig.book.add([NewLine("c")])
    rig.lease.beat()
    assert rig.rows.messages == ["2 lines could not be stored (ValueError).", "c"]


def test_even_a_system_exit_does_not_end_the_writer(rig: Rig) -> None:
    rig.rows.faults = [SystemExit(1)]
    rig.lease.beat()
    rig.lease.beat()
    assert rig.rows.beats == 2


def test_trust_counts_from_before_the_renewal_was_sent(rig: Rig) -> None:
    assert rig.lease.is_trusted
    assert rig.lease.trust_until == 112.0

    def slow() -> None:
        rig.clock.seconds += 10

    rig.rows.during = slow
    rig.lease.beat()
    assert rig.lease.trust_until == 112.0
    rig.clock.seconds = 112.0
    assert not rig.lease.is_trusted
    assert not rig.lease.is_lost
    rig.rows.during = None
    rig.lease.beat()
    assert rig.lease.is_trusted


def test_a_fenced_owner_writes_nothing_more(rig: Rig) -> None:
    rig.rows.answer = None
    rig.lease.beat()
    assert rig.lease.is_lost
    assert not rig.lease.is_trusted
    rig.book.add([NewLine("late")])
    beats = rig.rows.beats
    rig.lease.beat()
    assert rig.rows.beats == beats
    assert rig.finish() is None
    assert rig.rows.outcome is None


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        (RUNNING, None),
        (BeatAnswer(status="running", stop_reason="shutdown"), "shutdown"),
        (BeatAnswer(status="cancel_requested", stop_reason=None), "cancel"),
        (BeatAnswer(status="cancel_requested", stop_reason="cancel"), "cancel"),
        (BeatAnswer(status="cancel_requested", stop_reason="force"), "force"),
    ],
)
def test_a_beat_learns_what_is_asked(rig: Rig, answer: BeatAnswer, asked: str | None) -> None:
    rig.rows.answer = answer
    rig.lease.beat()
    assert rig.lease.asked == asked
    assert rig.lease.look() == asked


def test_looking_reads_at_most_every_fifth_of_a_second(rig: Rig) -> None:
    assert rig.lease.look() is None
    rig.rows.answer = BeatAnswer(status="cancel_requested", stop_reason="cancel")
    assert rig.lease.look() is None
    rig.clock.seconds += 0.21
    assert rig.lease.look() == "cancel"


def test_looking_while_the_database_is_away_asks_less_and_raises_nothing(rig: Rig) -> None:
    rig.rows.faults = [DatabaseAway("away")]
    assert rig.lease.look() is None
    rig.rows.answer = BeatAnswer(status="cancel_requested", stop_reason="cancel")
    rig.clock.seconds += 1
    assert rig.lease.look() is None
    rig.clock.seconds += 5
    assert rig.lease.look() == "cancel"


def test_looking_may_find_that_the_job_was_taken_away(rig: Rig) -> None:
    rig.rows.answer = None
    rig.lease.look()
    assert rig.lease.is_lost


def test_a_reason_of_our_own_is_written_with_the_next_beat_and_only_rises(rig: Rig) -> None:
    rig.lease.ask("run_timeout")
    rig.lease.ask("shutdown")
    assert rig.lease.asked == "run_timeout"
    rig.lease.beat()
    rig.lease.beat()
    assert rig.rows.reasons == ["run_timeout"]


def test_the_end_comes_after_everything_that_waits(rig: Rig) -> None:
    count = 2 * BATCH_ROWS + 3
    rig.book.add([NewLine(str(number)) for number in range(count)])
    rig.lease.ask("shutdown")
    rig.book.set_progress(Progress(done=9))
    assert rig.finish() is not None
    assert rig.rows.messages == [str(number) for number in range(count)]
    assert rig.rows.outcome == DONE
    assert rig.rows.reasons == ["shutdown"]
    assert rig.rows.progress == Progress(done=9)


@pytest.mark.parametrize("after_commit", [False, True])
def test_the_end_is_tried_again_while_the_database_is_away(rig: Rig, after_commit: bool) -> None:
    rig.book.add([NewLine("a")])
    rig.rows.faults = [DatabaseAway("away"), LockBusy("busy")] * 3
    rig.rows.after_commit = after_commit
    assert rig.finish() is not None
    assert rig.rows.messages == ["a"]
    assert rig.rows.outcome == DONE


def test_a_beat_between_two_tries_does_not_take_the_end_for_a_fence(rig: Rig) -> None:
    rig.book.add([NewLine("a")])
    rig.rows.faults, rig.rows.after_commit = [DatabaseAway("away")], True

    def pause(seconds: float) -> None:
        rig.book.add([NewLine("not to be sent by a beat")])
        rig.lease.beat()

    assert rig.lease.finish(DONE, pause=pause) is not None
    assert rig.rows.messages == ["a"]


def test_the_end_gives_up_after_ten_minutes(rig: Rig) -> None:
    rig.rows.faults = [DatabaseAway("away")] * 100_000
    with pytest.raises(DatabaseAway):
        rig.finish()
    assert rig.clock.seconds - 100 == pytest.approx(600, abs=2)


def test_the_end_without_what_the_database_refuses(rig: Rig) -> None:
    rig.book.add([NewLine("a"), NewLine("b")])
    rig.rows.faults = [ValueError("a line"), ValueError("a line")]
    assert rig.finish() is not None
    assert rig.rows.outcome == DONE
    assert rig.rows.messages == ["2 lines could not be stored (ValueError)."]


def test_the_end_without_a_result_that_the_database_refuses(rig: Rig) -> None:
    rig.rows.faults = [ValueError("packet")] * 3
    assert rig.finish() is not None
    outcome = rig.rows.outcome
    assert outcome is not None
    assert (outcome.status, outcome.reason) == ("failed", "result_too_large")
    assert "The database refused the result" in (outcome.error_message or "")


def test_an_end_that_is_refused_whatever_it_holds_is_raised(rig: Rig) -> None:
    rig.rows.faults = [ValueError("never")] * 9
    failed = replace(DONE, status="failed", result_json=None, error_message="é" * 9000)
    with pytest.raises(ValueError, match="never"):
        rig.finish(failed)


def test_the_loop_beats_at_once_for_lines_and_by_the_clock_without(rig: Rig) -> None:
    rig.lease.start()
    rig.book.add([NewLine("a")])
    eventually(lambda: rig.rows.messages == ["a"])
    assert rig.rows.beats == 1
    rig.clock.seconds += 5
    rig.lease.hurry()
    eventually(lambda: rig.rows.beats == 2)
    rig.lease.close()
    eventually(lambda: not rig.lease._thread.alive)
    assert not rig.lease.revive()


def test_a_dead_writer_can_be_revived(rig: Rig) -> None:
    assert rig.lease.revive()
    rig.book.add([NewLine("a")])
    eventually(lambda: rig.rows.messages == ["a"])
    assert not rig.lease.revive()
    rig.lease.close()


def test_output_is_collected_by_the_very_beat_that_writes_it(rig: Rig) -> None:
    """Progress alone is reason enough to beat; the output must not have to wait for a gap."""
    waiting = [NewLine("a"), NewLine("b")]
    rig.lease._collect = lambda: rig.book.add([waiting.pop(0)]) if waiting else None
    for number in (1, 2):
        rig.book.set_progress(Progress(done=number))
        rig.lease.beat()
        assert rig.rows.messages == ["a", "b"][:number]


def test_output_that_cannot_be_read_costs_neither_lines_nor_lease(rig: Rig) -> None:
    def fail() -> None:
        raise OSError("pipe")

    rig.lease._collect = fail
    for message in ("a", "b", "c"):
        rig.book.add([NewLine(message)])
        rig.lease.beat()
    assert rig.rows.messages == ["a", "b", "c"]
    assert "pipe" in (rig.lease.trouble or "")
