"""Hosts with a Content Security Policy of their own, which stands, and asks for nonces."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response, g
from flask_talisman import Talisman
from playwright.sync_api import expect

from flask_jobrunner.dashboard.headers import CONTENT_SECURITY_POLICY
from tests.browser.conftest import Serve
from tests.dashboard.embedding import MISSING, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.helpers.browser import WatchedPage

PATIENT = 60_000
STRICT = {
    "default-src": "'none'",
    "script-src": "'strict-dynamic'",
    "style-src": [],
    "connect-src": "'self'",
    "img-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
}


def by_hand(app: Flask) -> None:
    """A nonce for each request, as many applications make theirs."""

    def nonce() -> str:
        if "nonce" not in g:
            g.nonce = secrets.token_urlsafe(16)
        return str(g.nonce)

    @app.after_request
    def policy(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'strict-dynamic' 'nonce-{nonce()}'; "
            f"style-src 'nonce-{nonce()}'; connect-src 'self'; img-src 'self'; "
            "form-action 'self'; base-uri 'none'"
        )
        return response

    app.jinja_env.globals["csp_nonce"] = nonce


def talisman(app: Flask) -> None:
    """Flask-Talisman, but for its redirect to HTTPS."""
    Talisman(
        app,
        force_https=False,
        content_security_policy=STRICT,
        content_security_policy_nonce_in=["script-src", "style-src"],
    )


HOSTS = [pytest.param(by_hand, id="by hand"), pytest.param(talisman, id="Flask-Talisman")]


def with_policy(policy: Callable[[Flask], None]) -> Callable[[Flask], None]:
    def before(app: Flask) -> None:
        policy(app)
        with_page()(app)
        app.add_url_rule("/favicon.ico", "icon", lambda: "")

    return before


def pages_of(host: Host) -> list[str]:
    """Addresses of whole pages."""
    uuid = add_job(host.runtime, "failed")
    ours = [
        "",
        "types",
        "types/reports.build",
        "supervisors",
        "prefs",
        "bulk/requeue?status=failed",
    ]
    ours += [uuid, f"{uuid}/log", f"{uuid}/requeue", MISSING, f"{uuid}/cancel"]
    return [f"/report/{uuid}", *(f"/jobs/{path}" for path in ours)]


@pytest.mark.parametrize("policy", HOSTS)
def test_the_hosts_policy_stands_and_all_we_load_carries_its_nonce(
    make_host: MakeHost, policy: Any
) -> None:
    host = make_host(before=with_policy(policy))

    for path in pages_of(host):
        answer = host.client().get(path)
        found = answer.headers.getlist("Content-Security-Policy")
        assert len(found) == 1, path
        nonce = re.findall(r"'nonce-([^']+)'", found[0])[0]
        tags = re.findall(r"<(?:script|link rel=\"stylesheet\")[^>]*>", answer.text)
        assert tags, path
        assert [tag for tag in tags if f'nonce="{nonce}"' not in tag] == [], path


def test_without_such_a_policy_nothing_has_a_nonce(make_host: MakeHost) -> None:
    host = make_host(before=with_page())

    for path in pages_of(host):
        answer = host.client().get(path)
        assert "nonce" not in answer.text
        if path.startswith("/jobs"):
            assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY


def test_a_nonce_is_escaped(make_host: MakeHost) -> None:
    def before(app: Flask) -> None:
        app.jinja_env.globals["csp_nonce"] = lambda: '"><script>alert(1)</script>'

    assert "<script>alert" not in make_host(before=before).get().text


def test_a_policy_that_a_host_sets_before_ours_stands(make_host: MakeHost) -> None:
    """Flask calls a blueprint's `after_request` first; a host may write earlier still."""

    def before(app: Flask) -> None:
        @app.before_request
        def no_frames() -> None:
            from flask import after_this_request

            @after_this_request
            def first(response: Response) -> Response:
                response.headers["Content-Security-Policy"] = "default-src 'self'"
                return response

    assert make_host(before=before).get().headers["Content-Security-Policy"] == "default-src 'self'"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("policy", HOSTS)
def test_pages_and_widgets_live_under_the_hosts_policy(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, policy: Any
) -> None:
    host = make_host(before=with_policy(policy), JOBRUNNER_POLL_MIN=1)
    host.jobs.actor(lambda: "anna")
    uuid = add_job(host.runtime, "running", title="Build report", owner="anna")
    served, page = serve(host.app), browser_page.page

    page.goto(f"{served.url}/jobs/")
    expect(page.locator("tbody tr")).to_contain_text("Running")
    change(host.runtime, uuid, progress_done=1, progress_total=4)
    expect(page.locator("tbody tr")).to_contain_text("25%", timeout=PATIENT)
    page.get_by_role("link", name="Build report").click()
    add_lines(host.runtime, uuid, ["line one"])
    expect(page.get_by_text("line one")).to_be_visible(timeout=PATIENT)
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.jr-panel')).borderRadius") != "0px"
    )

    page.goto(f"{served.url}/report/{uuid}")
    widget = page.locator("jr-live").first
    expect(widget).to_contain_text("line one")
    widget.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(widget).to_contain_text("Cancelling", timeout=PATIENT)
    end(host.runtime, uuid)
    expect(widget).to_contain_text("Succeeded", timeout=PATIENT)
    browser_page.assert_clean()
