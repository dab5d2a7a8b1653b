"""Figures about how jobs of a type went: shares, percentiles, and what is usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from .statuses import JobStatus

WENT_WRONG = frozenset({JobStatus.FAILED, JobStatus.INTERRUPTED, JobStatus.LOST})
"""What counts as a failure. A job that was cancelled did what it was asked to."""
ENOUGH = 3
"""Runs from which on something is called usual."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job that has ended. Durations in seconds; None where it never came to that."""

    job_type: str
    status: str
    finished_at: datetime
    waited: float | None
    ran: float | None
    error_class: str | None
    error_reason_code: str | None

    @property
    def went_wrong(self) -> bool:
        """Whether it failed, was interrupted or is lost."""
        return self.status in WENT_WRONG


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Some runs, summed up. The medians and 95th percentiles are seconds."""

    runs: int
    wrong: int
    judged: int
    """Runs that were not cancelled: what the share of failures is a share of."""
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None

    @property
    def failure_rate(self) -> float | None:
        """The share of failures, from 0 to 1; None where there is nothing to judge."""
        return self.wrong / self.judged if self.judged else None


def figures(runs: Sequence[Run]) -> Figures:
    """Sum up runs. How long it took is told of those that ended by themselves."""
    waits = sorted(run.waited for run in runs if run.waited is not None)
    took = sorted(run.ran for run in runs if run.ran is not None and _by_itself(run))
    return Figures(
        runs=len(runs),
        wrong=sum(run.went_wrong for run in runs),
        judged=sum(run.status != JobStatus.CANCELLED for run in runs),
        wait_p50=percentile(waits, 0.5),
        wait_p95=percentile(waits, 0.95),
        run_p50=percentile(took, 0.5),
        run_p95=percentile(took, 0.95),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that this share of the values does not exceed; None of none."""
    if not ordered:
        return None
    place = -(-len(ordered) * share // 1)
    return ordered[max(0, int(place) - 1)]


def usual(runs: Iterable[Run]) -> float | None:
    """Seconds that half of these runs needed at most; None where there are too few."""
    took = sorted(run.ran for run in runs if run.ran is not None)
    return percentile(took, 0.5) if len(took) >= ENOUGH else None


def grouped_failures(runs: Iterable[Run]) -> list[tuple[str | None, str | None, int]]:
    """(error class, reason code, number) of what went wrong, the most frequent first."""
    counted = Counter((r.error_class, r.error_reason_code) for r in runs if r.went_wrong)
    return [(kind, code, number) for (kind, code), number in counted.most_common()]


def _by_itself(run: Run) -> bool:
    return run.status in (JobStatus.SUCCEEDED, JobStatus.FAILED)
