"""Holding on to the job: one writer that renews, stores lines and learns what is asked.

One thread on its own connections. A beat is one transaction: lease, heartbeat, step, progress and
the next lines. What the database does not take now is tried again; it never decides the outcome.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import (
    BeatAnswer,
    Claim,
    Fence,
    NewLine,
    Outcome,
    OwnedJob,
    Progress,
)
from flask_jobrunner.model.statuses import STOP_REASONS, StopReason
from flask_jobrunner.protocol.encoding import clip_bytes, spell_out
from flask_jobrunner.repositories.faults import untranslatable

from .logbook import Logbook
from .steady import Alarm, Clock, Worker

FLUSH_PAUSE = 0.25
"""Seconds between two writes."""
SQLITE_PAUSE = 0.1
"""The pause while more waits than one batch takes. On SQLite a correctness setting: waiting
processes ask again only every 0.1 s, and without a pause one job's log keeps them out for long."""
FINISH_FOR = 600.0
"""Seconds for which the last write is tried while the database is away."""
PEEK_EVERY = 0.2
_RETRY_PAUSE = 0.5


class Ownership(Protocol):
    """The owner's writes, as the repositories offer them."""

    def beat(
        self,
        fence: Fence,
        *,
        lines: Sequence[NewLine] = (),
        last_seq: int = 0,
        progress: Progress | None = None,
    ) -> BeatAnswer | None: ...

    def peek(self, fence: Fence) -> BeatAnswer | None: ...

    def set_stop_reason(self, fence: Fence, reason: StopReason) -> bool: ...

    def note(
        self, fence: Fence, action: str, reason: str | None, evidence: dict[str, Any] | None
    ) -> bool: ...


class Endings(Protocol):
    """The owner's last write."""

    def finish(
        self,
        fence: Fence,
        outcome: Outcome,
        *,
        lines: Sequence[NewLine] = (),
        last_seq: int = 0,
        progress: Progress | None = None,
    ) -> OwnedJob | None: ...


