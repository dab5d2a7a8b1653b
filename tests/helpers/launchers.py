"""A launcher that starts nothing: what a child would do is done by the test, in its turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask_jobrunner.caller.launch import Answer, LaunchCommand
from flask_jobrunner.model.errors import LaunchError
from flask_jobrunner.model.records import NOBODY, Claim
from flask_jobrunner.protocol.envelope import Envelope, load_envelope
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.protocol.report import EndReport, dump_report
from flask_jobrunner.runtime import current_runtime
from tests.helpers.reports import report

Deed = Callable[["FakeHandle"], Answer]


@dataclass
class FakeHandle:
    """One launch: `wait` does what the test wants a child to have done by then."""

    command: LaunchCommand
    envelope: Envelope
    on_report: Callable[[bytes], bool]
    deed: Deed
    waited: list[float] = field(default_factory=list)
    refusal: str | None = None
    report: bytes | None = None

    def wait(self, seconds: float) -> Answer:
        self.waited.append(seconds)
        return self.deed(self)


class FakeLauncher:
    """Remembers launches. `error` is raised instead of a launch, `deed` is what a child does."""

    def __init__(self) -> None:
        self.launched: list[FakeHandle] = []
        self.error: Exception | None = None
        self.deed: Deed = waiting

    def launch(
        self, command: LaunchCommand, envelope_line: bytes, on_report: Callable[[bytes], bool]
    ) -> FakeHandle:
        if self.error is not None:
            raise self.error
        handle = FakeHandle(command, load_envelope(envelope_line), on_report, self.deed)
        self.launched.append(handle)
        return handle

    @property
    def last(self) -> FakeHandle:
        """The newest launch."""
        return self.launched[-1]

    def fail(self, text: str = "no more processes") -> None:
        """From now on no process can be started."""
        self.error = LaunchError(text)


# -- what a child may have done ---------------------------------------------------------------


def waiting(_handle: FakeHandle) -> Answer:
    """Nothing is known yet."""
    return "waiting"


def take(handle: FakeHandle) -> Claim | None:
    """Claim with the envelope, as the child does."""
    return current_runtime().ownership.claim(
        handle.envelope, worker=this_process(), parent=NOBODY, token=f"of {handle.envelope.job_id}"
    )


def claimed(handle: FakeHandle) -> Answer:
    """It has claimed, and its word of it has come."""
    assert take(handle) is not None
    return "claimed"


def claimed_silently(handle: FakeHandle) -> Answer:
    """It has claimed, and the word of it was lost."""
    assert take(handle) is not None
    return "waiting"


def only_says_so(_handle: FakeHandle) -> Answer:
    """It says that it has claimed, and the row does not."""
    return "claimed"


def ended(**values: Any) -> Deed:
    """It has ended, and its parent reports."""

    def deed(handle: FakeHandle) -> Answer:
        handle.report = dump_report(report_of(handle, **values))
        return "ended"

    return deed


def report_of(handle: FakeHandle, **values: Any) -> EndReport:
    """The report of a launch."""
    own: dict[str, Any] = {
        "uuid": handle.envelope.job_uuid,
        "attempt": handle.envelope.attempt,
        "exit_code": 1,
        "signal": None,
    }
    return report(**own | values)


def shim_gone(_handle: FakeHandle) -> Answer:
    """The parent itself has ended, without a word."""
    return "ended"


def refused(code: str, *, reported: bool) -> Deed:
    """It refuses the job; with or without the report of its end."""

    def deed(handle: FakeHandle) -> Answer:
        handle.refusal = code
        if reported:
            handle.report = dump_report(report_of(handle, booted=True, refused=code))
        return "refused"

    return deed


def envelope_line(handle: FakeHandle) -> str:
    """What must be found nowhere else: the credential."""
    assert json.dumps(handle.command.argv).find(handle.envelope.credential) < 0
    return handle.envelope.credential
