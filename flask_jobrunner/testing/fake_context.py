"""A context to call a handler with: the real one, but what it says is kept in lists."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from flask import Flask, has_app_context
from flask.globals import app_ctx

from flask_jobrunner.child.context import JobContext
from flask_jobrunner.child.program import OnLine, PathText
from flask_jobrunner.child.steady import Clock, Owner
from flask_jobrunner.files.inputs import Files
from flask_jobrunner.model.records import NOBODY, Claim, Fence, Job, NewLine, OwnedJob, Progress
from flask_jobrunner.model.results import ProgramResult
from flask_jobrunner.model.statuses import StopReason
from flask_jobrunner.protocol.encoding import decode_json
from flask_jobrunner.protocol.identity import uuid7
from flask_jobrunner.protocol.redact import DEFAULT_REDACT_KEYS, mask_text, mask_value

from .fake_files import FakeFiles
from .programs import FakeProgram, program_for

CHUNK_BYTES = 16384
BASE_URL = "http://localhost"


class SaidLine(NamedTuple):
    """A line of the log, as the job's page would show it: secrets masked."""

    level: str
    message: str
    context: dict[str, Any] | None = None
    stream: str = ""
    """`stdout` or `stderr`; empty for the context's own calls."""
    step_key: str | None = None


@dataclass
class _Sink:
    """Keeps what would go down the output pipe."""

    lines: list[SaidLine] = field(default_factory=list)
    step_key: str | None = None

    def record(self, line: NewLine) -> None:
        context = decode_json(line.context_json) if line.context_json else None
        said = SaidLine(line.level, line.message, context, line.stream, line.step_key)
        self.lines.append(said)

    def set_step(self, step_key: str | None) -> None:
        self.step_key = step_key


@dataclass
class _Holder:
    """What the lease would know."""

    asked: StopReason | None = None
    is_lost: bool = False
    looks_left: int | None = None
    beats: int = 0

    @property
    def is_trusted(self) -> bool:
        return not self.is_lost

    def look(self) -> StopReason | None:
        if self.looks_left is not None and self.asked is None:
            self.looks_left -= 1
            self.asked = "cancel" if self.looks_left < 0 else None
        return self.asked

    def hurry(self) -> None:
        self.beats += 1


