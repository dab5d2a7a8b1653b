"""What a handler is given: its job, a log, steps and progress, and whether to stop."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from flask import Flask
from flask.ctx import RequestContext

from flask_jobrunner.model.errors import JobCancelled, OwnershipLost
from flask_jobrunner.model.records import Claim, NewLine, Progress
from flask_jobrunner.model.results import ProgramResult
from flask_jobrunner.model.statuses import StopReason
from flask_jobrunner.protocol.encoding import clean_text, encode_json, safe_repr, split_chunks
from flask_jobrunner.protocol.output import unify_newlines
from flask_jobrunner.protocol.redact import DEFAULT_REDACT_KEYS

from .job_files import Files
from .program import Command, Listener, OnLine, PathText, run_program
from .steady import Clock, Owner

T = TypeVar("T")

STEP_KEY_CHARS = 128
STEP_LABEL_CHARS = 255
CONTEXT_BYTES = 16384
_INT_MAX = 2**31 - 1
_BIGINT_MAX = 2**63 - 1


class Sink(Protocol):
    """Where records go: the output pipe, or in-process straight to the logbook."""

    step_key: str | None

    def record(self, line: NewLine) -> None:
        """Take one line."""

    def set_step(self, step_key: str | None) -> None:
        """From here on, output belongs to this step."""


class Holder(Protocol):
    """What the context asks of the lease."""

    @property
    def asked(self) -> StopReason | None: ...

    @property
    def is_trusted(self) -> bool: ...

    @property
    def is_lost(self) -> bool: ...

    def look(self) -> StopReason | None: ...

    def hurry(self) -> None: ...


class JobContext:
    """The job as its handler sees it. Every method may be called from any thread.

    No call fails because of what it is given to log or show: text is cut, numbers are clamped.
    Once the handler has returned, calls have no effect.
    """

    app: Flask
    """The application that this process built; its context is active."""
    job_id: int
    job_uuid: str
    job_type: str
    payload: Any
    """What `payload=` made of the mapping; without one the mapping itself, `{}` for none."""
    attempt: int
    """1 at first, one more after every requeue."""
    title: str | None
    owner: str | None
    reference: str | None
    fence: int
    """Grows with every claim of any job: put it into conditional writes of your own, and a
    process that was given up on cannot overwrite its successor's."""

    def __init__(
        self,
        app: Flask,
        claim: Claim,
        payload: Any,
        *,
        sink: Sink,
        holder: Holder,
        set_progress: Callable[[Progress], None],
        mask: Callable[[str], str],
        mask_value: Callable[[Any], Any],
        chunk_bytes: int,
        clock: Clock,
        owner: Owner,
        files: Files,
        sign: Callable[[], object] = lambda: None,
        redact_keys: Sequence[str] = DEFAULT_REDACT_KEYS,
    ) -> None:
        job = claim.owned.job
        self.app = app
        self.job_id, self.job_uuid, self.job_type = job.id, job.uuid, job.job_type
        self.payload = payload
        self.attempt, self.title = job.attempt, job.title
        self.owner, self.reference = job.owner, job.reference
        self.fence = claim.attempt_id
        self._base_url = claim.owned.base_url
        self._sink, self._holder, self._set_progress = sink, holder, set_progress
        self._mask, self._mask_value = mask, mask_value
        self._chunk_bytes, self._redact_keys = chunk_bytes, redact_keys
        self._clock, self._process, self._sign = clock, owner, sign
        self._files = files
        self._progress = Progress()
        self._step_label: str | None = None
        self._lock = allocate_lock()
        self._ended = False
        self.late_calls = 0
        """Calls that came after the end and had no effect."""

    # --- log ----------------------------------------------------------------------------------

    def debug(self, message: object, /, **context: Any) -> None:
        """Log a line of level debug."""
        self._say("debug", "", message, context)

    def info(self, message: object, /, **context: Any) -> None:
        """Log a line; `context` is kept beside it as JSON."""
        self._say("info", "", message, context)

    def warning(self, message: object, /, **context: Any) -> None:
        """Log a warning; the job's page counts them."""
        self._say("warning", "", message, context)

    def error(self, message: object, /, **context: Any) -> None:
        """Log an error; the job's page counts them, and the job goes on."""
        self._say("error", "", message, context)

    def stdout(self, text: object, /) -> None:
        """Log text as if it had been printed; the call makes one line, also with breaks in it."""
        self._say("info", "stdout", _without_last_break(text), {})

    def stderr(self, text: object, /) -> None:
        """Log text as if it had been printed to the error output."""
        self._say("info", "stderr", _without_last_break(text), {})

    def _say(self, level: str, stream: str, message: object, context: dict[str, Any]) -> None:
        if self._is_late():
            return
        at, step = self._clock.now(), self._sink.step_key
        text = clean_text(unify_newlines(self._mask(_as_text(message))))
        context_json = self._encoded(context) if context else None
        for piece in split_chunks(text, self._chunk_bytes):
            self._sink.record(NewLine(piece, level, stream, step, context_json, at))
            context_json = None

    def _encoded(self, context: dict[str, Any]) -> str | None:
        # Best effort: what cannot be written as JSON is written as its repr, and never raises.
        default = getattr(self.app.json, "default", None)
        for value in (context, {key: safe_repr(item, 500) for key, item in context.items()}):
            try:
                masked = self._mask_value(value)
                return encode_json(masked, max_bytes=CONTEXT_BYTES, max_depth=16, default=default)
            except Exception:  # noqa: BLE001, S112 - a `default` of the host's may raise anything
                continue
        return None

    # --- steps and progress -------------------------------------------------------------------

    def set_step(
        self,
        key: str,
        label: str | None = None,
        index: int | None = None,
        total: int | None = None,
    ) -> None:
        """Name what is done now: step `index` of `total`. Lines from here on belong to it."""
        if self._is_late() or not self._process.is_here():
            return
        step_key = self._short(key, STEP_KEY_CHARS) or None
        with self._lock:
            self._step_label = self._short(label, STEP_LABEL_CHARS) if label is not None else None
            self._publish(
                replace(
                    self._progress,
                    step_key=step_key,
                    step_label=self._step_label,
                    step_index=_clamped(index, _INT_MAX),
                    step_total=_clamped(total, _INT_MAX),
                )
            )
        self._sink.set_step(step_key)

    def progress(self, done: float, total: float | None = None, label: str | None = None) -> None:
        """Say how far the work is: `done` of `total`, counted in what `label` names.

        Cheap: only the newest is written, a few times a second. What is no number is ignored.
        """
        if self._is_late() or not self._process.is_here():
            return
        count, goal = _clamped(done, _BIGINT_MAX), _clamped(total, _BIGINT_MAX)
        if count is None:
            return
        goal = goal or None
        with self._lock:
            shown = self._progress.step_label
            if label is not None:
                # Hidden one by one: "Change the password" and "rows" are no secret together.
                named = self._short(label, STEP_LABEL_CHARS)
                parts = [part for part in (self._step_label, named) if part]
                shown = ": ".join(parts)[:STEP_LABEL_CHARS]
            done_now = min(count, goal) if goal is not None else count
            self._publish(replace(self._progress, done=done_now, total=goal, step_label=shown))

    def track(
        self, iterable: Iterable[T], label: str | None = None, total: int | None = None
    ) -> Iterator[T]:
        """Yield the items; keep progress, and raise `JobCancelled` once a stop was asked.

        `total` is the iterable's length where it has one.
        """
        goal = total
        if goal is None and isinstance(iterable, Sized):
            goal = len(iterable)
        self.progress(0, goal, label)
        for done, item in enumerate(iterable, 1):
            self.raise_if_cancelled()
            yield item
            self.progress(done, goal, label)

    def _short(self, text: object, limit: int) -> str:
        """A key or label as it is shown: one short line, which hides secrets as the log does."""
        start = self._mask(clean_text(_as_text(text)[: limit * 4]))
        return " ".join(start.split())[:limit]

    def _publish(self, progress: Progress) -> None:
        self._progress = progress
        self._sign()
        self._set_progress(progress)

    # --- whether to go on ---------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Say that the work goes on: a stall budget counts from here again.

        The lease is renewed by itself; this only shows a fresher time.
        """
        if not self._is_late() and self._process.is_here():
            self._sign()
            self._holder.hurry()

    def is_cancellation_requested(self) -> bool:
        """Whether the job should stop: cancelled, out of budget, shutting down, or taken away.

        Reads the database at most every 0.2 seconds.
        """
        if not self._process.is_here():
            return self._holder.asked is not None
        return self._holder.look() is not None or self._holder.is_lost

    def raise_if_cancelled(self) -> None:
        """Raise `JobCancelled` when the job should stop; let it pass out of the handler."""
        if self.is_cancellation_requested():
            raise JobCancelled("The job was asked to stop.")

    def check(self) -> None:
        """Raise `OwnershipLost` unless this process certainly still owns the job.

        Call it before an effect that must not happen twice.
        """
        if not self._holder.is_trusted:
            raise OwnershipLost(
                "The lease could not be renewed in time, or the job was given to another process."
            )

    def request_context(self) -> AbstractContextManager[RequestContext]:
        """A request context whose base URL is the one of the job's start: for `url_for` and
        templates."""
        return self.app.test_request_context(base_url=self._base_url)

    # --- files --------------------------------------------------------------------------------

    def file(self, name: str) -> Path:
        """Where the input is that was given as `files=` under this name: to read, not to change.

        Raises `FileNotFoundError` when there is none, or when it has been removed.
        """
        return self._files.path(name)

    def artifact(
        self, name: str, content_type: str | None = None, *, encoding: str | None = None
    ) -> AbstractContextManager[IO[Any]]:
        """A file to leave behind: write bytes to it, or, with `encoding`, text.

        It is published whole when the block ends, and not at all when the block raises. The same
        name again takes the place of what this attempt has published.
        """
        if self._is_late():
            raise JobCancelled("The job has ended: nothing is published for it any more.")
        return self._files.artifact(name, content_type, encoding)

    # --- programs -----------------------------------------------------------------------------

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
        """Run a program; its output becomes lines of the log, as its stdout and stderr.

        `argv` is a list, and no shell reads it. `on_line(stream, line)` is given each line as it
        was written, a progress bar at most once a second. `input` is its standard input, else
        there is none. `env` is its whole environment. When the job should stop, when `timeout`
        (seconds) is over or `on_line` raises, its process group is ended: TERM, 5 seconds, KILL.

        Raises `ProgramFailed` with the last lines when it cannot be started, is out of time, or,
        unless `check` is false, ends with another exit code than 0; `JobCancelled` when the job
        should stop.
        """
        if self._is_late():
            raise JobCancelled("The job has ended: no program is started for it any more.")
        self.raise_if_cancelled()
        command = Command(argv=argv, cwd=cwd, env=env, input=input, timeout=timeout)
        listener = Listener(
            sink=self._sink,
            clock=self._clock,
            chunk_bytes=self._chunk_bytes,
            redact_keys=self._redact_keys,
            is_stopping=self.is_cancellation_requested,
            on_line=on_line,
            sign=self._sign,
        )
        return run_program(command, listener, check=check)

    # --- the end ------------------------------------------------------------------------------

    def _end(self) -> None:
        self._ended = True

    def _is_late(self) -> bool:
        if self._ended:
            self.late_calls += 1
        return self._ended


def _as_text(message: object) -> str:
    try:
        return message if type(message) is str else str(message)
    except Exception:  # noqa: BLE001 - whatever its __str__ does, the job goes on
        return safe_repr(message)


def _without_last_break(text: object) -> str:
    return _as_text(text).removesuffix("\n").removesuffix("\r")


def _clamped(number: object, highest: int) -> int | None:
    if number is None:
        return None
    try:
        value = float(number) if not isinstance(number, int) else number  # type: ignore[arg-type]
        # NaN and the infinities end here.
        return max(0, min(int(value), highest))
    except (TypeError, ValueError, OverflowError):
        return None
