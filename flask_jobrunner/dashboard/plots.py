"""Bars drawn on the server, as figures in an SVG that no style has to be written into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from flask_jobrunner.model.runs import Figures, Run, figures
from flask_jobrunner.model.words import duration

from .format import short_time

NONE = "\N{EN DASH}"
WIDTH, HEIGHT, GAP = 600, 120, 3
FEWEST = 12
GROUPS = 24
"""Bars in a plot, at most. Each stands for as many runs as every other."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One rectangle. `css` says what it means."""

    x: str
    y: str
    width: str
    height: str
    css: str
    told: str


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot and what is said around it, also to those who do not see it."""

    key: str
    title: str
    told: str
    top: str
    first: str
    last: str
    bars: list[Bar] = field(default_factory=list)


def plots(runs: Sequence[Run], zone: tzinfo, now: datetime) -> list[Plot]:
    """Run time, waiting time and failures, the oldest on the left. `runs` are newest first."""
    groups = [(figures(group), group) for group in _groups(list(reversed(runs)))]
    if not groups:
        return []
    first = short_time(groups[0][1][0].finished_at, zone, now)
    last = short_time(groups[-1][1][-1].finished_at, zone, now)
    whole = figures(runs)
    told = [(f, f"{short_time(g[0].finished_at, zone, now)}, {len(g)} runs") for f, g in groups]
    runtime = [(f.run_p50, f.run_p95, when) for f, when in told]
    waiting = [(f.wait_p50, f.wait_p95, when) for f, when in told]
    return [
        _durations("run", "Run", whole.run_p50, whole.run_p95, runtime, first, last),
        _durations("wait", "Wait", whole.wait_p50, whole.wait_p95, waiting, first, last),
        _failures(whole, told, first, last),
    ]


def percent(share: float | None) -> str:
    """0.034 as `3.4 %`."""
    if share is None:
        return NONE
    shown = share * 100
    return f"{shown:.1f} %" if 0 < shown < 10 else f"{shown:.0f} %"


def span(seconds: float | None) -> str:
    """A duration, or a dash where there is none."""
    return NONE if seconds is None else duration(seconds)


def _groups(runs: list[Run]) -> list[list[Run]]:
    size = max(1, -(-len(runs) // GROUPS))
    return [runs[place : place + size] for place in range(0, len(runs), size)]


def _durations(
    key: str,
    title: str,
    half: float | None,
    most: float | None,
    values: Sequence[tuple[float | None, float | None, str]],
    first: str,
    last: str,
) -> Plot:
    highest = max((p95 or 0 for _, p95, _ in values), default=0) or 1
    bars = []
    for place, (p50, p95, when) in enumerate(values):
        if p50 is None or p95 is None:
            continue
        told = f"{when}: half within {duration(p50)}, 95 % within {duration(p95)}"
        bars.append(_bar(place, len(values), p95 / highest, "jr-p95", told))
        bars.append(_bar(place, len(values), p50 / highest, "jr-p50", told))
    text = f"{title}: half within {span(half)}, 95 % within {span(most)}"
    top = duration(highest) if bars else ""
    return Plot(key=key, title=title, told=text, top=top, first=first, last=last, bars=bars)


def _failures(whole: Figures, groups: Sequence[tuple[Figures, str]], first: str, last: str) -> Plot:
    bars = []
    for place, (one, when) in enumerate(groups):
        if one.failure_rate:
            told = f"{when}: {percent(one.failure_rate)} failed"
            bars.append(_bar(place, len(groups), one.failure_rate, "jr-wrong", told))
    text = f"Failures: {percent(whole.failure_rate)}"
    return Plot(
        key="wrong", title="Failures", told=text, top="100 %", first=first, last=last, bars=bars
    )


def _bar(place: int, places: int, share: float, css: str, told: str) -> Bar:
    # A few runs are a few narrow bars, not one wall.
    step = WIDTH / max(places, FEWEST)
    # What is there at all is seen.
    height = max(1.5, min(1.0, share) * HEIGHT)
    return Bar(
        x=f"{place * step:.1f}",
        y=f"{HEIGHT - height:.1f}",
        width=f"{max(1.0, step - GAP):.1f}",
        height=f"{height:.1f}",
        css=css,
        told=told,
    )
