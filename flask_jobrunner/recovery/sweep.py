"""The sweeper: looks at every row that is owned or overdue, so that none stays active for ever.

Safe twice at once and at any crash: every write names what it saw. `lost` alone takes patience:
one unchanged lease, watched on this process's monotonic clock for a lease and its margin.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.statuses import OWNED
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.fault_points import fault_point
from flask_jobrunner.runtime import Runtime

from . import spool
from .restart import fail_stranded, restart_interrupted
from .settle import settle_report, settle_row, tell_finished
from .stop import end_owner, is_overdue
from .verdict import lost

log = logging.getLogger("flask_jobrunner")
PAGE = 200
_SLACK = 0.1


@dataclass(frozen=True)
class _Watch:
    """A lease that does not change. Times are this process's monotonic seconds."""

    lease: int | None
    since: float
    last: float


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
        """Seconds for which a lease must stay unchanged."""
        return self._runtime.config.lease + self._runtime.config.margin

    @property
    def has_candidates(self) -> bool:
        """Whether the last pass saw a lease that could turn out to be lost."""
        return bool(self._watched)

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
            if (
                seen is not None
                and is_overdue(self._runtime, seen)
                and end_owner(self._runtime, seen)
            ):
                seen = settle_row(self._runtime, job_id)
            if seen is not None and seen.job.status in OWNED and self._unseen(seen):
                still.add(job_id)
                seen = self._watch(seen)
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

    def _unseen(self, seen: OwnedJob) -> bool:
        expired = seen.lease_until is not None and seen.lease_until < seen.now
        return expired and identity.look(seen.worker, self._runtime.config.instance) == "unseen"

    def _watch(self, seen: OwnedJob) -> OwnedJob:
        now, before = self._monotonic(), self._watched.get(seen.job.id)
        # One look long ago and one now is not watching: all may have stood still in between.
        if before is None or before.lease != seen.lease_until or now - before.last > self.patience:
            before = _Watch(seen.lease_until, now, now)
        self._watched[seen.job.id] = replace(before, last=now)
        if now - before.since < self.patience:
            return seen
        if not self._runtime.endings.end_dead(seen, lost(seen, now - before.since)):
            return seen
        tell_finished(self._runtime, seen.job.uuid)
        return self._runtime.jobs.owned(seen.job.id) or seen


def sweep_once(
    runtime: Runtime,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> SweepResult:
    """A whole sweep by itself: watches on while a lease could turn out to be lost."""
    sweeper = Sweeper(runtime, monotonic)
    result = sweeper.sweep()
    give_up = monotonic() + sweeper.patience + _SLACK
    while sweeper.has_candidates and (left := give_up - monotonic()) > 0:
        pause(min(runtime.config.heartbeat, left))
        again = sweeper.sweep()
        result.moved.update(again.moved)
        result.reports += again.reports
    return result
