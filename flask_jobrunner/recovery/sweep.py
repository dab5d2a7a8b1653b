"""The sweeper: looks at every active row, so that nothing stays active for ever.

Safe twice at once and at any crash: every write names what it saw. `lost` alone takes patience:
one unchanged lease, watched on this process's monotonic clock for a lease and its margin.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flask_jobrunner.model.errors import JobRunnerError
from flask_jobrunner.model.records import OwnedJob
from flask_jobrunner.model.statuses import OWNED
from flask_jobrunner.protocol import identity
from flask_jobrunner.runtime import Runtime

from . import spool
from .settle import settle_report, settle_row, tell_finished
from .verdict import lost

log = logging.getLogger("flask_jobrunner")
PAGE = 200


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
        self._watched: dict[int, tuple[int | None, float]] = {}

    @property
    def patience(self) -> float:
        """Seconds for which a lease must stay unchanged."""
        return self._runtime.config.lease + self._runtime.config.margin

    @property
    def has_candidates(self) -> bool:
        """Whether the last pass saw a lease that could turn out to be lost."""
        return bool(self._watched)

    def sweep(self) -> SweepResult:
        """One pass over spooled reports and active rows."""
        result = SweepResult()
        self._spooled(result)
        still, after = set[int](), 0
        while page := self._runtime.listing.active_ids(after, PAGE):
            for job_id, uuid in page:
                self._one(job_id, uuid, result, still)
            after = page[-1][0]
        self._watched = {key: value for key, value in self._watched.items() if key in still}
        return result

    def _spooled(self, result: SweepResult) -> None:
        for path, report in spool.waiting(self._runtime):
            if settle_report(self._runtime, report):
                path.unlink(missing_ok=True)
                result.reports += 1

    def _one(self, job_id: int, uuid: str, result: SweepResult, still: set[int]) -> None:
        try:
            seen = settle_row(self._runtime, job_id)
            if seen is not None and seen.job.status in OWNED and self._unseen(seen):
                still.add(job_id)
                seen = self._watch(seen)
        except JobRunnerError:
            raise  # the database is away or locked: the whole pass has no ground to stand on
        except Exception:
            # One row that cannot be read must not hide those behind it.
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
        if before is None or before[0] != seen.lease_until:
            self._watched[seen.job.id] = (seen.lease_until, now)
            return seen
        if now - before[1] < self.patience:
            return seen
        if not self._runtime.endings.end_dead(seen, lost(seen, now - before[1])):
            return seen
        tell_finished(self._runtime, seen.job.uuid)
        return self._runtime.jobs.owned(seen.job.id) or seen


def sweep_once(runtime: Runtime, pause: Callable[[float], None] = time.sleep) -> SweepResult:
    """A whole sweep by itself: waits and looks again when a lease could be lost."""
    sweeper = Sweeper(runtime)
    result = sweeper.sweep()
    if sweeper.has_candidates:
        pause(sweeper.patience + 0.1)
        again = sweeper.sweep()
        result.moved.update(again.moved)
        result.reports += again.reports
    return result
