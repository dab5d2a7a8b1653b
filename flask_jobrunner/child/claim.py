"""Taking the job: the right database, the right revision, then one UPDATE that decides."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from flask_jobrunner.model.errors import (
    ConfigError,
    DatabaseAway,
    JobRunnerError,
    LockBusy,
    SchemaError,
)
from flask_jobrunner.model.records import Claim
from flask_jobrunner.model.statuses import ExitCode, Reason
from flask_jobrunner.protocol.envelope import Envelope, hash_credential
from flask_jobrunner.protocol.identity import parent_process, this_process
from flask_jobrunner.runtime import Runtime

from .steady import Alarm, Clock

T = TypeVar("T")
_PAUSE = 0.25


class Refused(JobRunnerError):
    """This process will not run the job. `code` is what the parent is told; None: nothing."""

    def __init__(self, message: str, code: str | None, exit_code: int) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A claim, and from when on its lease may be trusted."""

    claim: Claim
    clock: Clock
    """Runs with the database's clock."""
    sent_at: float
    """On the monotonic clock, before the claim was sent."""


def take(runtime: Runtime, envelope: Envelope, *, inline: bool = False) -> Taken:
    """Claim the job of the envelope. Raises `Refused` with the reason.

    `inline` says that this process is not the job's own: see `OwnedJob.is_inline`.
    """
    _compare_databases(runtime, envelope)
    _compare_revisions(runtime, envelope)
    started = Clock()
    instance = runtime.config.instance
    token = secrets.token_hex(32)
    worker = this_process(instance)
    parent = worker if inline else parent_process(instance)
    sent = [0.0]

    def claim() -> Claim | None:
        sent[0] = started.monotonic()
        return runtime.ownership.claim(envelope, worker=worker, parent=parent, token=token)

    won = _patiently(claim, envelope.claim_window, started)
    if won is None:
        raise Refused(
            "The credential does not open this job (any more).", "bad_credential", ExitCode.REFUSED
        )
    return Taken(claim=won, clock=Clock(won.claimed_at), sent_at=sent[0])


def _compare_databases(runtime: Runtime, envelope: Envelope) -> None:
    try:
        meta = _patiently(runtime.meta.ensure, envelope.claim_window, Clock())
    except SchemaError as error:
        raise Refused(str(error), "schema_mismatch", ExitCode.CONFIGURATION) from error
    except ConfigError as error:
        raise Refused(str(error), "app_not_built", ExitCode.CONFIGURATION) from error
    if meta.fingerprint != envelope.fingerprint:
        raise Refused(
            "This process is connected to another database than the one the job was started in. "
            "A relative SQLite path, or another environment, is the usual reason.",
            "fingerprint_mismatch",
            ExitCode.CONFIGURATION,
        )


def _compare_revisions(runtime: Runtime, envelope: Envelope) -> None:
    """A pinned job never runs under another revision; a pushed one's row says which was there."""
    mine = runtime.config.revision
    if envelope.revision is None or envelope.revision == mine:
        return
    message = f"The job was made for revision {envelope.revision}; this process runs {mine}."
    if envelope.claim_mode == "trusted":
        # It waits for a supervisor of its revision; the one that started this process is too old.
        raise Refused(message, Reason.REVISION_MISMATCH, ExitCode.REFUSED)
    failed = _patiently(
        lambda: runtime.jobs.fail_queued(
            envelope.job_id,
            envelope.attempt,
            Reason.REVISION_MISMATCH,
            message=message,
            evidence={"wanted": envelope.revision, "found": mine},
            credential_hash=hash_credential(envelope.credential),
        ),
        envelope.claim_window,
        Clock(),
    )
    if failed:
        from flask_jobrunner.recovery.settle import tell_finished

        with runtime.app.app_context():
            tell_finished(runtime, envelope.job_uuid)
    raise Refused(message, None, ExitCode.REFUSED)


def _patiently(ask: Callable[[], T], seconds: float, clock: Clock) -> T:
    """Ask again while the database is away or busy, for as long as a claim could still be won."""
    give_up = clock.monotonic() + seconds
    while True:
        try:
            return ask()
        except (DatabaseAway, LockBusy) as error:
            if clock.monotonic() >= give_up:
                raise Refused(str(error), None, ExitCode.DATABASE) from error
        Alarm().wait(_PAUSE)