class Lease:
    """The claim of this process. Durations are seconds.

    `collect` brings the output that waits, right before it is written; `silence` keeps what our
    own writing logs out of the log that it writes.
    """

    def __init__(
        self,
        ownership: Ownership,
        endings: Endings,
        claim: Claim,
        logbook: Logbook,
        *,
        clock: Clock,
        ring: Alarm,
        lease: float,
        margin: float,
        heartbeat: float,
        trusted_from: float,
        busy_pause: float = SQLITE_PAUSE,
        collect: Callable[[], None] | None = None,
        silence: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._ownership, self._endings = ownership, endings
        self._fence = claim.fence
        self._logbook = logbook
        self._clock = clock
        self._ring = ring
        self._trust_for = lease - margin
        self._heartbeat = heartbeat
        self._busy_pause = busy_pause
        self._collect = collect
        self.silence = silence
        self._last_seq = claim.owned.log_seq
        self._answer = BeatAnswer(status="running", stop_reason=None)
        self._wanted: StopReason | None = None
        self._told: StopReason | None = None
        self._notes = deque[tuple[str, str | None, dict[str, Any] | None]]()
        self._hurry = False
        self._failures = 0
        self._last_beat = trusted_from
        self._last_write = 0.0
        self._next_try = 0.0
        self._next_peek = 0.0
        self._closing = False
        self._finishing = False
        self._last_progress: Progress | None = None
        self._writing = allocate_lock()
        self._thread = Worker(self._loop)
        self.fenced = False
        """The job belongs to somebody else now: nothing more is written."""
        self.trust_until = trusted_from + self._trust_for
        """On the monotonic clock, counted from before the renewal was sent."""
        self.trouble: str | None = None
        """The last thing that went wrong with a beat, for whoever looks into it."""

    # --- what is known ------------------------------------------------------------------------

    @property
    def asked(self) -> StopReason | None:
        """The strongest reason for which the handler was asked to stop, as far as is known."""
        cancel: StopReason | None = "cancel" if self._answer.status == "cancel_requested" else None
        known = {self._wanted, self._answer.stop_reason, cancel}
        return next((reason for reason in reversed(STOP_REASONS) if reason in known), None)

    @property
    def is_trusted(self) -> bool:
        """Whether nobody else can have been given the job yet."""
        return not self.fenced and self._clock.monotonic() < self.trust_until

    @property
    def is_lost(self) -> bool:
        """Whether the job is known to belong to somebody else."""
        return self.fenced

    def look(self) -> StopReason | None:
        """`asked`, after a read of the database if the last one is not quite fresh."""
        now = self._clock.monotonic()
        if self.asked or self.fenced or now < self._next_peek:
            return self.asked
        self._next_peek = now + PEEK_EVERY
        try:
            with self.silence():
                answer = self._ownership.peek(self._fence)
        except Exception as error:  # noqa: BLE001 - asking must not end a job
            # While the database is away every question may take seconds: ask less.
            self.trouble = _told(error)
            self._next_peek = self._clock.monotonic() + self._heartbeat
            return self.asked
        if answer is None:
            self._lose()
        else:
            self._answer = answer
        return self.asked

    # --- what others want ---------------------------------------------------------------------

    def ask(self, reason: StopReason) -> None:
        """Ask the handler to stop; the reason is written with the next beat."""
        if self._wanted is None or STOP_REASONS.index(reason) > STOP_REASONS.index(self._wanted):
            self._wanted = reason
        self._ring.ring()

    def note(
        self, action: str, *, reason: str | None = None, evidence: dict[str, Any] | None = None
    ) -> None:
        """Have an event of the job written with the next beat."""
        self._notes.append((action, reason, evidence))
        self._ring.ring()

    def hurry(self) -> None:
        """Beat soon."""
        self._hurry = True
        self._ring.ring()

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def revive(self) -> bool:
        """Start the thread again should it have died; True when it had."""
        if self._thread.alive or self._closing:
            return False
        self._thread.start()
        return True

    def close(self) -> None:
        """Stop beating."""
        self._closing = True
        self._ring.ring()

    # --- the one writer -----------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._closing:
            self._ring.wait(self._until_due())
            if self._until_due() <= 0 and not self._closing:
                self.beat()

    def _until_due(self) -> float:
        now = self._clock.monotonic()
        due = self._last_beat + self._heartbeat
        if self._hurry or self._notes or self._wanted != self._told or self._logbook.waits:
            pause = self._busy_pause if self._logbook.has_more else FLUSH_PAUSE
            due = min(due, self._last_write + pause)
        return max(due, self._next_try) - now

    def beat(self) -> None:
        """One beat. Raises nothing: what failed is tried again."""
        with self._writing, self.silence():
            sent = self._clock.monotonic()
            try:
                self._tell_reason()
                self._hurry = False
                self._bring_output()
                self._write(sent, lines=not self._finishing)
                self._failures, self._next_try = 0, 0.0
            except (LockBusy, DatabaseAway) as error:
                self._failed(error)
            except BaseException as error:  # noqa: BLE001 - a dead writer would cost the job
                self._failed(error)
                # Not busy, not away, twice: the database refuses these very lines, for ever.
                if not self._spelled_out(error) and self._failures >= 2:
                    self._give_up_batch(error)
            self._last_write = self._clock.monotonic()

    def _bring_output(self) -> None:
        if self._collect is None or self._finishing:
            return
        try:
            self._collect()
        except Exception as error:  # noqa: BLE001 - what cannot be read must not cost the lease
            self.trouble = _told(error)

    def _tell_reason(self) -> None:
        wanted = self._wanted
        if wanted is not None and wanted != self._told and not self.fenced:
            self._ownership.set_stop_reason(self._fence, wanted)
            self._told = wanted
        while self._notes and not self.fenced:
            self._ownership.note(self._fence, *self._notes[0])
            self._notes.popleft()

    def _write(self, sent: float, *, lines: bool) -> None:
        if self.fenced:
            self._last_beat = sent
            return
        batch = self._logbook.batch() if lines else []
        progress = self._logbook.take_progress()
        try:
            answer = self._ownership.beat(
                self._fence, lines=batch, last_seq=self._last_seq, progress=progress
            )
        except BaseException:
            if progress is not None:
                self._logbook.progress_not_written()
            raise
        if answer is None:
            self._lose()
            return
        self._answer = answer
        self._last_beat = sent
        self.trust_until = sent + self._trust_for
        if batch:
            self._last_seq += len(batch)
            self._logbook.written()

    def _lose(self) -> None:
        # After a last write whose commit broke, the row is terminal: that is for it to find out.
        if not self._finishing:
            self.fenced = True

    def _failed(self, error: BaseException) -> None:
        self.trouble = _told(error)
        self._failures += 1
        self._next_try = self._clock.monotonic() + min(_RETRY_PAUSE * self._failures, 2.0)

    def _spelled_out(self, error: BaseException) -> bool:
        """Whether other characters may help: those that the database's encoding does not have."""
        return untranslatable(error) and self._logbook.spell_out()

    def _give_up_batch(self, error: BaseException) -> None:
        if self._logbook.unsettled:
            count = len(self._logbook.batch())
            text = f"{count:,} lines could not be stored ({type(error).__name__})."
            self._logbook.replace_batch(NewLine(text, "warning", at=self._clock.now()))

    # --- the end ------------------------------------------------------------------------------

    def finish(
        self,
        outcome: Outcome,
        *,
        for_seconds: float = FINISH_FOR,
        pause: Callable[[float], object] | None = None,
    ) -> OwnedJob | None:
        """Write everything that waits and then the end. None: the job was taken from us.

        Tried again while the database is away, and the beats go on meanwhile. Raises the last
        error when the time is over.
        """
        wait = pause or Alarm().wait
        give_up = self._clock.monotonic() + for_seconds
        refusals = 0
        while self._finishing or not self.fenced:
            try:
                with self._writing, self.silence():
                    return self._finish(outcome)
            except (LockBusy, DatabaseAway) as error:
                self._failed(error)
                if self._clock.monotonic() >= give_up:
                    raise
            except Exception as error:  # noqa: BLE001 - raised again when nothing helps
                spelled = _spelled(outcome) if untranslatable(error) else outcome
                if self._spelled_out(error) or spelled != outcome:
                    outcome = spelled
                else:
                    refusals += 1
                    outcome = self._without_what_is_refused(outcome, error, refusals)
            wait(_RETRY_PAUSE)
        return None

    def _finish(self, outcome: Outcome) -> OwnedJob | None:
        self._tell_reason()
        while not self._finishing and (self._logbook.unsettled or self._logbook.has_more):
            self._write(self._clock.monotonic(), lines=True)
            if self.fenced:
                return None
        self._finishing = True
        # From here on the very same lines and place are sent each time: that is how a last write
        # whose commit broke is recognised.
        latest = self._logbook.take_progress() or self._last_progress
        self._last_progress = self._logbook.storable(latest)
        job = self._endings.finish(
            self._fence,
            outcome,
            lines=self._logbook.batch(),
            last_seq=self._last_seq,
            progress=self._last_progress,
        )
        self._logbook.written()
        self.fenced = job is None
        self._closing = True
        return job

    def _without_what_is_refused(
        self, outcome: Outcome, error: Exception, refusals: int
    ) -> Outcome:
        """What is left to try when the database refuses an end for what it holds.

        First its lines, as a log never decides an outcome; then the result and the long texts.
        """
        self.trouble = _told(error)
        if refusals > 4:
            raise error
        if refusals == 2:
            self._give_up_batch(error)
        if refusals < 3:
            return outcome
        had_result = outcome.result_json is not None
        message = outcome.error_message or f"The database refused the result: {_told(error)}"
        return Outcome(
            status="failed" if had_result else outcome.status,
            reason="result_too_large" if had_result else outcome.reason,
            error_class=outcome.error_class,
            error_message=clip_bytes(message, 1000).encode("ascii", "replace").decode(),
        )


def _spelled(outcome: Outcome) -> Outcome:
    return replace(
        outcome,
        error_class=spell_out(outcome.error_class, 255),
        error_message=spell_out(outcome.error_message, 60_000),
        traceback=spell_out(outcome.traceback, 64 << 10),
    )


def _told(error: BaseException) -> str:
    return clip_bytes(f"{type(error).__name__}: {error}", 500)
