"""Every route of the dashboard, in a table that a new one has to enter.

The attacks of this folder are generated over the URL map, with the parameters that stand here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flask import Flask
from werkzeug.routing import Rule

from tests.dashboard.hosts import Host

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
POLL = {**SAME_ORIGIN, "HX-Request": "true"}
WIDGET = {**SAME_ORIGIN, "X-Jobrunner-Widget": "1"}
SEARCH = ("q", "type", "owner", "reference", "lock", "error")
LIST = ("status", *SEARCH)
EVERYTHING = str(2**62)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is known of a route besides its rule and methods."""

    query: tuple[str, ...] = ()
    """The parameters that it reads."""
    form: dict[str, str] = field(default_factory=dict)
    """What a POST to it carries."""


ROWS = {
    "index": Row(query=("cursor", *LIST)),
    "list_live": Row(query=("n", "a", "v", *LIST)),
    "index_json": Row(query=("after", "limit", *LIST)),
    "supervisors": Row(query=("did",)),
    "supervisors_live": Row(query=("v",)),
    "supervisors_json": Row(),
    "types": Row(),
    "type": Row(),
    "types_json": Row(),
    "prefs": Row(query=("did",), form={"theme": "dark"}),
    "detail": Row(query=("line", "did")),
    "job_live": Row(query=("c", "v", "p", "i", "q", "e", "w")),
    "job_json": Row(query=("after_seq",)),
    "log": Row(
        query=("line", "before", "after", "q", "level", "stream", "attempt", "find", "from")
    ),
    "log_text": Row(),
    "log_ndjson": Row(query=("after_seq",)),
    "log_earlier": Row(query=("before",)),
    "artifact": Row(query=("kind", "attempt")),
    "embed": Row(query=("c", "v", "p", "i", "q", "log", "result", "files")),
    "mine": Row(query=("n", "v")),
    "cancel": Row(query=("next",)),
    "requeue": Row(query=("next",), form={"confirm_lost": "1"}),
    "force_stop": Row(query=("next",), form={"confirm_lost": "1"}),
    "again": Row(query=("next",)),
    "run_type": Row(),
    "drain": Row(query=("resume",)),
    "bulk_cancel": Row(query=("next", *LIST), form={"until": EVERYTHING}),
    "bulk_requeue": Row(query=("next", *LIST), form={"until": EVERYTHING}),
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request to one route."""

    view: str
    method: str
    path: str
    form: dict[str, str] | None = None

    def ask(self, host: Host, headers: dict[str, str] | None = None, query: Any = None) -> Any:
        """The answer to a visitor from another machine, read to its end."""
        answer = host.client().open(
            self.path,
            method=self.method,
            headers=POLL if headers is None else headers,
            data=self.form,
            query_string=query,
        )
        answer.get_data()
        # A file is let go of; what was read of it stays.
        answer.close()
        return answer


def supervisor_of(owner: str) -> str:
    """Whose jobs it runs is not in its name: the page of the supervisors tells that."""
    return f"supervisor-{sum(owner.encode())}"


def rules(app: Flask) -> dict[str, Rule]:
    """Every rule of the dashboard but that of its static files, by the name of its view."""
    return {
        rule.endpoint.removeprefix("jobrunner."): rule
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith("jobrunner.") and not rule.endpoint.endswith("static")
    }


def with_a_job(app: Flask) -> set[str]:
    """The views that are about one job."""
    return {view for view, rule in rules(app).items() if "uuid" in rule.arguments}


def calls(host: Host, uuid: str, *methods: str) -> Iterator[Call]:
    """A request to each route, by each of the methods that it takes."""
    for view, rule in sorted(rules(host.app).items()):
        for method in methods:
            if method in (rule.methods or ()):
                yield call(host.app, view, uuid, method)


def call(app: Flask, view: str, uuid: str, method: str = "GET", **values: str) -> Call:
    """A request to one route."""
    rule = rules(app)[view]
    given = {
        "uuid": uuid,
        "name": "rows.csv",
        "job_type": "reports.build",
        "supervisor": supervisor_of("anna"),
    } | values
    path = rule.rule.replace("<uuid:", "<")
    for name in rule.arguments:
        path = path.replace(f"<{name}>", given[name])
    assert "<" not in path, f"say in tests/safety/routes.py what {path} is asked with"
    form = ROWS[view].form if method == "POST" else None
    return Call(view=view, method=method, path=path, form=form)
