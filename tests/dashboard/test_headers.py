"""Headers of every answer, filled in only where the host said nothing."""

from __future__ import annotations

import pytest
from flask import Flask, Response

from flask_jobrunner.dashboard.headers import CONTENT_SECURITY_POLICY
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job

MISSING = "/01a22706-15d6-7a3d-b858-606442022120"


@pytest.mark.parametrize("path", ["/", MISSING, "/?status=nonsense", "/_list"])
def test_every_answer_carries_them(host: Host, path: str) -> None:
    headers = host.get(path).headers

    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


def test_refusals_carry_them_too(make_host: MakeHost) -> None:
    answer = make_host(authorize=None).get()

    assert answer.status_code == 403
    assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_policy_allows_nothing_inline() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY
    assert "frame-ancestors 'self'" in CONTENT_SECURITY_POLICY
    assert "base-uri 'none'" in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("path", ["/", "/{uuid}", "/{uuid}/log", "/{uuid}/cancel", MISSING])
def test_no_page_needs_anything_inline(host: Host, path: str) -> None:
    body = host.get(path.format(uuid=add_job(host.runtime, "running"))).text

    assert "<style" not in body
    assert " style=" not in body
    assert "<script>" not in body
    assert " on" not in {part[:3] for part in body.split("<") if " onclick" in part}
    assert "hx-on" not in body
    assert "javascript:" not in body


def test_what_the_host_says_wins(make_host: MakeHost) -> None:
    def host_policy(app: Flask) -> None:
        @app.after_request
        def add(response: Response) -> Response:
            response.headers["Content-Security-Policy"] = "default-src 'self'"
            return response

    assert make_host(before=host_policy).get().headers["Content-Security-Policy"] == (
        "default-src 'self'"
    )


def test_files_may_be_kept_because_their_address_changes_with_them(host: Host) -> None:
    page = host.get().text
    start = page.index("/jobs/static/frame.css?v=")
    address = page[start : page.index('"', start)]

    with host.client().get(address) as kept, host.client().get("/jobs/static/frame.css") as plain:
        assert kept.cache_control.max_age == 365 * 86400
        assert plain.cache_control.max_age is None
        assert kept.headers["X-Content-Type-Options"] == "nosniff"
