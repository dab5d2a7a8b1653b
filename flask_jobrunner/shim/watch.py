"""Watching one child: its messages, its limits, its output, its end.

`Watch` never waits by itself beyond one poll, so that one process can watch many.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Evidences(Protocol):
        """What `Watch` needs of evidence.Evidence."""

        def sample(self) -> None: ...
        def ask_for_stack(self) -> bool: ...

    class Backflows(Protocol):
        """What `Watch` needs of backflow.Backflow."""

        control_w: int

        @property
        def wants_to_write(self) -> bool: ...
        @property
        def is_suspicious(self) -> bool: ...
        def readable(self) -> list[int]: ...
        def look(self, now: float) -> None: ...
        def hold(self, until: float) -> None: ...
        def drain(self) -> None: ...
        def flush(self) -> None: ...


MESSAGE_BYTES = 4096
NAME_CHARACTERS = 64
TERM_GRACE = 5.0  # seconds between TERM and KILL for a child that was not warned
WARNED_GRACE = 2.0  # the same for one that stopped by itself too slowly
HOLD_MAX = 10.0  # seconds for which a child may let its pipes be full without being drained
SAMPLE_EVERY = 0.5
_WITHOUT_PIDFD = 0.1  # how often to ask for the end where the kernel cannot tell
_SUSPICIOUS = 0.05
STACK_TIME = 0.3  # for the stacks to be written, before TERM
OF_THE_HANDLER = ("run_timeout", "stall", "cancel")  # ends that are no more due once it returned
HANGS = ("run_timeout", "stall")  # ends that need to know where it hung


class Lines:
    """Bytes in, whole lines out; a line that is too long is skipped to its end."""

    def __init__(self, limit: int = MESSAGE_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, with their newline."""
        self._held += data
        *whole, rest = self._held.split(b"\n")
        lines = []
        for line in whole:
            if not self._skipping and len(line) < self._limit:
                lines.append(bytes(line) + b"\n")
            self._skipping = False
        self._held = rest
        if len(self._held) >= self._limit:
            self._skipping = True
            self._held.clear()
        return lines


