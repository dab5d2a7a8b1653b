"""How an attempt ends: by its owner, or by whoever proved the owner dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, exists, update

from flask_jobrunner.model.records import Fence, Job, NewLine, Outcome, OwnedJob, Progress, Verdict
from flask_jobrunner.model.statuses import TERMINAL, JobStatus, Reason, may_move
from flask_jobrunner.model.words import last_line
from flask_jobrunner.protocol.fault_points import fault_point

from .fenced import FencedRows, progress_values
from .rows import add_event, add_lines, clean_slate, ended, line_counters, select_jobs, to_owned

# The events say who ended an attempt: its owner, or somebody who proved the owner dead.
_FINISH, _END = "finish", "end"
_OWNERS_ENDS = TERMINAL - {JobStatus.LOST}
_VERDICTS = TERMINAL - {JobStatus.SUCCEEDED} | {JobStatus.QUEUED}


class EndingRepository(FencedRows):
    """The writes that end an attempt, each once."""

    def finish(
        self,
        fence: Fence,
        outcome: Outcome,
        *,
        lines: Sequence[NewLine] = (),
        last_seq: int = 0,
        progress: Progress | None = None,
    ) -> OwnedJob | None:
        """The owner's terminal write. A cancel that is already recorded wins over a result.

        None: the job is not this owner's (any more). Sent again it answers what it had written.
        """
        if outcome.status not in _OWNERS_ENDS:
            raise ValueError(f"no owner ends its job as {outcome.status}")
        jobs = self._database.tables.jobs

        def unit(connection: Connection) -> OwnedJob | None:
            for status in (JobStatus.RUNNING, JobStatus.CANCEL_REQUESTED):
                final = settled_outcome(status, outcome)
                closing = [*lines, last_line(final)]
                values = {
                    **self._end_values(final),
                    "heartbeat_at": self._database.now(),
                    **line_counters(jobs, closing),
                    **progress_values(progress),
                }
                guard = [jobs.c.status == str(status), jobs.c.log_seq == last_seq]
                if self._write(connection, fence, values, *guard):
                    self._close_attempt(connection, fence, final)
                    self._end_event(connection, fence, _FINISH, status, final.status, final.reason)
                    add_lines(
                        connection,
                        self._database,
                        job_id=fence.job_id,
                        attempt=fence.attempt,
                        after_seq=last_seq,
                        lines=closing,
                    )
                    fault_point("finish.before_commit")
                    return self._row(connection, fence.job_id)
            return self._finished(connection, fence)

        done = self._database.run(unit)
        fault_point("finish.committed")
        return done

    def end_dead(
        self,
        seen: OwnedJob,
        verdict: Verdict,
        *,
        lines: Sequence[NewLine] = (),
        report: Mapping[str, Any] | None = None,
        actor: str | None = None,
    ) -> bool:
        """Move a dead owner's job as the verdict says, if the row is still as it was seen.

        Any move, start marker or renewal since then saves the job: its owner may live after all.
        """
        jobs, job = self._database.tables.jobs, seen.job
        if verdict.status not in _VERDICTS or not may_move(job.status, verdict.status):
            return False
        fence = Fence(job_id=job.id, attempt=job.attempt, token=seen.worker_token or "")
        final = Outcome(
            status=verdict.status,
            reason=verdict.reason,
            error_message=verdict.message,
            result_json=seen.result_json,
        )
        closing = [*lines, last_line(final)]

        def unit(connection: Connection) -> bool:
            guard = [
                jobs.c.status == job.status,
                jobs.c.row_version == seen.row_version,
                jobs.c.lease_until == seen.lease_until,
            ]
            values = self._dead_values(final, seen, verdict) | line_counters(jobs, closing)
            if not self._write(connection, fence, values, *guard):
                return False
            after = self._row(connection, job.id).log_seq - len(closing)
            self._close_attempt(connection, fence, final, report)
            self._end_event(
                connection,
                fence,
                _END,
                job.status,
                verdict.status,
                verdict.reason,
                evidence=verdict.evidence,
                actor=actor,
            )
            add_lines(
                connection,
                self._database,
                job_id=job.id,
                attempt=job.attempt,
                after_seq=after,
                lines=closing,
            )
            fault_point("sweep.before_commit")
            return True

        done = self._database.run(unit)
        fault_point("sweep.committed")
        return done

    def explain(self, job: Job, verdict: Verdict) -> bool:
        """Say how its process ended where the row says that nobody saw it; the status stays."""
        jobs, attempts = self._database.tables.jobs, self._database.tables.attempts

        def unit(connection: Connection) -> bool:
            told = {"error_reason_code": verdict.reason, "error_message": verdict.message}
            done = connection.execute(
                update(jobs)
                .where(
                    jobs.c.id == job.id,
                    jobs.c.attempt == job.attempt,
                    jobs.c.status == str(verdict.status),
                    jobs.c.error_reason_code == str(Reason.OWNER_GONE),
                )
                .values(row_version=jobs.c.row_version + 1, **told)
            )
            if done.rowcount == 1:
                connection.execute(
                    update(attempts)
                    .where(attempts.c.job_id == job.id, attempts.c.attempt == job.attempt)
                    .values(end_reason=verdict.reason, error_message=verdict.message)
                )
            return done.rowcount == 1

        return self._database.run(unit)

    def _finished(self, connection: Connection, fence: Fence) -> OwnedJob | None:
        """The row if this very owner has already ended it: the commit that broke had happened."""
        jobs, events = self._database.tables.jobs, self._database.tables.events
        by_its_owner = exists().where(
            events.c.job_id == jobs.c.id,
            events.c.attempt == fence.attempt,
            events.c.action == _FINISH,
        )
        statement = select_jobs(self._database).where(
            jobs.c.id == fence.job_id,
            jobs.c.worker_token == fence.token,
            jobs.c.attempt == fence.attempt,
            by_its_owner,
        )
        row = connection.execute(statement).mappings().first()
        return None if row is None else to_owned(row)

    def _end_values(self, final: Outcome) -> dict[str, Any]:
        values = ended(self._database, final.status)
        told = final.status not in (JobStatus.SUCCEEDED, JobStatus.CANCELLED)
        return values | {
            "result_json": final.result_json,
            "error_reason_code": final.reason,
            "error_class": final.error_class,
            "error_message": final.error_message if told else None,
        }

    def _dead_values(self, final: Outcome, seen: OwnedJob, verdict: Verdict) -> dict[str, Any]:
        if final.status != "queued":
            return self._end_values(final)
        # Nothing has run: the job waits again, as its next attempt and with its lock.
        return clean_slate() | {
            "status": str(JobStatus.QUEUED),
            "attempt": seen.job.attempt + 1,
            "queued_at": self._database.now(),
            "unstarted_deaths": verdict.unstarted_deaths,
        }

    def _close_attempt(
        self,
        connection: Connection,
        fence: Fence,
        final: Outcome,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        attempts = self._database.tables.attempts
        connection.execute(
            update(attempts)
            .where(attempts.c.job_id == fence.job_id, attempts.c.attempt == fence.attempt)
            .values(
                ended_at=self._database.now(),
                end_status=str(final.status),
                end_reason=final.reason,
                error_class=final.error_class,
                error_message=final.error_message,
                traceback=final.traceback,
                result_json=final.result_json,
                **({} if report is None else {**report, "reported_at": self._database.now()}),
            )
        )

    def _end_event(
        self,
        connection: Connection,
        fence: Fence,
        action: str,
        from_status: str,
        to_status: str,
        reason: str | None,
        *,
        evidence: Mapping[str, Any] | None = None,
        actor: str | None = None,
    ) -> None:
        add_event(
            connection,
            self._database,
            job_id=fence.job_id,
            action=action,
            attempt=fence.attempt,
            from_status=from_status,
            to_status=to_status,
            reason=reason,
            evidence=evidence,
            actor=actor,
        )


def settled_outcome(status: str, outcome: Outcome) -> Outcome:
    """What an outcome comes to on a row of this status.

    Asked to cancel: whatever was returned is kept and the job is cancelled; another exception
    still fails it. Not asked: nobody may end it as cancelled.
    """
    asked = status == JobStatus.CANCEL_REQUESTED
    kept = {"result_json": outcome.result_json, "traceback": outcome.traceback}
    if asked and (outcome.status != "failed" or outcome.reason == "cancelled_unasked"):
        return Outcome(status="cancelled", **kept)
    if not asked and outcome.status == "cancelled":
        return Outcome(
            status="failed",
            reason="cancelled_unasked",
            error_message="The handler stopped as cancelled, but nobody had asked for it.",
            **kept,
        )
    return outcome