class FakeContext(JobContext):
    """A `JobContext` without a job: call a handler's function with it, and look at what it did.

    `payload` is what the handler shall see: with `payload=` on the handler, what that makes of the
    mapping. `app` defaults to the current application, else to an empty one. `cancel_after` lets
    that many looks for a cancel (each turn of `track` is one) pass before one is there. With
    `programs`, `run()` answers what they say, by name, and starts nothing; without, it is real.
    `files` is what the job was given, in the words of `files=` of a start.
    """

    def __init__(
        self,
        payload: Any = None,
        *,
        app: Flask | None = None,
        job_type: str = "test",
        attempt: int = 1,
        title: str | None = None,
        owner: str | None = None,
        reference: str | None = None,
        fence: int = 1,
        base_url: str = BASE_URL,
        cancel_after: int | None = None,
        programs: Mapping[str, FakeProgram] | None = None,
        files: Files | None = None,
        redact_keys: Sequence[str] = DEFAULT_REDACT_KEYS,
    ) -> None:
        self._kept, self._lease = _Sink(), _Holder(looks_left=cancel_after)
        self._programs, self._kept_files = programs, FakeFiles(files)
        self.steps: list[tuple[str, str | None, int | None, int | None]] = []
        """`(key, label, index, total)` of every call of `set_step`, as it was made."""
        self.progress_calls: list[tuple[int | None, int | None]] = []
        """`(done, total)` of every call of `progress`, and of every turn of `track`."""
        self.ran: list[tuple[str, ...]] = []
        """The argv of every call of `run`."""
        job = _job(job_type, attempt=attempt, title=title, owner=owner, reference=reference)
        super().__init__(
            app or _application(),
            _claim(job, fence, base_url),
            {} if payload is None else payload,
            sink=self._kept,
            holder=self._lease,
            set_progress=self._show,
            mask=partial(mask_text, keys=redact_keys),
            mask_value=partial(mask_value, keys=redact_keys),
            chunk_bytes=CHUNK_BYTES,
            clock=Clock(),
            owner=Owner(),
            files=self._kept_files,
            redact_keys=redact_keys,
        )

    # --- what the test does -------------------------------------------------------------------

    def cancel(self) -> None:
        """Ask the handler to stop, from here on."""
        self._lease.asked = "cancel"

    def lose(self) -> None:
        """Give the job to another process: `check()` raises from here on."""
        self._lease.is_lost = True

    # --- what the test sees -------------------------------------------------------------------

    @property
    def lines(self) -> list[SaidLine]:
        """Everything that was logged through the context, in order."""
        return self._kept.lines

    def messages(self, kind: str | None = None) -> list[str]:
        """The texts of the lines; `kind` leaves those of one level (`warning`), or of one stream
        (`stdout`, `stderr`; also what `run()` passes on)."""
        return [line.message for line in self.lines if kind in (None, line.level, line.stream)]

    @property
    def shown(self) -> Progress:
        """Step and progress as the job's page would show them now."""
        return self._progress

    @property
    def artifacts(self) -> dict[str, bytes]:
        """What was published with `artifact`, by name."""
        return self._kept_files.artifacts

    @property
    def heartbeats(self) -> int:
        """How often `heartbeat()` was called."""
        return self._lease.beats

    def _show(self, _progress: Progress) -> None:
        """Nothing writes it."""

    # --- what the handler calls ---------------------------------------------------------------

    def set_step(
        self,
        key: str,
        label: str | None = None,
        index: int | None = None,
        total: int | None = None,
    ) -> None:
        """See `JobContext.set_step`."""
        self.steps.append((key, label, index, total))
        super().set_step(key, label, index, total)

    def progress(self, done: float, total: float | None = None, label: str | None = None) -> None:
        """See `JobContext.progress`."""
        super().progress(done, total, label)
        self.progress_calls.append((self.shown.done, self.shown.total))

    def run(
        self,
        argv: Sequence[PathText],
        *,
        on_line: OnLine | None = None,
        cwd: PathText | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,  # noqa: A002 - called as in `subprocess`
        timeout: float | None = None,
        check: bool = True,
    ) -> ProgramResult:
        """See `JobContext.run`; with `programs`, one of those is played."""
        words = tuple(os.fspath(word) for word in argv)
        self.ran.append(words)
        if self._programs is None:
            return super().run(
                argv,
                on_line=on_line,
                cwd=cwd,
                env=env,
                input=input,
                timeout=timeout,
                check=check,
            )
        self.raise_if_cancelled()

        def hear(stream: str, line: str) -> None:
            (self.stdout if stream == "stdout" else self.stderr)(line)
            if on_line is not None:
                on_line(stream, line)

        return program_for(self._programs, words).play(words, hear, check=check)


def _application() -> Flask:
    # The application itself: a handler may keep its context's longer than this one is there.
    return app_ctx.app if has_app_context() else Flask(__name__)


def _job(job_type: str, **values: Any) -> Job:
    now = datetime.now(UTC)
    return Job(
        id=1,
        uuid=uuid7(),
        job_type=job_type,
        status="running",
        is_active=True,
        is_terminal=False,
        is_stale=False,
        stop_reason=None,
        priority=0,
        actor=None,
        lock_key=None,
        payload=None,
        current_step_key=None,
        current_step_label=None,
        step_index=None,
        step_total=None,
        progress_done=None,
        progress_total=None,
        warning_count=0,
        error_count=0,
        created_at=now,
        queued_at=now,
        not_before=None,
        started_at=now,
        handler_started_at=now,
        heartbeat_at=now,
        finished_at=None,
        updated_at=now,
        error_class=None,
        error_reason_code=None,
        error_message=None,
        **values,
    )


def _claim(job: Job, fence: int, base_url: str) -> Claim:
    owned = OwnedJob(
        job=job,
        claim_mode="token",
        has_credential=False,
        worker_token=None,
        worker=NOBODY,
        parent=NOBODY,
        lease_until=None,
        claim_deadline=None,
        queue_deadline=None,
        run_deadline=None,
        heartbeat=None,
        now=0,
        revision=None,
        config_digest=None,
        row_version=1,
        log_seq=0,
        base_url=base_url,
        result_json=None,
    )
    fenced = Fence(job_id=job.id, attempt=job.attempt, token="")
    return Claim(fence=fenced, attempt_id=fence, claimed_at=0, owned=owned)
