"""What the pages of the job types show: how often they run, fail, wait, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from flask import url_for

from flask_jobrunner.model.runs import WENT_WRONG, Figures, Run, figures, grouped_failures
from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.model.words import REASON_WORDS
from flask_jobrunner.repositories.listing import JobFilter

from . import job_list
from .access import Viewer
from .format import ago, thousands, visible
from .job_list import FilterLink
from .narrowed import LOOKED_AT, Narrowed
from .plots import NONE, Plot, percent, plots, span
from .run_now import is_startable

NEWEST = 2000
"""Jobs that have ended, of all types together, from which the overview is made."""
NEWEST_OF_TYPE = 1000
STRIP = 30
"""Ends in a row that an overview draws."""
WRONG = [str(status) for status in JobStatus if status in WENT_WRONG]


@dataclass(frozen=True, kw_only=True)
class TypeRow:
    """One type in the overview."""

    name: str
    url: str
    runs: str
    wrong: str
    wrong_url: str
    run: str
    wait: str
    last: str
    ends: list[str] = field(default_factory=list)
    """How the newest ones ended, the oldest of them first: a class for each."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Jobs that failed in the same way."""

    name: str
    text: str
    number: str
    url: str


@dataclass(frozen=True, kw_only=True)
class TypePage:
    """One type."""

    name: str
    list_url: str
    states: list[FilterLink]
    looked_at: int
    facts: list[tuple[str, str]]
    plots: list[Plot]
    failures: list[Failure]
    wrong_url: str
    run_url: str
    """Empty where the viewer may not start one."""


def type_rows(who: Viewer, now: datetime) -> list[TypeRow]:
    """All types that ran lately, and those that are registered."""
    return [_row(name, runs, now) for name, runs in sorted(runs_of_types(who).items())]


def runs_of_types(who: Viewer) -> dict[str, list[Run]]:
    """The newest runs by type, newest first, of the jobs that this viewer is shown."""
    of_type: dict[str, list[Run]] = {}
    if who.scope is None:
        of_type = {name: [] for name in who.runtime.handlers}
    for run in who.runtime.history.newest(JobFilter(scope=who.scope), NEWEST):
        of_type.setdefault(run.job_type, []).append(run)
    return of_type


def type_page(who: Viewer, name: str, now: datetime, zone: tzinfo) -> TypePage | None:
    """One type; None where the viewer has no job of it and may not know whether it is there."""
    above = who.runtime.listing.floor(LOOKED_AT) if who.scope is not None else 0
    narrow = JobFilter(job_type=name, scope=who.scope, above=above)
    counts = who.runtime.listing.counts(narrow)
    if not any(counts.values()) and (who.scope is not None or name not in who.runtime.handlers):
        return None
    runs = who.runtime.history.newest(narrow, NEWEST_OF_TYPE)
    shown = Narrowed(type=name)
    links = job_list.filter_links(counts, shown)
    return TypePage(
        name=visible(name),
        list_url=shown.url(),
        states=[link for link in links[1:] if link.count],
        looked_at=len(runs),
        facts=_facts(figures(runs)),
        plots=plots(runs, zone, now),
        failures=[_failure(name, *group) for group in grouped_failures(runs)],
        wrong_url=Narrowed(type=name, status=WRONG).url(),
        run_url=_run_url(who, name),
    )


def _run_url(who: Viewer, name: str) -> str:
    offered = is_startable(who.runtime, name) and who.may("start")
    return url_for(".run_type", job_type=name) if offered else ""


def _row(name: str, runs: Sequence[Run], now: datetime) -> TypeRow:
    summed = figures(runs)
    return TypeRow(
        name=visible(name),
        url=url_for(".type", job_type=name),
        runs=thousands(summed.runs),
        wrong=percent(summed.failure_rate),
        wrong_url=Narrowed(type=name, status=WRONG).url() if summed.wrong else "",
        run=_pair(summed.run_p50, summed.run_p95),
        wait=_pair(summed.wait_p50, summed.wait_p95),
        last=ago(runs[0].finished_at, now) if runs else NONE,
        ends=[_css(run) for run in reversed(runs[:STRIP])],
    )


def _css(run: Run) -> str:
    if run.went_wrong:
        return "jr-wrong"
    return "jr-p50" if run.status == JobStatus.SUCCEEDED else "jr-p95"


def _pair(half: float | None, most: float | None) -> str:
    return NONE if half is None else f"{span(half)} / {span(most)}"


def _facts(summed: Figures) -> list[tuple[str, str]]:
    return [
        ("Runs", thousands(summed.runs)),
        ("Failed", f"{thousands(summed.wrong)} ({percent(summed.failure_rate)})"),
        ("Run, half within", span(summed.run_p50)),
        ("Run, 95 % within", span(summed.run_p95)),
        ("Wait, half within", span(summed.wait_p50)),
        ("Wait, 95 % within", span(summed.wait_p95)),
    ]


def _failure(name: str, kind: str | None, code: str | None, number: int) -> Failure:
    return Failure(
        name=visible(kind or code or "unknown"),
        text=REASON_WORDS.get(code or "", ""),
        number=thousands(number),
        url=Narrowed(type=name, error=kind or "", status=WRONG).url(),
    )
