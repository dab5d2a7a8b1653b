"""`jobs.run_inline`: the same row and handler, in the process that asks.

For tests and short local work. It blocks; of the output it keeps context calls and this thread's
logging; budgets are not enforced, because nothing can end a handler inside its caller.
"""

from __future__ import annotations

import logging
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from flask_jobrunner.child.claim import Taken, take
from flask_jobrunner.child.lease import Lease
from flask_jobrunner.child.logbook import Logbook
from flask_jobrunner.child.logging_hook import level_of, text_of
from flask_jobrunner.child.run import Work, first_line, perform
from flask_jobrunner.child.steady import Alarm, Owner
from flask_jobrunner.model.errors import OwnershipLost
from flask_jobrunner.model.records import Job, NewLine, OwnedJob
from flask_jobrunner.model.results import InlineResult
from flask_jobrunner.protocol.encoding import clean_text, clip_bytes, decode_json
from flask_jobrunner.protocol.envelope import Envelope, hash_credential, new_credential
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.signals import job_created, job_finished, job_started, send

from .add import add_or_holder, held_by, refuse_uncommitted
from .prepare import prepare


def run_inline(
    runtime: Runtime,
    job_type: str,
    payload: dict[str, Any] | None = None,
    *,
    lock_key: str | None = None,
    title: str | None = None,
    owner: str | None = None,
    reference: str | None = None,
    actor: str | None = None,
) -> InlineResult:
    """See `JobRunner.run_inline`.

    Where another job holds the lock key, `.job` and `.status` are that job's, which is active,
    and `.reason_code` is `already_active`.
    """
    credential = new_credential()
    new = prepare(
        runtime,
        runtime.handlers.find(job_type),
        payload,
        credential_hash=hash_credential(credential),
        claim_window=runtime.config.claim_window,
        lock_key=lock_key,
        title=title,
        owner=owner,
        reference=reference,
        actor=actor,
    )
    refuse_uncommitted(runtime)
    fingerprint = runtime.meta.ensure().fingerprint
    job = add_or_holder(runtime, new)
    if job.uuid != new.uuid:
        return InlineResult(
            status=job.status, job=job, reason_code="already_active", message=held_by(job)
        )
    send(job_created, runtime.app, job=job)
    taken = take(runtime, _envelope(runtime, job, credential, fingerprint))
    send(job_started, runtime.app, job=taken.claim.owned.job)
    ended = _run(runtime, taken)
    send(job_finished, runtime.app, job=ended.job)
    return _result(ended)


def _envelope(runtime: Runtime, job: Job, credential: str, fingerprint: str) -> Envelope:
    return Envelope(
        job_id=job.id,
        job_uuid=job.uuid,
        attempt=job.attempt,
        claim_mode="token",
        credential=credential,
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        fingerprint=fingerprint,
        claim_window=runtime.config.claim_window,
        lease=runtime.config.lease,
    )


def _run(runtime: Runtime, taken: Taken) -> OwnedJob:
    config, clock, ring, owner = runtime.config, taken.clock, Alarm(), Owner()
    logbook = Logbook(limit=config.log_max_bytes, clock=clock, ring=ring)
    sink = DirectSink(logbook)
    records = RecordHandler(sink, runtime, taken)
    lease = Lease(
        runtime.ownership,
        runtime.endings,
        taken.claim,
        logbook,
        clock=clock,
        ring=ring,
        lease=config.lease,
        margin=config.margin,
        heartbeat=config.heartbeat,
        trusted_from=taken.sent_at,
        silence=records.silence,
    )
    job, host = taken.claim.owned.job, taken.claim.owned.worker.host
    logbook.add_own(first_line(job.job_type, job.attempt, owner, host, clock.now()))
    work = Work(
        runtime=runtime,
        claim=taken.claim,
        lease=lease,
        logbook=logbook,
        sink=sink,
        clock=clock,
        owner=owner,
        arm=_no_budget,
    )
    lease.start()
    try:
        with records.listening():
            outcome = perform(work)
        ended = lease.finish(outcome) if outcome is not None else None
    finally:
        lease.close()
    if ended is None:
        raise OwnershipLost(f"Job {job.uuid} was ended by somebody else while it ran inline.")
    return ended


def _no_budget(_budget: float | None, _grace: float | None) -> None:
    """Nobody could enforce one."""


def _result(ended: OwnedJob) -> InlineResult:
    job = ended.job
    error = None
    if job.error_reason_code is not None:
        error = {
            "class": job.error_class,
            "reason_code": job.error_reason_code,
            "message": job.error_message,
        }
    return InlineResult(
        status=job.status,
        job=job,
        reason_code=job.error_reason_code,
        message=job.error_message,
        result=decode_json(ended.result_json),
        error=error,
    )


class DirectSink:
    """Records straight into the logbook: there is no pipe in this process."""

    def __init__(self, logbook: Logbook) -> None:
        self._logbook = logbook
        self.step_key: str | None = None

    def record(self, line: NewLine) -> None:
        """Take one line."""
        self._logbook.add([line])

    def set_step(self, step_key: str | None) -> None:
        """From here on, output belongs to this step."""
        self.step_key = step_key


class RecordHandler(logging.Handler):
    """This thread's logging records, beside whatever the application does with them."""

    def __init__(self, sink: DirectSink, runtime: Runtime, taken: Taken) -> None:
        super().__init__()
        self._sink = sink
        self._clock = taken.clock
        self._mask = partial(mask_text, keys=runtime.config.redact_keys)
        self._chunk = runtime.config.log_chunk_max_bytes
        self._ident = get_ident()
        self._quiet = False

    def emit(self, record: logging.LogRecord) -> None:
        """Store one record of the thread that runs the job."""
        if self._quiet or record.thread != self._ident:
            return
        text = clip_bytes(clean_text(self._mask(text_of(record))), self._chunk)
        level, step = level_of(record.levelno), self._sink.step_key
        self._sink.record(NewLine(text, level, "", step, None, self._clock.now()))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the root logger."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """No records of our own writing, if it is this thread that writes."""
        here = get_ident() == self._ident
        self._quiet = self._quiet or here
        try:
            yield
        finally:
            if here:
                self._quiet = False
