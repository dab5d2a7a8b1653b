"""Hosts whose databases hold everything that a page can show: what the catalogue's pictures are of.

A world is one host with the uuids of its jobs by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flask import Flask, Response, render_template_string

from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.protocol import identity
from flask_jobrunner.recovery.old_files import expire, expired
from tests.browser import catalogue_words as words
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import SECOND, add_event, add_job, add_lines, change
from tests.dashboard.test_files import keep
from tests.dashboard.test_supervisors import PULLED, add_supervisor, set_supervisor

AFTERWARDS = 3600
"""Seconds for which what is alive in a world stays so: pictures take their time."""
HISTORY = 120


@dataclass(frozen=True)
class World:
    """A host and what is in it."""

    host: Host
    names: dict[str, str] = field(default_factory=dict)
    forwarded: bool = False
    """Whether its visitors come through a proxy, so from another machine."""


def make_worlds(make: MakeHost, folder: Path) -> dict[str, World]:
    """All of them, by name."""
    shop = make(
        before=pages_of_the_shop, JOBRUNNER_FILES_DIR=str(folder), JOBRUNNER_FORCE_STOP=True
    )
    return {
        "shop": World(shop, _fill(shop)),
        "empty": World(make()),
        "crowd": _crowd(make()),
        "bulk": _crowd(make()),
        "reader": _reader(make(authorize=lambda action, _: action in ("view_list", "view_job"))),
        "stranger": _reader(make(authorize=lambda action, _: False)),
        "closed": _debug(make(authorize=None), forwarded=True),
        "developer": _debug(make(authorize=None), forwarded=False),
        "away": _away(make()),
    }


def _fill(host: Host) -> dict[str, str]:
    """A shop's day: history first, so that the list begins with what happens now."""
    host.jobs.actor(lambda: "anna")
    host.jobs.handler("orders.import", manual=True)(print)
    host.jobs.handler("cache.warm")(print)
    host.jobs.handler("stock.count")(print)
    _history(host)
    names = _ended(host) | _active(host)
    _supervisors(host, names["running"])
    return names


def _history(host: Host) -> None:
    """What the types' figures are made of."""
    ends = ["succeeded"] * 11 + ["failed", "succeeded", "cancelled"]
    for number in range(HISTORY):
        status = ends[number % len(ends)]
        failed = status == "failed"
        kind = "orders.import" if number % 3 else "reports.monthly"
        add_job(
            host.runtime,
            status,
            job_type=kind,
            title="Orders of the day" if number % 3 else None,
            actor="nightly",
            age=(HISTORY - number) * 5400.0 + 90_000,
            waited=0.3 + number % 7 / 4,
            ran=210 + (number * 37) % 90 + (400 if number % 17 == 0 else 0),
            error_class="ConnectionError" if failed else None,
            error_reason_code="handler_raised" if failed else None,
            error_message="No route to the warehouse" if failed else None,
        )


