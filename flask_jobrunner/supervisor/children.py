"""One job's process: started, watched with the shim's code, and reported on."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.report import EndReport, parse_report
from flask_jobrunner.shim import backflow, channels, evidence, watch

from .dispatch import Handed
from .standby import Standby

Hear = Callable[["Child", str], None]
ANSWER_SECONDS = 2.0
"""How long a process that stood by may take to say that it has read what it was given."""


class Starter:
    """Starts `… jobs run-trusted JOB`, and the same that waits, already built, for its job."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], claim_window: float
    ) -> None:
        self._command = [*command, "jobs", "run-trusted"]
        self._environ = dict(environ)
        self._claim_window = claim_window

    def start(self, handed: Handed, hear: Hear) -> Child:
        """Start a process and hand it the job. Raises `OSError` when none can be started."""
        pid, ends = self._spawn(handed.uuid)
        fault_point("work.spawned")
        return Child(handed, pid, ends, claim_window=self._claim_window, hear=hear)

    def stand_by(self) -> Standby:
        """Start a process for a job that is still to come. Raises `OSError`."""
        return Standby(*self._spawn("--standby"))

    def hand(self, standby: Standby, handed: Handed, hear: Hear) -> Child:
        """Give the job to a process that stands by; whether it takes it is still to be seen."""
        child = Child(
            handed,
            standby.pid,
            standby.ends,
            claim_window=self._claim_window,
            hear=hear,
            cpu_before=standby.release(),
        )
        fault_point("standby.given")
        return child

    def _spawn(self, argument: str) -> tuple[int, channels.Pipes]:
        keep_to_ourselves()
        ends = channels.Pipes()
        try:
            pid = channels.start_child([*self._command, argument], self._environ, ends)
        except (OSError, ValueError):
            ends.close()
            raise
        return pid, ends


class Child:
    """A child of this process. `hear` is told `claimed` when it has taken the job.

    `cpu_before` is what a process had used that stood by; None: it was started for the job.
    """

    def __init__(
        self,
        handed: Handed,
        pid: int,
        ends: channels.Pipes,
        *,
        claim_window: float,
        hear: Hear,
        cpu_before: float | None = None,
    ) -> None:
        self.handed = handed
        self.pid = pid
        self.asked = False
        """Whether it was asked to stop."""
        self._ends = ends
        self._hear = hear
        self.stood_by = cpu_before is not None
        """Whether it was there before the job."""
        self._answer_by = time.monotonic() + ANSWER_SECONDS
        self._facts = evidence.Evidence(pid, cpu_before=cpu_before or 0.0)
        self._flow = backflow.Backflow(
            control=(ends.control_r, ends.control_w),
            out=ends.out,
            err=ends.err,
            unread=channels.unread,
            capacity=channels.capacity,
        )
        self._flow.send(handed.envelope)
        self._watch = watch.Watch(
            pid=pid,
            ack=ends.ack_r,
            uuid=handed.uuid,
            attempt=handed.attempt,
            claim_window=claim_window,
            backflow=self._flow,
            evidence=self._facts,
            relay=self._relay,
        )

    @property
    def claimed(self) -> bool:
        """Whether it has said that the job is its own."""
        return bool(self._watch.said.get("claimed"))

    @property
    def is_silent(self) -> bool:
        """Whether it stood by, and has not said yet that it has read what it was given.

        It has not touched the job then, and never will once it has ended.
        """
        said = self._watch.said
        return self.stood_by and not (said.get("booted") or said.get("claimed"))

    @property
    def ended(self) -> bool:
        """Whether it has ended; then `last_words` is to be called, once."""
        return self._watch.ended

    def interest(self) -> dict[int, int]:
        """What to poll for, by fd."""
        return self._watch.interest()

    def patience(self) -> float:
        """After how many seconds `step` must be called even if nothing happens."""
        wait = self._watch.patience()
        return min(wait, max(0.0, self._answer_by - time.monotonic())) if self.is_silent else wait

    def step(self, ready: Mapping[int, int]) -> None:
        """Do all that is due."""
        self._watch.step(ready)
        if self.is_silent and not self.ended and time.monotonic() >= self._answer_by:
            # Stopped, or stuck: its job does not wait for it.
            self.kill()

    def ask(self) -> None:
        """Ask it to stop; one that has not taken the job yet simply ends."""
        self.asked = True
        self._watch.ask()

    def end(self, why: str, *, grace: float) -> None:
        """End it: TERM, `grace` seconds, KILL."""
        self._watch.end(why, 0.0, grace)

    def kill(self) -> None:
        """End it at once, watched or not."""
        # Our own child, not waited for: the number can belong to nobody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def last_words(self) -> EndReport:
        """End what it left behind, wait for it, and tell how it ended. May take some seconds."""
        try:
            line = evidence.last_words(
                uuid=self.handed.uuid,
                attempt=self.handed.attempt,
                watch=self._watch,
                flow=self._flow,
                facts=self._facts,
                fault=self._ends.fault,
            )
            return parse_report(line)
        finally:
            self._ends.close()

    def _relay(self, line: bytes) -> None:
        self._hear(self, str(json.loads(line)["type"]))


def keep_to_ourselves() -> None:
    """See that no child inherits a socket or file of the application that was built here."""
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all that is wanted
            if int(name) > 2:
                with suppress(OSError):
                    os.set_inheritable(int(name), False)  # noqa: FBT003 - takes no keyword