class Watch:
    """One child of this process, from its start to its end.

    `relay` is given every good message as the line that it was. `said` holds what the messages
    told, `killed` why the child was ended by us.
    """

    def __init__(
        self,
        *,
        pid: int,
        ack: int,
        uuid: str,
        attempt: int,
        claim_window: float,
        backflow: Backflows,
        evidence: Evidences,
        relay: Callable[[bytes], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pid = pid
        self.ended = False
        self.killed: str | None = None
        self.said: dict[str, object] = {}
        self._ack: int | None = ack
        self._job = (uuid, attempt)
        self._backflow = backflow
        self._evidence = evidence
        self._relay = relay
        self._clock = clock
        self._lines = Lines()
        self._pidfd = pidfd(pid)
        self._next_sample = clock() + SAMPLE_EVERY
        self._limits = {"claim_window": (clock() + claim_window, TERM_GRACE)}
        self._kill_at: float | None = None
        self._stack_at: float | None = None
        self._can_look = hasattr(os, "waitid")  # not on every macOS
        self._how: tuple[int | None, resource.struct_rusage | None] | None = None

    def interest(self) -> dict[int, int]:
        """What to poll for, by fd."""
        wanted = dict.fromkeys(self._backflow.readable(), select.POLLIN)
        if self._ack is not None:
            wanted[self._ack] = select.POLLIN
        if self._pidfd is not None:
            wanted[self._pidfd] = select.POLLIN
        if self._backflow.wants_to_write:
            wanted[self._backflow.control_w] = select.POLLOUT
        return wanted

    def patience(self) -> float:
        """After how many seconds `step` must be called even if nothing happens."""
        due = [self._next_sample]
        if self._kill_at is not None:
            due.append(self._kill_at)
        elif self.killed is None:
            due += [at for at, _ in self._limits.values()]
        wait = max(0.0, min(due) - self._clock())
        if self._pidfd is None:
            wait = min(wait, _WITHOUT_PIDFD)
        return min(wait, _SUSPICIOUS) if self._backflow.is_suspicious else wait

    def step(self, ready: Mapping[int, int]) -> None:
        """Do all that is due; `ready` is what poll said about `interest`."""
        if self._ack in ready:
            self._hear()
        self._look_after_output(ready)
        self._enforce(self._clock())
        if (self._pidfd is None or self._pidfd in ready) and self._has_ended():
            self._hear()
            self.ended = True

    def ask(self) -> None:
        """Send TERM to the child alone: a job's process lets its handler decide."""
        # Our own child, not waited for: the number can belong to nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)

    def end(self, why: str, within: float, grace: float = WARNED_GRACE) -> None:
        """End it in `within` seconds if it still runs then: TERM, `grace` seconds, KILL."""
        due = self._clock() + within
        self._limits[why] = (due, grace)
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, due + grace)

    def reap(self) -> tuple[int | None, resource.struct_rusage | None]:
        """Wait for a child that has ended: its status and what it used."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        return self._how or _wait(self.pid, 0) or (None, None)

    def _has_ended(self) -> bool:
        if self._can_look:
            # Left unreaped, so that its number stays taken while we still signal its group.
            try:
                look = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self.pid, look) is not None
            except ChildProcessError:
                return True
        self._how = self._how or _wait(self.pid, os.WNOHANG)
        return self._how is not None

    def _hear(self) -> None:
        while self._ack is not None:
            try:
                data = os.read(self._ack, 65536)
            except BlockingIOError:
                return
            if not data:
                # Closed by the child, or never passed on by a command such as sudo: no proof of
                # anything. It may have claimed, and to claim late the row itself forbids.
                self._ack = None
                self._limits.pop("claim_window", None)
                return
            for line in self._lines.feed(data):
                message = _message(line)
                if message is not None and self._understood(message):
                    self._relay(line)

    def _understood(self, message: dict[str, object]) -> bool:
        kind = message.get("type")
        if kind == "claimed" and (message.get("uuid"), message.get("attempt")) != self._job:
            return False
        try:
            return self._note(kind, message)
        except (TypeError, ValueError, OverflowError):
            return False

    def _note(self, kind: object, message: dict[str, object]) -> bool:
        """Take a message in as a whole or, raising, not at all."""
        now = self._clock()
        if kind == "booted":
            self.said["booted"] = True
        elif kind == "claimed":
            token, nonce = _text(message, "token"), _text(message, "nonce")
            self.said |= {"claimed": True, "token": token, "nonce": nonce}
            self._limits.pop("claim_window", None)
        elif kind == "refused":
            self.said["refused"] = _text(message, "code")
        elif kind == "started":
            if message.get("budget") is not None:
                budget = _seconds(message, "budget") + _seconds(message, "grace")
                self._limits["run_timeout"] = (now + budget, TERM_GRACE)
            self.said["started"] = True
        elif kind == "stopping":
            due = now + _seconds(message, "grace")
            self._limits[_text(message, "reason")] = (due, WARNED_GRACE)
        else:
            self._note_between_us(kind, message, now)
            return False  # nobody else needs to know
        return True

    def _note_between_us(self, kind: object, message: dict[str, object], now: float) -> None:
        if kind == "holding":
            self._backflow.hold(now + min(_seconds(message, "seconds"), HOLD_MAX))
        if kind == "returned":
            # Its end is being written, which takes as long as the database is away.
            end = now + _seconds(message, "seconds")
            for why in OF_THE_HANDLER:
                if why in self._limits:
                    due, grace = self._limits[why]
                    self._limits[why] = (max(due, end), grace)

    def _look_after_output(self, ready: Mapping[int, int]) -> None:
        now = self._clock()
        if now >= self._next_sample:
            self._next_sample = now + SAMPLE_EVERY
            self._evidence.sample()
            self._backflow.look(now)
        elif self._backflow.is_suspicious:
            self._backflow.look(now)
        if self._backflow.readable():
            self._backflow.drain()
        elif self._backflow.control_w in ready:
            self._backflow.flush()

    def _enforce(self, now: float) -> None:
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._kill_at = None
                self._signal(signal.SIGKILL)
            return
        due = [(at, grace, why) for why, (at, grace) in self._limits.items() if now >= at]
        if due and self.killed is None:
            _, grace, why = min(due)
            if self._writes_its_stack(why, grace, now):
                return
            self.killed = why
            self._kill_at = now + grace
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped process takes no TERM

    def _writes_its_stack(self, why: str, grace: float, now: float) -> bool:
        """Whether to wait for that; a child that was warned by itself has written it."""
        if self._stack_at is None and why in HANGS and grace == TERM_GRACE:
            self._stack_at = now
            if self._evidence.ask_for_stack():
                self._limits[why] = (now + STACK_TIME, grace)
                return True
        return False

    def _signal(self, number: int) -> None:
        # Our own child, not waited for: the number can belong to nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _message(line: bytes) -> dict[str, object] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.get("v") == 1 else None


def _text(message: dict[str, object], key: str) -> str:
    value = message.get(key)
    # What is longer would be refused by whoever reads the report, and the report with it.
    if not isinstance(value, str) or not value.isascii() or len(value) > NAME_CHARACTERS:
        raise TypeError
    return value


def _seconds(message: dict[str, object], key: str) -> float:
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError
    return float(value)


def pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable with the end of a process, where there is such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _wait(pid: int, options: int) -> tuple[int | None, resource.struct_rusage | None] | None:
    try:
        found, status, usage = os.wait4(pid, options)
    except ChildProcessError:
        return None, None  # with SIGCHLD ignored, the kernel has forgotten how it ended
    return (status, usage) if found else None