def _ended(host: Host) -> dict[str, str]:
    run, names = host.runtime, dict[str, str]()
    names["lost"] = add_job(
        run, "lost", age=8000, ran=1900, job_type="stock.sync", title="Sync stock with Borås",
        actor="ben", error_message="Nothing of it was heard for 31 min.", lock_key="stock:boras",
        progress_done=3100, progress_total=9000, report={"exit_code": None},
    )  # fmt: skip
    names["interrupted"] = add_job(
        run, "interrupted", age=6400, ran=91, job_type="thumbnails.make", attempt=2,
        title="Thumbnails of the autumn catalogue", actor="carla", error_reason_code="process_died",
        error_message="signal 9 (SIGKILL)", step_index=2, step_total=5,
        current_step_label="Scaling", report={"exit_code": None, "signal": 9},
    )  # fmt: skip
    names["cancelled"] = add_job(
        run, "cancelled", age=5200, ran=48, job_type="mail.campaign", title="November newsletter",
        actor="ben", owner="anna", progress_done=4200, progress_total=18_000,
    )  # fmt: skip
    names["failed"] = add_job(
        run, "failed", age=3900, ran=2.4, job_type="prices.update", title="Prices of Nordbok",
        owner="anna", reference="supplier:112", error_class="MissingColumn", error_count=1,
        error_reason_code="handler_raised", error_message=words.MESSAGE, payload=words.PAYLOAD,
        traceback=words.TRACEBACK, step_index=2, step_total=3, current_step_label="Reading",
    )  # fmt: skip
    names["bare"] = add_job(run, "succeeded", age=3500, ran=0.04, job_type="cache.warm", actor=None)
    names["old"] = add_job(
        run, "succeeded", age=3400, ran=61, job_type="search.reindex", actor=None
    )
    names["coloured"] = add_job(
        run, "succeeded", age=3000, ran=31, job_type="checks.run", title="Checks before the release"
    )
    names["succeeded"] = add_job(
        run, "succeeded", age=1900, ran=254, job_type="orders.import", owner="anna", error_count=0,
        title="Orders of 30 November", reference="shop:17", payload=words.PAYLOAD,
        result=words.RESULT, step_index=4, step_total=4, current_step_label="Writing",
        progress_done=12_480, progress_total=12_480, lock_key="orders:17",
    )  # fmt: skip
    add_lines(run, names["lost"], ["Asking Borås for 9,000 articles", "3,100 of them are here"])
    add_lines(run, names["interrupted"], ["Scaling 840 pictures"])
    add_lines(run, names["cancelled"], ["4,200 letters sent", "Stopping, as was asked"])
    add_lines(run, names["failed"], words.failing_lines())
    add_lines(run, names["succeeded"], words.import_lines(62))
    add_lines(run, names["coloured"], words.coloured_lines())
    change(run, names["old"], log_seq=48_210)
    for name in ("lost", "interrupted", "cancelled", "failed", "succeeded", "coloured"):
        change(run, names[name], log_bytes=48_112)
    _files(host, names["succeeded"])
    return names


def _files(host: Host, uuid: str) -> None:
    keep(host, uuid, "preview.png", b"x" * 900, content_type="image/png")
    for old in expired(host.runtime, -AFTERWARDS):
        expire(host.runtime, old)
    keep(host, uuid, "orders-2026-11-30.csv", b"x" * 1_912_000, kind="input")
    keep(host, uuid, "skipped-rows.csv", b"x" * 2140)


def _active(host: Host) -> dict[str, str]:
    run, names = host.runtime, dict[str, str]()
    now = run.database.clock()
    alive: dict[str, Any] = {"heartbeat_at": now + AFTERWARDS * SECOND}
    names["late"] = add_job(
        run, "running", age=640, job_type="search.reindex", title="Search index", actor="nightly",
        heartbeat_at=now - 95 * SECOND, lease_until=now - 60 * SECOND,
    )  # fmt: skip
    names["silent"] = add_job(
        run, "running", age=1500, job_type="backup.copy", title="Backup of the pictures",
        actor="nightly", **alive,
    )  # fmt: skip
    add_event(run, names["silent"], "stall", evidence={"silent": 600.0})
    names["cancelling"] = add_job(
        run, "cancel_requested", age=400, job_type="mail.campaign", title="December newsletter",
        actor="ben", cancel_requested_at=now - 90 * SECOND, progress_done=310,
        progress_total=18_000, **alive,
    )  # fmt: skip
    names["running"] = add_job(
        run, "running", age=130, job_type="orders.import", title="Orders of shop 17", owner="anna",
        reference="shop:17", lock_key="orders:17", payload=words.PAYLOAD, dispatch_by="s1",
        claim_mode="trusted", step_index=3, step_total=4, current_step_label="Checking rows",
        progress_done=7400, progress_total=12_480, **alive,
    )  # fmt: skip
    names["counting"] = add_job(
        run, "running", age=44, job_type="reports.monthly", progress_done=18_204, **alive
    )
    names["quiet"] = add_job(run, "running", age=7, job_type="cache.warm", actor="nightly", **alive)
    names["waiting"] = add_job(run, "queued", age=25, job_type="reports.monthly", title="November")
    names["untaken"] = add_job(
        run, "queued", age=300, job_type="mail.campaign", title="Advent newsletter", priority=5,
        **PULLED,
    )  # fmt: skip
    names["later"] = add_job(
        run, "queued", age=12, job_type="orders.import", title="Orders of tonight", actor="nightly",
        not_before=now + 6 * AFTERWARDS * SECOND, **PULLED,
    )  # fmt: skip
    add_lines(run, names["running"], words.import_lines(38))
    add_lines(run, names["silent"], ["Copying 41,200 files"])
    add_lines(run, names["cancelling"], ["310 letters sent"])
    return names


