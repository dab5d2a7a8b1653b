"""Widgets in a browser, beside the application's own htmx of three versions, and without."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, redirect, render_template_string, request, send_file
from playwright.sync_api import Page, expect

import flask_jobrunner
from flask_jobrunner.dashboard.headers import CONTENT_SECURITY_POLICY
from tests.browser.conftest import Serve, Served
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.helpers.browser import Pages, WatchedPage
from tests.helpers.waiting import eventually, stays

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HERE = Path(__file__).parent / "htmx"
VERSIONS = {
    "1.9": HERE / "htmx-1.9.12.min.js",
    "2": Path(flask_jobrunner.__file__).parent / "static" / "htmx.min.js",
    "4": HERE / "htmx-4.0.1.min.js",
}
PATIENT = 60_000
PAGE = """\
{% from "flask_jobrunner/embed.html" import jobs_head, job_widget, my_jobs %}
<!doctype html><html lang="en"><head><title>Report</title>
<meta name="viewport" content="width=device-width">{{ jobs_head() }}
{% if htmx %}<meta name="htmx-config" content='{"includeIndicatorStyles": false}'>
<script src="/htmx.js"></script>{% endif %}</head>
<body hx-boost="true"><h1>Report</h1>
<p id="ticks" hx-get="/tick" hx-trigger="every 1s" hx-swap="beforeend">ticks</p>
{% call job_widget(uuid) %}<a href="/own">The report</a>{% endcall %}{{ my_jobs() }}
</body></html>"""


def pages_of_the_host(htmx: Path | None = None, gone: list[str] | None = None) -> Any:
    """A strict page with widgets, and what its own htmx asks for."""

    def add(app: Flask) -> None:
        @app.get("/report/<uuid>")
        def report(uuid: str) -> Response:
            page = Response(render_template_string(PAGE, uuid=uuid, htmx=htmx))
            page.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
            return page

        app.add_url_rule("/tick", "tick", lambda: "<i>tick</i>")
        app.add_url_rule("/favicon.ico", "icon", lambda: "")
        app.add_url_rule("/login", "login", lambda: "<form id=foreign></form>")
        if htmx is not None:
            app.add_url_rule("/htmx.js", "htmx", lambda: send_file(htmx))

        @app.before_request
        def turn_away() -> Any:
            if not gone or "X-Jobrunner-Widget" not in request.headers:
                return None
            return redirect("/login") if gone[0] == "login" else Response("no", int(gone[0]))

    return add


def widget_polls(served: Served) -> list[str]:
    return [path for path in served.requests if "/embed?" in path]


def started(
    make_host: MakeHost, serve: Serve, page: Page, **options: Any
) -> tuple[Host, Served, str]:
    """A running job, and the page that shows it."""
    host = make_host(before=pages_of_the_host(**options), JOBRUNNER_POLL_MIN=1)
    host.jobs.actor(lambda: "anna")
    uuid = add_job(host.runtime, "running", title="Build report", owner="anna")
    served = serve(host.app)
    page.goto(f"{served.url}/report/{uuid}")
    return host, served, uuid


def test_the_other_versions_are_what_their_note_says() -> None:
    note = (HERE / "VENDORED.md").read_text("utf-8")

    for file in HERE.glob("*.min.js"):
        assert file.name in note
        assert hashlib.sha256(file.read_bytes()).hexdigest() in note


@pytest.mark.parametrize("version", ["none", *VERSIONS])
def test_a_widget_lives_beside_the_pages_own_htmx(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, version: str
) -> None:
    page, htmx = browser_page.page, VERSIONS.get(version)
    host, served, uuid = started(make_host, serve, page, htmx=htmx)
    job, own = page.locator("jr-live").first, page.locator("jr-live").nth(1)

    add_lines(host.runtime, uuid, ["line one", "line two"])
    change(host.runtime, uuid, progress_done=1, progress_total=4)
    expect(job).to_contain_text("line two", timeout=PATIENT)
    expect(job).to_contain_text("25%", timeout=PATIENT)
    expect(own).to_contain_text("25%", timeout=PATIENT)
    expect(page.get_by_text("The report")).to_be_hidden()

    job.get_by_role("link", name="Cancel job").click()
    page.get_by_role("link", name="Keep running").click()
    expect(job.get_by_role("link", name="Cancel job")).to_be_focused()
    job.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(job).to_contain_text("Cancelling", timeout=PATIENT)
    assert page.url == f"{served.url}/report/{uuid}"

    end(host.runtime, uuid)
    expect(page.get_by_text("The report")).to_be_visible(timeout=PATIENT)
    eventually(lambda: job.get_attribute("data-jr-poll") is None, timeout=60)
    asked = len(widget_polls(served))
    stays(lambda: len(widget_polls(served)) == asked, seconds=2)
    assert job.locator(".jr-log p > span").all_text_contents() == ["line one", "line two"]
    if htmx is not None:
        expect(page.locator("#ticks i").nth(2)).to_be_attached(timeout=PATIENT)
    browser_page.assert_clean()


@pytest.mark.parametrize("kind", ["login", "401", "200"])
def test_who_is_signed_out_is_told_and_asks_no_more(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, kind: str
) -> None:
    gone: list[str] = []
    page = browser_page.page
    _, served, _ = started(make_host, serve, page, gone=gone)
    eventually(lambda: widget_polls(served), timeout=60)
    gone.append(kind)

    note = page.locator("jr-live").first.locator("[data-jr-note]")
    expect(note).to_contain_text("You have been signed out", timeout=PATIENT)
    asked = len(widget_polls(served))
    stays(lambda: len(widget_polls(served)) == asked, seconds=3)
    assert page.locator("#foreign").count() == 0
    assert "/login" not in served.requests


def test_a_server_that_fails_is_asked_less_and_a_hidden_tab_asks_nothing(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage
) -> None:
    gone: list[str] = ["503"]
    page = browser_page.page
    host, served, uuid = started(make_host, serve, page, gone=gone)
    job = page.locator("jr-live").first
    expect(job).to_contain_text("Not updated since", timeout=PATIENT)
    assert len(widget_polls(served)) == 3
    gone.clear()
    add_lines(host.runtime, uuid, ["back again"])
    expect(job).to_contain_text("back again", timeout=PATIENT)
    expect(job.locator("[data-jr-note]")).to_be_hidden()

    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.wait_for_timeout(500)
    asked = len(widget_polls(served))
    stays(lambda: len(widget_polls(served)) == asked, seconds=4)
    page.evaluate(hide, False)
    eventually(lambda: len(widget_polls(served)) > asked, timeout=60)


def test_without_javascript_a_job_is_cancelled_and_the_page_comes_back(
    make_host: MakeHost, serve: Serve, browser_pages: Pages
) -> None:
    watched = browser_pages.open(javascript=False, size=(390, 844))
    page = watched.page
    _, served, uuid = started(make_host, serve, page)
    page.get_by_role("link", name="Reload to update").click()
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()

    assert page.url == f"{served.url}/report/{uuid}"
    expect(page.locator("jr-live").first).to_contain_text("Cancelling")
    watched.assert_clean()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_word_before_a_line_stays_in_one_row(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, width: int
) -> None:
    page = browser_page.page
    page.set_viewport_size({"width": width, "height": 800})
    host, served, uuid = started(make_host, serve, page)
    lines: list[Any] = [{"message": "x", "level": level} for level in ("debug", "warning", "error")]
    lines += [{"message": "x", "stream": stream} for stream in ("stdout", "stderr")]
    add_lines(host.runtime, uuid, [*lines, "Succeeded"])
    for path in (f"/report/{uuid}", f"/jobs/{uuid}", f"/jobs/{uuid}/log"):
        page.goto(served.url + path)
        expect(page.locator("p > b").last).to_have_text("system")

        rows = page.evaluate(
            "[...document.querySelectorAll('.jr-log p > b')]"
            ".map((e) => [e, parseFloat(getComputedStyle(e).lineHeight)])"
            ".map(([e, line]) => [e.textContent, e.offsetHeight / line])"
        )

        assert [word for word, _ in rows] == ["debug", "warn", "error", "out", "err", "system"]
        assert {round(height) for _, height in rows} == {1}, (path, rows)
