"""A job in the process that asks: claimed, run and ended here, with nobody who watches it.

Of the output it keeps context calls and this thread's logging; budgets are not enforced, because
nothing can end a handler inside its caller.
"""

from __future__ import annotations

import logging
import math
import sys
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial

from flask_jobrunner.child.claim import Taken, take
from flask_jobrunner.child.lease import Lease
from flask_jobrunner.child.logbook import BUFFER_BYTES, Logbook
from flask_jobrunner.child.logging_hook import level_of, text_of
from flask_jobrunner.child.run import Work, first_line, perform
from flask_jobrunner.child.steady import Alarm, Owner
from flask_jobrunner.model.errors import JobRunnerError, OwnershipLost
from flask_jobrunner.model.records import Job, NewLine, OwnedJob
from flask_jobrunner.model.statuses import ClaimMode
from flask_jobrunner.protocol.encoding import clean_text, clip_bytes
from flask_jobrunner.protocol.envelope import Envelope
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.repositories.host_session import own_scope
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.signals import job_finished, job_started, send


def run_here(
    runtime: Runtime, job: Job, credential: str, *, claim_mode: ClaimMode = "token"
) -> OwnedJob:
    """Claim the current attempt of `job`, run its handler, and return the row as it ended.

    Raises `Refused` where the credential does not open it any more, and `OwnershipLost` where
    somebody else ended it meanwhile.
    """
    with runtime.database.outside(), own_scope(runtime.db().session):
        taken = take(runtime, _envelope(runtime, job, credential, claim_mode), inline=True)
        send(job_started, runtime.app, job=taken.claim.owned.job)
        ended = _run(runtime, taken)
        send(job_finished, runtime.app, job=ended.job)
    return ended


def _run(runtime: Runtime, taken: Taken) -> OwnedJob:
    config, clock, ring, owner = runtime.config, taken.clock, Alarm(), Owner()
    # Without a thread that writes, lines wait for the end: JOBRUNNER_LOG_MAX_BYTES bounds them.
    room = sys.maxsize if runtime.is_tested else BUFFER_BYTES
    logbook = Logbook(limit=config.log_max_bytes, clock=clock, ring=ring, buffer_bytes=room)
    sink = DirectSink(logbook)
    records = RecordHandler(sink, runtime, taken)
    lease = Lease(
        runtime.ownership,
        runtime.endings,
        taken.claim,
        logbook,
        clock=clock,
        ring=ring,
        # The same: nobody renews it, and nobody else is there who could be given the job.
        lease=math.inf if runtime.is_tested else config.lease,
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
    if not runtime.is_tested:
        lease.start()
    try:
        with records.listening():
            # In a process of its own it would see no request, and no user who is logged in.
            outcome = Context().run(perform, work)
        ended = lease.finish(outcome) if outcome is not None else None
    finally:
        lease.close()
    if ended is None:
        raise _lost(runtime, job)
    return ended


def _lost(runtime: Runtime, job: Job) -> JobRunnerError:
    if runtime.jobs.get(job.id) is not None:
        return OwnershipLost(f"Job {job.uuid} was ended by somebody else while it ran inline.")
    return JobRunnerError(
        f"The row of job {job.uuid} was rolled back while it ran inline: its handler's session "
        "shares a transaction with the test. Give sessions a savepoint of their own, with "
        'SQLAlchemy(session_options={"join_transaction_mode": "create_savepoint"}).'
    )


def _envelope(runtime: Runtime, job: Job, credential: str, claim_mode: ClaimMode) -> Envelope:
    return Envelope(
        job_id=job.id,
        job_uuid=job.uuid,
        attempt=job.attempt,
        claim_mode=claim_mode,
        credential=credential,
        revision=runtime.config.revision,
        config_digest=runtime.config.digest,
        fingerprint=runtime.meta.ensure().fingerprint,
        claim_window=runtime.config.claim_window,
        lease=runtime.config.lease,
    )


def _no_budget(_run: float | None, _grace: float | None, _stall: float | None) -> None:
    """Nobody could enforce one."""


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
