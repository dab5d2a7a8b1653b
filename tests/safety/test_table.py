"""What holds for every route there is: closed, asked for, with headers, and here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.safety.ground import MISSING, belongings
from tests.safety.routes import POLL, ROWS, WIDGET, calls, rules

FORGED = {
    "Host": "evil.example",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Prefix": "/evil",
    "X-Forwarded-For": "127.0.0.1",
    "Forwarded": "host=evil.example",
    "X-Original-URL": "/evil",
    "X-HTTP-Method-Override": "POST",
}


def test_every_route_has_a_row(host: Host) -> None:
    assert set(rules(host.app)) == set(ROWS)


def test_a_route_takes_no_method_that_nothing_here_tries(host: Host) -> None:
    methods = {method for rule in rules(host.app).values() for method in rule.methods or ()}

    assert methods == {"GET", "HEAD", "OPTIONS", "POST"}


@pytest.mark.parametrize("answer", [None, False])
def test_every_route_is_closed_to_who_may_nothing(
    make_host: MakeHost, tmp_path: Path, answer: Any
) -> None:
    closed = make_host(
        authorize=None if answer is None else lambda action, job: False,
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
    )
    uuid = belongings(closed, "anna", "annaword")["running"]

    for call in calls(closed, uuid, "GET", "HEAD", "POST"):
        reply = call.ask(closed)
        # The list of one's own jobs is there for everybody, and empty.
        if call.view == "mine" and answer is False:
            assert reply.status_code == 200
        else:
            assert reply.status_code in (403, 404), call
        assert "annaword" not in reply.text, call


@pytest.mark.parametrize("headers", [{}, POLL, WIDGET], ids=["page", "poll", "widget"])
def test_every_answer_is_for_this_browser_and_this_site_alone(
    host: Host, headers: dict[str, str]
) -> None:
    uuid = belongings(host, "anna", "anna")["running"]
    for name in (uuid, MISSING):
        for call in calls(host, name, "GET", "HEAD", "POST"):
            answer = call.ask(host, headers)
            policy = answer.headers["Content-Security-Policy"]

            assert answer.status_code < 500, call
            assert answer.headers["Cache-Control"] == "no-store", call
            assert answer.headers["X-Content-Type-Options"] == "nosniff", call
            assert answer.headers["Referrer-Policy"] == "same-origin", call
            assert "default-src 'none'" in policy, call
            # Shown in a frame by nobody else, or by nobody, or as a document without rights.
            assert re.search("frame-ancestors '(self|none)'|sandbox", policy), call
            assert "unsafe" not in policy, call
            assert "Access-Control-Allow-Origin" not in answer.headers, call
            where = answer.headers.get("Location", "/")
            assert re.match(r"/(?![/\\])", where), (call, where)


def test_a_forged_host_is_in_no_answer(host: Host) -> None:
    uuid = belongings(host, "anna", "anna")["running"]

    for call in calls(host, uuid, "GET", "POST"):
        for headers in ({}, {"HX-Request": "true"}):
            answer = call.ask(host, {**FORGED, **headers, "Sec-Fetch-Site": "same-origin"})
            assert answer.status_code < 500, call
            told = answer.text + str(answer.headers)
            assert "evil.example" not in told, call
            assert "/evil" not in told, call


def test_no_answer_is_a_table_that_a_spreadsheet_would_run(host: Host) -> None:
    uuid = belongings(host, "anna", "=cmd|' /C calc'!A0")["succeeded"]

    kinds = {
        call.ask(host).mimetype
        for call in calls(host, uuid, "GET", "POST")
        if call.view != "artifact"
    }

    assert kinds <= {
        "text/html",
        "text/plain",
        "application/json",
        "application/problem+json",
        "application/x-ndjson",
    }
