"""Progress and steps as figures, a bar and segments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from flask_jobrunner.model import words
from flask_jobrunner.model.records import Job

from .format import thousands, whole_duration

SEGMENTS_MAX = 40
"""More steps than this are told in figures alone."""
PACE_AFTER = 10.0
"""Seconds of work from which on a rate says something."""
_TONES = {"succeeded": "succeeded", "failed": "failed", "running": "running", "queued": "running"}


@dataclass(frozen=True, kw_only=True)
class ProgressView:
    """What is shown of a job's progress."""

    tone: str
    label: str
    line: str
    """One line for a table."""
    bar: bool
    counted: bool
    done: int = 0
    total: int = 0
    percent: str = ""
    figure: str = ""
    amount: str = ""
    pace: str = ""
    step: str = ""
    step_label: str = ""
    segments: list[str] = field(default_factory=list)


def progress_view(job: Job, now: datetime) -> ProgressView | None:
    """The progress of a job; None when it has told of none."""
    step, label = _step(job), job.current_step_label or job.current_step_key or ""
    counted = job.progress_done is not None
    if not (counted or step or label):
        return None
    done, total = _counts(job)
    percent = f"{done * 100 // total}%" if total else ""
    amount = thousands(done) + (f" of {thousands(total)}" if total else " done")
    told = [percent or (amount if counted else ""), ": ".join(t for t in (step, label) if t)]
    return ProgressView(
        tone=_TONES.get(job.status, "running" if job.is_active else "other"),
        label="Progress" if job.current_step_label is None else job.current_step_label,
        line=" · ".join(text for text in told if text),
        bar=bool(total) and job.is_active,
        counted=counted,
        done=done,
        total=total,
        percent=percent,
        figure=percent or thousands(done),
        amount=amount if percent else "done",
        pace=_pace(job, done, total, now),
        step=step or label,
        step_label=label if step else "",
        segments=_segments(job),
    )


def progress_values(job: Job) -> tuple[Any, ...]:
    """What a job's progress is made of."""
    return (
        job.current_step_key,
        job.current_step_label,
        job.step_index,
        job.step_total,
        job.progress_done,
        job.progress_total,
    )


def progress_tag(job: Job, untaken: str = "") -> str:
    """A digest of what changes on a job's page while nothing but progress moves."""
    told = (*progress_values(job), job.is_stale, untaken)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def _counts(job: Job) -> tuple[int, int]:
    """(done, total), made to fit each other: a handler may count past its own total."""
    total = max(0, job.progress_total or 0)
    done = max(0, job.progress_done or 0)
    return (min(done, total) if total else done), total


def _step(job: Job) -> str:
    if job.step_index is None:
        return ""
    return f"Step {job.step_index}" + (f" of {job.step_total}" if job.step_total else "")


def _segments(job: Job) -> list[str]:
    index, total = job.step_index, job.step_total
    if index is None or not total or not 1 < total <= SEGMENTS_MAX:
        return []
    # The step that a job succeeded in is over as well.
    done = index if job.status == "succeeded" else index - 1
    return ["done" if n <= done else "now" if n == index else "" for n in range(1, total + 1)]


def _pace(job: Job, done: int, total: int, now: datetime) -> str:
    """Rate and time left, once there is enough to tell from."""
    worked = words.between(job.handler_started_at, now)
    # A handler with steps counts anew in each, and nobody knows when this one began.
    later_step = (job.step_index or 1) > 1
    if job.status != "running" or not total or not done or later_step:
        return ""
    if worked is None or worked < PACE_AFTER:
        return ""
    rate = done / worked
    left = whole_duration((total - done) / rate)
    per = f"{rate:,.0f} a second" if rate >= 2 else f"{rate * 60:,.0f} a minute"
    return f"{per}, about {left} left"
