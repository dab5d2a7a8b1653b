"""What the list is narrowed to: read from the address, and written back into every address.

So a view can be kept, sent to somebody, and opened without a script.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flask import url_for

from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.repositories.listing import JobFilter
from flask_jobrunner.runtime import Runtime

from . import query

LOOKED_AT = 100_000
"""Jobs, the newest ones, among which several filters at once are looked for."""
READ = 20_000
"""The same for a text: each of them is read, and no index helps."""


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """The filters of one view, as people gave them. Empty ones narrow nothing."""

    status: list[str] = field(default_factory=list)
    q: str = ""
    type: str = ""
    owner: str = ""
    reference: str = ""
    lock: str = ""
    error: str = ""

    def __bool__(self) -> bool:
        return bool(self.status) or self.is_searched

    @property
    def is_searched(self) -> bool:
        """Whether anything besides the state narrows the list."""
        return bool(self.q or self.exact)

    @property
    def exact(self) -> dict[str, str]:
        """What has to be equal, name by name."""
        names = ("type", "owner", "reference", "lock", "error")
        return {name: value for name in names if (value := getattr(self, name))}

    def parameters(self) -> dict[str, Any]:
        """The query string."""
        told: dict[str, Any] = {"status": self.status, "q": self.q, **self.exact}
        return {name: value for name, value in told.items() if value}

    def url(self, **more: Any) -> str:
        """The list, narrowed in this way."""
        return url_for(".index", **self.parameters(), **more)

    def within(self, status: JobStatus | None) -> Narrowed:
        """The same with another state, or all of them."""
        return replace(self, status=[] if status is None else [str(status)])

    def newest_only(self, scope: str | None) -> int | None:
        """How many jobs are looked at; None where an index leads to exactly what is asked for."""
        if self.q:
            return READ
        asked = len(self.exact) + (scope is not None)
        return LOOKED_AT if asked > 1 or self.error else None

    def job_filter(self, scope: str | None, above: int = 0) -> JobFilter:
        """What to ask the database for; `scope` always counts."""
        return JobFilter(
            status=self.status or None,
            text=self.q or None,
            job_type=self.type or None,
            owner=self.owner or None,
            reference=self.reference or None,
            had_lock=self.lock or None,
            error_class=self.error or None,
            scope=scope,
            above=above,
        )


def read() -> Narrowed:
    """The filters in this request's address; a 400 for what is none."""
    exact = {name: query.text(name) for name in ("type", "owner", "reference", "lock", "error")}
    return Narrowed(status=[str(s) for s in query.statuses()], q=query.text("q"), **exact)


def bound(runtime: Runtime, shown: Narrowed, scope: str | None) -> tuple[int, int]:
    """(id above which is looked, how many jobs that are); zeros where nothing is left out."""
    newest = shown.newest_only(scope)
    above = 0 if newest is None else runtime.listing.floor(newest)
    return above, (newest or 0) if above else 0
