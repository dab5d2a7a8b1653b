"""The sweeper: looks at every row that is owned or overdue, so that none stays active for ever.

Safe twice at once and at any crash: every write names what it saw. Two things take patience: to
call a job `lost`, and to end an owner that nobody else ended. Both want one unchanged lease,
watched on this process's monotonic clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import Fence, OwnedJob
from flask_jobrunner.model.statuses import OWNED
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.runtime import Runtime

from . import spool
from .restart import fail_stranded, restart_interrupted
from .settle import settle_report, settle_row, tell_finished
from .stop import end_owner, is_overdue, overdue_reason
from .verdict import lost

log = logging.getLogger("flask_jobrunner")
PAGE = 200
OVERDUE = 30.0
"""Seconds for which the lease of an owner that should have ended must stay unchanged until it is
ended: its own watchdog and its parent had all the time they take by then."""
_SLACK = 0.1


@dataclass(frozen=True)
class _Watch:
    """A lease that does not change. Times are this process's monotonic seconds."""

    lease: int | None
    since: float
    last: float
    needs: float
    """Seconds for which it must stay unchanged."""


@dataclass
class SweepResult:
    """What a sweep found and did: uuids by the status they were moved to."""

    looked_at: int = 0
    moved: dict[str, str] = field(default_factory=dict)
    reports: int = 0
    failed: list[str] = field(default_factory=list)


class Sweeper:
    """Keeps what it saw between passes: only a lease that it watched itself can be lost."""

    def __init__(self, runtime: Runtime, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._monotonic = monotonic
        self._watched: dict[int, _Watch] = {}

    @property
    def patience(self) -> float:
        """Seconds for which a lease must stay unchanged before its job is `lost`."""
        return self._runtime.config.lease + self._runtime.config.margin

    @property
    def has_candidates(self) -> bool:
        """Whether the last pass saw a lease that could turn out to be lost, or to be ended."""
        return bool(self._watched)

    @property
    def to_watch(self) -> float:
        """Seconds for which the leases that the last pass saw are to be watched at most."""
        return max((watch.needs for watch in self._watched.values()), default=0.0)

    def sweep(self) -> SweepResult:
        """One pass over spooled reports, owned rows and overdue ones.

        Raises `DatabaseAway`; nothing was watched then, since no owner could renew either.
        """
        try:
            return self._pass()
        except DatabaseAway:
            self._watched.clear()
            raise

    def _pass(self) -> SweepResult:
        result = SweepResult()
        self._spooled(result)
        still, after = set[int](), 0
        while page := self._runtime.listing.sweepable_ids(after, PAGE):
            for job_id, uuid in page:
                self._one(job_id, uuid, result, still)
                fault_point("sweep.after_n")
            after = page[-1][0]
        self._watched = {key: value for key, value in self._watched.items() if key in still}
        result.moved |= dict.fromkeys(fail_stranded(self._runtime), "failed")
        result.moved |= dict.fromkeys(restart_interrupted(self._runtime), "queued")
        return result

    def _spooled(self, result: SweepResult) -> None:
        for path, report in spool.waiting(self._runtime):
            try:
                recorded = settle_report(self._runtime, report)
            except DatabaseAway:
                raise
            except Exception:
                log.exception("The sweep could not record %s", path)
                continue
            if recorded:
                path.unlink(missing_ok=True)
                result.reports += 1

    def _one(self, job_id: int, uuid: str, result: SweepResult, still: set[int]) -> None:
        try:
            seen = settle_row(self._runtime, job_id)
            needs = None if seen is None else self._needs(seen)
            if seen is not None and needs is not None:
                still.add(job_id)
                if (unchanged := self._watch(seen, needs)) >= needs:
                    seen = self._give_up(seen, unchanged)
        except DatabaseAway:
            raise  # the whole pass has no ground to stand on
        except Exception:
            # One row that cannot be read, or that is locked, must not hide those behind it.
            log.exception("The sweep could not judge job %s", uuid)
            result.failed.append(uuid)
            return
        result.looked_at += 1
        if seen is not None and not seen.job.is_active:
            result.moved[uuid] = seen.job.status

    def _needs(self, seen: OwnedJob) -> float | None:
        """For how long this lease must stay unchanged until something follows; None: nothing."""
        expired = seen.lease_until is not None and seen.lease_until < seen.now
        if not expired or seen.job.status not in OWNED:
            return None
        if self._is_unseen(seen):
            return self.patience
        return max(self.patience, OVERDUE) if is_overdue(self._runtime, seen) else None

    def _is_unseen(self, seen: OwnedJob) -> bool:
        return identity.look(seen.worker, self._runtime.config.instance) == "unseen"

    def _watch(self, seen: OwnedJob, needs: float) -> float:
        """Seconds for which this sweeper has watched the lease unchanged."""
        now, before = self._monotonic(), self._watched.get(seen.job.id)
        # One look long ago and one now is not watching: all may have stood still in between.
        if before is None or before.lease != seen.lease_until or now - before.last > self.patience:
            before = _Watch(seen.lease_until, now, now, needs)
        self._watched[seen.job.id] = replace(before, last=now, needs=needs)
        return now - before.since

    def _give_up(self, seen: OwnedJob, unchanged: float) -> OwnedJob | None:
        """The row after an owner that is here was ended, or one that cannot be seen is lost."""
        if not self._is_unseen(seen):
            return self._end(seen)
        if not self._runtime.endings.end_dead(seen, lost(seen, unchanged)):
            return seen
        tell_finished(self._runtime, seen.job.uuid)
        return self._runtime.jobs.owned(seen.job.id) or seen

    def _end(self, seen: OwnedJob) -> OwnedJob | None:
        """End an overdue owner. That this is why is written first.

        Where that cannot be written, its owner could not write its end either, and may only wait
        to do so.
        """
        reason = overdue_reason(seen)
        if reason is not None:
            fence = Fence(
                job_id=seen.job.id, attempt=seen.job.attempt, token=seen.worker_token or ""
            )
            self._runtime.ownership.set_stop_reason(fence, reason)
        ended = end_owner(self._runtime, seen)
        return settle_row(self._runtime, seen.job.id) if ended else seen


def sweep_once(
    runtime: Runtime,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> SweepResult:
    """A whole sweep by itself: watches on while a lease could turn out to be lost, or its owner
    to be ended.
    """
    sweeper = Sweeper(runtime, monotonic)
    result = sweeper.sweep()
    give_up = monotonic() + sweeper.to_watch + _SLACK
    while sweeper.has_candidates and (left := give_up - monotonic()) > 0:
        pause(min(runtime.config.heartbeat, left))
        again = sweeper.sweep()
        result.moved.update(again.moved)
        result.reports += again.reports
    return result
