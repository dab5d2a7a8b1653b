"""From the claim to the exit: what surrounds a run in a process of its own."""

from __future__ import annotations

import signal
import traceback
from functools import partial

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.model.records import NewLine, OwnedJob
from flask_jobrunner.model.statuses import ExitCode, exit_code_of
from flask_jobrunner.protocol.encoding import clean_text, split_chunks
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.protocol.output import unify_newlines
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.runtime import Runtime
from flask_jobrunner.signals import job_finished, job_started, send

from .capture import Capture, PipeSink
from .claim import Taken
from .clean import Standing
from .lease import SQLITE_PAUSE, Lease
from .leave import flush_output, last_word
from .logbook import Logbook
from .logging_hook import LoggingHook
from .parent import Parent
from .run import Work, first_line, perform
from .stacks import Stacks
from .stall import Stall, StallGuard
from .steady import Alarm, Owner
from .watchdog import Watchdog, heed_term


def run_claimed(
    runtime: Runtime,
    taken: Taken,
    standing: Standing,
    control_rest: bytes,
    parent: Parent,
    owner: Owner,
) -> int:
    """Run the job that this process has claimed; the exit code."""
    capture = Capture(
        standing,
        control_rest,
        chunk_bytes=runtime.config.log_chunk_max_bytes,
        redact_keys=runtime.config.redact_keys,
        clock=taken.clock,
    )
    fence, job = taken.claim.fence, taken.claim.owned.job
    parent.tell(
        "claimed", uuid=job.uuid, attempt=fence.attempt, token=fence.token, nonce=capture.nonce
    )
    fault_point("ack.written")
    work, watchdog = _surround(runtime, taken, standing, capture, parent, owner)
    with runtime.app.app_context():
        send(job_started, runtime.app, job=job)
    outcome = perform(work)
    watchdog.close()
    # The outcome is known: from here on only a second TERM or a KILL may keep it from the row.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if outcome is None:
        return ExitCode.REFUSED
    flush_output()
    capture.drain()
    try:
        ended = work.lease.finish(outcome)
    except (DatabaseAway, LockBusy):
        traceback.print_exc()
        return ExitCode.DATABASE
    return _told(runtime, ended)


def _surround(
    runtime: Runtime,
    taken: Taken,
    standing: Standing,
    capture: Capture,
    parent: Parent,
    owner: Owner,
) -> tuple[Work, Watchdog]:
    """Everything that goes on beside the handler, running."""
    config, clock, ring, claim = runtime.config, taken.clock, Alarm(), taken.claim
    logbook = Logbook(
        limit=config.log_max_bytes,
        clock=clock,
        ring=ring,
        hold=lambda seconds: parent.tell("holding", seconds=seconds),
    )
    sink = capture.sink(logbook)
    hook = LoggingHook(partial(_record, sink, capture, runtime, taken), capture.is_captured)
    lease = Lease(
        runtime.ownership,
        runtime.endings,
        claim,
        logbook,
        clock=clock,
        ring=ring,
        lease=config.lease,
        margin=config.margin,
        heartbeat=config.heartbeat,
        trusted_from=taken.sent_at,
        busy_pause=SQLITE_PAUSE if runtime.database.dialect == "sqlite" else 0.0,
        collect=capture.collect,
        silence=hook.silence,
    )
    stall = Stall(capture.volume)
    guard = StallGuard(
        stall, lease, stops=config.stall_action == "stop", clock=clock, add_line=logbook.add_own
    )
    stacks = Stacks(standing.stacks, clock=clock, keys=config.redact_keys, add_line=logbook.add_own)
    watchdog = Watchdog(
        lease, parent, clock=clock, workers=[lease, capture], stall=guard, stacks=stacks
    )
    job, host = claim.owned.job, claim.owned.worker.host
    hook.install()
    capture.start(logbook, lease.hurry)
    # Through the pipe like everything else: there it survives a handler that crashes at once.
    sink.record(first_line(job.job_type, job.attempt, owner, host, clock.now()))
    lease.start()
    watchdog.start()
    heed_term(watchdog)
    work = Work(
        runtime=runtime,
        claim=claim,
        lease=lease,
        logbook=logbook,
        sink=sink,
        clock=clock,
        owner=owner,
        arm=watchdog.arm,
        sign=stall.sign,
    )
    return work, watchdog


def _record(
    sink: PipeSink,
    capture: Capture,
    runtime: Runtime,
    taken: Taken,
    level: str,
    message: str,
    logger: str,
) -> None:
    """A logging record becomes lines, with the logger's name beside the first."""
    masked = mask_text(unify_newlines(message), runtime.config.redact_keys)
    context: str | None = capture.logger_context(logger)
    at = taken.clock.now()
    for piece in split_chunks(clean_text(masked), runtime.config.log_chunk_max_bytes):
        sink.record(NewLine(piece, level, "", sink.step_key, context, at))
        context = None


def _told(runtime: Runtime, ended: OwnedJob | None) -> int:
    if ended is None:
        last_word("The job was given to another process; nothing was written.")
        return ExitCode.REFUSED
    with runtime.app.app_context():
        send(job_finished, runtime.app, job=ended.job)
    fault_point("finish.before_exit")
    return exit_code_of(ended.job.status)