def _supervisors(host: Host, running: str) -> None:
    now = host.runtime.database.clock()
    types, me = ("orders.*", "reports.*"), identity.this_process()
    places = [replace(me, host=f"jobs-{number}", pid=400 + number) for number in (1, 2, 3)]
    alive: dict[str, Any] = {"types": types, "silent": -AFTERWARDS}
    add_supervisor(host, "s1", process=places[0], slots=4, revision="9f2c1ab", **alive)
    add_supervisor(host, "s2", process=places[1], **alive)
    set_supervisor(host, "s2", drain_requested_at=now)
    add_supervisor(host, "s3", process=places[2], types=("stock.*",), silent=30.0 * AFTERWARDS)


def _crowd(host: Host) -> World:
    for number in range(130):
        status = "queued" if number % 3 else "failed"
        add_job(host.runtime, status, age=3000 - 20 * number, title=f"Letter {number + 1} of 130")
    return World(host)


def _reader(host: Host) -> World:
    uuid = add_job(host.runtime, "running", title="Salaries", payload=words.PAYLOAD, actor="ben")
    add_lines(host.runtime, uuid, ["not for everybody"])
    return World(host, {"running": uuid})


def _debug(host: Host, *, forwarded: bool) -> World:
    host.app.debug = True
    add_job(host.runtime, "running", title="Orders of shop 17")
    return World(host, forwarded=forwarded)


def _away(host: Host) -> World:
    def fail() -> str:
        raise DatabaseAway("no answer")

    host.jobs.scope(fail)
    return World(host)


SITE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; frame-ancestors 'self'; form-action 'self'"
)
SITE_CSS = """\
body { margin: 0; background: Canvas; color: CanvasText; font: 16px/1.5 system-ui, sans-serif;
  color-scheme: light dark; }
main { max-width: 720px; padding: 24px 16px; margin: 0 auto; }
"""
PAGE = """\
{% from "flask_jobrunner/embed.html" import jobs_head, job_widget, my_jobs %}
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Orders</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/site.css">{{ jobs_head() }}</head>
<body><main><h1>{{ heading }}</h1>
{% if uuid %}{{ job_widget(uuid) }}{% else %}{{ my_jobs() }}{% endif %}
</main></body></html>"""


def pages_of_the_shop(app: Flask) -> None:
    """Pages of the application's own, under a policy as strict as ours."""

    def shown(heading: str, uuid: str = "") -> Response:
        answer = Response(render_template_string(PAGE, heading=heading, uuid=uuid))
        answer.headers["Content-Security-Policy"] = SITE_POLICY
        return answer

    views: dict[str, Callable[..., Any]] = {
        "/favicon.ico": lambda: Response(status=204),
        "/site.css": lambda: Response(SITE_CSS, mimetype="text/css"),
        "/orders/<uuid>": lambda uuid: shown("Your import", uuid),
        "/account": lambda: shown("What runs for you"),
    }
    for rule, view in views.items():
        app.add_url_rule(rule, endpoint=rule, view_func=view)
