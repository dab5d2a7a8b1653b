"""One run of a handler: resolve, decode, start marker, call, outcome.

The same in a job's own process and inline; what surrounds it differs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask_jobrunner.handlers import Handler
from flask_jobrunner.model.errors import DatabaseAway, JobCancelled, LockBusy
from flask_jobrunner.model.records import Claim, NewLine, Outcome
from flask_jobrunner.protocol.encoding import clip_bytes, decode_strict
from flask_jobrunner.protocol.redact import mask_text, mask_value
from flask_jobrunner.runtime import Runtime

from . import outcome as outcomes
from .context import JobContext, Sink
from .job_files import JobFiles
from .lease import FINISH_FOR, Lease
from .logbook import Logbook
from .steady import Alarm, Clock, Owner

log = logging.getLogger("flask_jobrunner")
_PAUSE = 0.5


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run needs.

    `arm` is told run budget, cancel grace and stall budget at the start marker; `sign` is called
    for whatever shows that the handler goes on.
    """

    runtime: Runtime
    claim: Claim
    lease: Lease
    logbook: Logbook
    sink: Sink
    clock: Clock
    owner: Owner
    arm: Callable[[float | None, float | None, float | None], None]
    sign: Callable[[], object] = lambda: None

    @property
    def mask(self) -> Callable[[str], str]:
        """Hides secrets in text."""
        return partial(mask_text, keys=self.runtime.config.redact_keys)


def first_line(work_type: str, attempt: int, owner: Owner, host: str | None, at: int) -> NewLine:
    """The runner's own first line."""
    where = f" on {host}" if host else ""
    return NewLine(f"Started {work_type}, attempt {attempt}: process {owner.pid}{where}.", at=at)


def perform(work: Work) -> Outcome | None:
    """Run the handler; None when the job was taken away before it could start.

    The application's context is gone again when this returns. Log lines about the end have been
    given to the sink then.
    """
    outcome: Outcome | None = None
    try:
        with work.runtime.app.app_context():
            outcome = _inside_the_context(work)
    except BaseException as error:
        if outcome is None:
            raise
        # What the host does when its context ends changes nothing about what the handler did.
        text = outcomes.format_traceback(error, work.mask)
        _say(work, "warning", f"A teardown function of the application raised.\n{text}")
    return outcome


def _inside_the_context(work: Work) -> Outcome | None:
    try:
        handler = work.runtime.handlers.resolve(work.claim.owned.job.job_type)
    except BaseException as error:  # noqa: BLE001 - a module may do anything while it is imported
        return _told(work, error, outcomes.of_preparation(error, work.mask))
    try:
        payload = read_payload(handler, work.claim.owned.payload_json)
    except BaseException as error:  # noqa: BLE001 - so may a validator
        return _told(work, error, outcomes.of_payload(error, work.mask))
    if (asked := work.lease.asked) is not None:
        # Nothing has run: without an end of its own, a pulled job waits for the next supervisor.
        pulled = work.claim.owned.claim_mode == "trusted"
        return None if pulled and asked == "shutdown" else outcomes.of_stop(asked)
    context = _context(work, payload)
    return _call(work, handler, context) if _mark_started(work, handler) else None


def _call(work: Work, handler: Handler, context: JobContext) -> Outcome:
    config = work.runtime.config
    try:
        value = handler.call(context)
    except BaseException as error:  # noqa: BLE001 - everything that leaves a handler is an outcome
        leave_if_fork(work.owner, error)
        context._end()  # noqa: SLF001 - it was lent to the handler
        asked = work.lease.look() if isinstance(error, JobCancelled) else work.lease.asked
        return _told(work, error, outcomes.of_exception(error, asked, work.mask))
    leave_if_fork(work.owner, None)
    context._end()  # noqa: SLF001 - the same
    result = outcomes.of_result(
        work.runtime.app,
        value,
        max_bytes=config.result_max_bytes,
        max_depth=config.json_max_depth,
        mask=work.mask,
    )
    _warn_of_uncommitted(work)
    return _told(work, None, result)


def read_payload(handler: Handler, text: str | None) -> Any:
    """The payload as `ctx.payload` shall be; `payload=` runs again, on what was stored."""
    payload = {} if text is None else decode_strict(text)
    return payload if handler.payload is None else handler.payload(payload)


def _context(work: Work, payload: Any) -> JobContext:
    return JobContext(
        work.runtime.app,
        work.claim,
        payload,
        sink=work.sink,
        holder=work.lease,
        set_progress=work.logbook.set_progress,
        mask=work.mask,
        mask_value=partial(mask_value, keys=work.runtime.config.redact_keys),
        chunk_bytes=work.runtime.config.log_chunk_max_bytes,
        clock=work.clock,
        owner=work.owner,
        files=_files(work),
        sign=work.sign,
        redact_keys=work.runtime.config.redact_keys,
    )


def _files(work: Work) -> JobFiles:
    def said(text: str) -> None:
        work.sign()
        _say(work, "info", text)

    return JobFiles(
        work.runtime, work.claim, owner=work.owner, silence=work.lease.silence, said=said
    )


def _mark_started(work: Work, handler: Handler) -> bool:
    """The start marker: after it, an attempt without an end may have had effects."""
    budget = work.runtime.budget(handler, "run_budget")
    grace = work.runtime.budget(handler, "cancel_grace")
    give_up = work.clock.monotonic() + FINISH_FOR
    while True:
        try:
            with work.lease.silence():
                if not work.runtime.ownership.mark_started(work.claim.fence, budget):
                    return False
            break
        except (LockBusy, DatabaseAway):
            if work.clock.monotonic() >= give_up:
                raise
        Alarm().wait(_PAUSE)
    work.arm(budget, grace, work.runtime.budget(handler, "stall_budget"))
    work.lease.hurry()
    return True


def _told(work: Work, error: BaseException | None, outcome: Outcome) -> Outcome:
    """Put the error into the log as well, whole; the row keeps a capped copy."""
    if outcome.status == "failed":
        text = outcomes.full_message(error, outcome, work.mask)
        chunk = work.runtime.config.log_chunk_max_bytes
        for line in outcomes.error_lines(outcome, text, chunk, work.clock.now()):
            work.sink.record(line)
    return outcome


def _warn_of_uncommitted(work: Work) -> None:
    with suppress(Exception):  # the host's session is the host's: looking must not fail the job
        found = work.runtime.uncommitted()
        if found is not None:
            _say(
                work,
                "warning",
                f"The handler returned with uncommitted changes in db.session, which are lost: "
                f"{found.what}. Call db.session.commit() before it returns.",
            )


def _say(work: Work, level: str, text: str) -> None:
    clipped = clip_bytes(work.mask(text), work.runtime.config.log_chunk_max_bytes)
    work.sink.record(NewLine(clipped, level, "", work.sink.step_key, None, work.clock.now()))


def leave_if_fork(owner: Owner, error: BaseException | None) -> None:
    """A fork of the job's process that comes back from the handler ends here, unheard."""
    if owner.is_here():
        return
    with suppress(BaseException):
        if error is not None:
            sys.__excepthook__(type(error), error, error.__traceback__)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(1 if error is not None else 0)
