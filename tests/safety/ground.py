"""Hosts on any database, two people, and jobs with something to find in every column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import request

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines
from tests.dashboard.test_files import keep
from tests.dashboard.test_supervisors import add_supervisor, pulled
from tests.safety.routes import supervisor_of

MISSING = "01a22706-15d6-7a3d-b858-606442022120"


def two_people(host: Host) -> None:
    """Who asks says so in a header, and sees his own jobs alone."""
    host.jobs.scope(who)
    host.jobs.actor(who)


def who() -> str:
    """Whose request this is."""
    return request.headers.get("X-User", "nobody")


def settings(folder: Path, url: str) -> dict[str, Any]:
    """What a host is made with that has files, and a database of any kind."""
    return {
        "SQLALCHEMY_DATABASE_URI": url,
        "JOBRUNNER_FILES_DIR": str(folder / "files"),
        "JOBRUNNER_FORCE_STOP": True,
    }


def make_tables(host: Host) -> None:
    """The tables of a database that is new."""
    with host.app.app_context():
        host.db.create_all()


def belongings(host: Host, owner: str, word: str) -> dict[str, str]:
    """A job in every status that is `owner`'s, with `word` wherever there is text; by status."""
    supervisor = supervisor_of(owner)
    add_supervisor(host, supervisor)
    found = {}
    texts: dict[str, Any] = {
        "owner": owner,
        "actor": owner,
        "title": f"{word} title",
        "job_type": f"{word}.type",
        "reference": f"{word}:reference",
        "current_step_label": f"{word} step",
        "error_class": f"{word}Error",
        "error_message": f"{word} message",
        "payload": {word: word},
    }
    for status in ("running", "cancel_requested", "succeeded", "failed", "interrupted", "lost"):
        values = {"result": [word]} if status == "succeeded" else {}
        job = {**texts, "lock_key": f"{word}:{status}", **values}
        if status == "running":
            job |= {"claim_mode": "trusted", "dispatch_by": supervisor}
        uuid = found[status] = add_job(host.runtime, status, traceback=f"{word} trace", **job)
        add_lines(host.runtime, uuid, [f"{word} line", {"message": word, "level": "error"}])
        keep(host, uuid, "rows.csv", word.encode())
    found["queued"] = pulled(host, **texts)
    return found


def dump(host: Host) -> dict[str, list[Any]]:
    """Every row of every table."""
    database = host.runtime.database
    return {
        table.name: [tuple(row.values()) for row in database.rows(sa.select(table))]
        for table in database.tables.all()
    }


def without_clock(body: str) -> str:
    """A page's text without the times at which it was made."""
    return re.sub(r'<time.*?</time>|data-(jr-)?now="\d+"', "", body)
