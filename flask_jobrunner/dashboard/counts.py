"""The list's counts, kept for a moment: many people look at the same ones."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from threading import Lock
from time import monotonic

from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.runtime import Runtime

SECONDS = 5.0
KEPT = 200
"""Views whose counts one process keeps."""
_EXTENSION = "jobrunner_counts"


@dataclass
class _Kept:
    """By view: until when they are good, and the counts. Requests share it."""

    by_view: OrderedDict[str, tuple[float, dict[str, int]]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)


def counts(runtime: Runtime, narrow: JobFilter, newest: int | None) -> dict[str, int]:
    """Jobs by status. `newest` is the id on top of the list: with a new job they are new."""
    kept, now = _kept(runtime), monotonic()
    # The bound moves with every job; what is left out by it are the oldest of many.
    view = repr((replace(narrow, status=None, above=0), newest))
    with kept.lock:
        until, found = kept.by_view.get(view, (0.0, {}))
    if now < until:
        return found
    found = runtime.listing.counts(narrow)
    with kept.lock:
        kept.by_view[view] = (now + SECONDS, found)
        kept.by_view.move_to_end(view)
        while len(kept.by_view) > KEPT:
            kept.by_view.popitem(last=False)
    return found


def forget(runtime: Runtime) -> None:
    """Something was done here: who did it must not be shown what was before."""
    kept = _kept(runtime)
    with kept.lock:
        kept.by_view.clear()


def _kept(runtime: Runtime) -> _Kept:
    kept: _Kept = runtime.app.extensions.setdefault(_EXTENSION, _Kept())
    return kept
