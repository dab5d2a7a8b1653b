"""What an owner writes while it has a job: claim, start marker, beat, stop reason.

Every write is fenced by worker token and attempt in its own WHERE; see `endings` for the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, insert, or_, select, update

from flask_jobrunner.model.records import (
    BeatAnswer,
    Claim,
    Fence,
    Identity,
    NewLine,
    OwnedJob,
    Progress,
)
from flask_jobrunner.model.statuses import STOP_REASONS, JobStatus, StopReason
from flask_jobrunner.protocol.envelope import Envelope, hash_credential
from flask_jobrunner.protocol.fault_points import fault_point

from .database import Database
from .fenced import FencedRows, progress_values
from .rows import add_event, add_lines, identity_values, line_counters, same, span


class OwnershipRepository(FencedRows):
    """`lease` is in seconds. A method that answers None or False was fenced: stop."""

    def __init__(self, database: Database, lease: float) -> None:
        super().__init__(database)
        self._lease = lease

    def claim(
        self, envelope: Envelope, *, worker: Identity, parent: Identity, token: str
    ) -> Claim | None:
        """queued → running for who holds the credential; None when it opens nothing (any more).

        Sent again with the same token it finds that it had won: the answer may have been lost.
        """
        jobs, database = self._database.tables.jobs, self._database
        deadline, spent = _claim_terms(jobs, envelope.claim_mode)

        def unit(connection: Connection) -> Claim | None:
            now = database.now()
            result = connection.execute(
                update(jobs)
                .where(
                    jobs.c.id == envelope.job_id,
                    jobs.c.status == str(JobStatus.QUEUED),
                    jobs.c.claim_mode == envelope.claim_mode,
                    jobs.c.worker_token_hash == hash_credential(envelope.credential),
                    jobs.c.attempt == envelope.attempt,
                    deadline > now,
                    same(jobs.c.revision, envelope.revision),
                )
                .values(
                    status=str(JobStatus.RUNNING),
                    worker_token=token,
                    worker_token_hash=None,
                    **spent,
                    started_at=now,
                    heartbeat_at=now,
                    lease_until=now + span(self._lease),
                    updated_at=now,
                    row_version=jobs.c.row_version + 1,
                    **identity_values(worker, "worker"),
                    **identity_values(parent, "parent"),
                )
            )
            if result.rowcount != 1:
                return self._find_claim(connection, envelope, token)
            won = self._claimed(connection, envelope, token)
            fault_point("claim.before")
            return won

        claim = database.run(unit)
        fault_point("claim.committed")
        return claim

    def _claimed(self, connection: Connection, envelope: Envelope, token: str) -> Claim:
        database = self._database
        owned = self._row(connection, envelope.job_id)
        result = connection.execute(
            insert(database.tables.attempts).values(
                job_id=envelope.job_id,
                attempt=envelope.attempt,
                mode=envelope.claim_mode,
                revision=envelope.revision,
                worker_token=token,
                claimed_at=owned.heartbeat,
                **identity_values(owned.worker, "worker"),
                **identity_values(owned.parent, "parent"),
            )
        )
        add_event(
            connection,
            database,
            job_id=envelope.job_id,
            action="claim",
            attempt=envelope.attempt,
            from_status=JobStatus.QUEUED,
            to_status=JobStatus.RUNNING,
        )
        key = result.inserted_primary_key
        return _claim_of(owned, envelope, token, int(key[0]) if key else 0)

    def _find_claim(self, connection: Connection, envelope: Envelope, token: str) -> Claim | None:
        attempts = self._database.tables.attempts
        found = connection.execute(
            select(attempts.c.id).where(
                attempts.c.job_id == envelope.job_id,
                attempts.c.attempt == envelope.attempt,
                attempts.c.worker_token == token,
            )
        ).scalar()
        if found is None:
            return None
        return _claim_of(self._row(connection, envelope.job_id), envelope, token, int(found))

    def mark_started(self, fence: Fence, run_budget: float | None) -> bool:
        """The start marker: from here on the handler may have had effects.

        It is set once; sent again by the same owner, it answers True and changes nothing.
        """
        jobs, attempts = self._database.tables.jobs, self._database.tables.attempts

        def unit(connection: Connection) -> bool:
            now = self._database.now()
            deadline = None if run_budget is None else now + span(run_budget)
            values = {"handler_started_at": now, "run_deadline": deadline}
            if not self._write(connection, fence, values, jobs.c.handler_started_at.is_(None)):
                marked = jobs.c.handler_started_at.is_not(None)
                return self._answer(connection, fence, marked) is not None
            connection.execute(
                update(attempts)
                .where(attempts.c.job_id == fence.job_id, attempts.c.attempt == fence.attempt)
                .values(handler_started_at=now)
            )
            fault_point("start.before")
            return True

        marked = self._database.run(unit)
        fault_point("start.committed")
        return marked

    def beat(
        self,
        fence: Fence,
        *,
        lines: Sequence[NewLine] = (),
        last_seq: int = 0,
        progress: Progress | None = None,
    ) -> BeatAnswer | None:
        """Renew the lease and, in the same transaction, add lines after `last_seq`.

        Sending the same lines after the same `last_seq` again never doubles them.
        """
        jobs = self._database.tables.jobs

        def unit(connection: Connection) -> BeatAnswer | None:
            now = self._database.now()
            values: dict[str, Any] = {
                "lease_until": now + span(self._lease),
                "heartbeat_at": now,
                **line_counters(jobs, lines),
                **progress_values(progress),
            }
            guard = [jobs.c.log_seq == last_seq] if lines else []
            if not self._write(connection, fence, values, *guard, version=False):
                written = [jobs.c.log_seq == last_seq + len(lines)]
                return self._answer(connection, fence, *written) if lines else None
            answer = self._answer(connection, fence)
            add_lines(
                connection,
                self._database,
                job_id=fence.job_id,
                attempt=fence.attempt,
                after_seq=last_seq,
                lines=lines,
            )
            fault_point("log.before" if lines else "renew.before")
            return answer

        told = self._database.run(unit)
        fault_point("log.committed" if lines else "renew.committed")
        return told

    def peek(self, fence: Fence) -> BeatAnswer | None:
        """Status and stop reason now, in one short read; None when fenced."""
        return self._database.read(lambda connection: self._answer(connection, fence))

    def set_stop_reason(self, fence: Fence, reason: StopReason) -> bool:
        """Raise the stop reason; False when it is already as high, or fenced."""
        jobs = self._database.tables.jobs
        lower = STOP_REASONS[: STOP_REASONS.index(reason)]

        guard = or_(jobs.c.stop_reason.is_(None), jobs.c.stop_reason.in_(lower))
        return self._tell(fence, {"stop_reason": reason}, guard, action="stop", reason=reason)

    def note(
        self, fence: Fence, action: str, reason: str | None, evidence: dict[str, Any] | None
    ) -> bool:
        """Append an event that moves nothing; False when fenced."""

        # The row's version moves all the same: pages that show it are drawn again.
        return self._tell(fence, {}, action=action, reason=reason, evidence=evidence)

    def _tell(
        self,
        fence: Fence,
        values: dict[str, Any],
        *guards: ColumnElement[bool],
        action: str,
        reason: str | None,
        evidence: dict[str, Any] | None = None,
    ) -> bool:
        """Write to the own row, with an event that moves nothing; False when fenced or guarded."""

        def unit(connection: Connection) -> bool:
            if not self._write(connection, fence, values, *guards):
                return False
            add_event(
                connection,
                self._database,
                job_id=fence.job_id,
                action=action,
                attempt=fence.attempt,
                reason=reason,
                evidence=evidence,
            )
            return True

        return self._database.run(unit)


def _claim_terms(jobs: Table, claim_mode: str) -> tuple[ColumnElement[Any], dict[str, None]]:
    """Until when a claim is good, and which columns are over with it.

    A pulled job that goes back to the queue keeps its queue deadline, so a claim leaves it alone.
    """
    if claim_mode == "trusted":
        return jobs.c.dispatch_until, {"dispatch_until": None}
    return jobs.c.claim_deadline, {"claim_deadline": None, "queue_deadline": None}


def _claim_of(owned: OwnedJob, envelope: Envelope, token: str, attempt_id: int) -> Claim:
    fence = Fence(job_id=envelope.job_id, attempt=envelope.attempt, token=token)
    return Claim(fence=fence, attempt_id=attempt_id, claimed_at=owned.heartbeat or 0, owned=owned)
