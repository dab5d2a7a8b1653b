"""Every form of ours in a host whose Flask-WTF checks every POST."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask_wtf.csrf import CSRFProtect
from itsdangerous import TimestampSigner
from sqlalchemy import select

from tests.browser.conftest import Serve
from tests.dashboard.embedding import with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_supervisors import PULLED, add_supervisor
from tests.helpers.browser import WatchedPage

OURS = {"Sec-Fetch-Site": "same-origin"}
PULLED_JOB = {**PULLED, "job_type": "reports.build"}


def on_a_job(status: str, deed: str) -> Callable[[Host], str]:
    return lambda host: f"/{add_job(host.runtime, status, **PULLED_JOB)}/{deed}"


def on_many(status: str, deed: str) -> Callable[[Host], str]:
    def path(host: Host) -> str:
        add_job(host.runtime, status, **PULLED_JOB)
        return f"/bulk/{deed}?status={status}"

    return path


def on_a_type(host: Host) -> str:
    # Through the queue, as the newest one: no process is started.
    add_job(host.runtime, "succeeded", **PULLED_JOB)
    return "/types/reports.build/run"


def on_a_supervisor(host: Host) -> str:
    add_supervisor(host)
    return "/supervisors/s1/drain"


FORMS: dict[str, Callable[[Host], str]] = {
    "cancel": on_a_job("running", "cancel"),
    "requeue": on_a_job("failed", "requeue"),
    "force_stop": on_a_job("lost", "force-stop"),
    "again": on_a_job("succeeded", "again"),
    "bulk_cancel": on_many("running", "cancel"),
    "bulk_requeue": on_many("failed", "requeue"),
    "run_type": on_a_type,
    "drain": on_a_supervisor,
    "prefs": lambda host: "/prefs",
}
"""For each endpoint that takes a POST: something to do, and the address of its form."""
ANSWER = {"confirm_lost": "1", "theme": "dark"}


@pytest.fixture
def protected(make_host: MakeHost) -> Host:
    host = make_host(before=CSRFProtect, JOBRUNNER_FORCE_STOP=True)
    host.jobs.handler("reports.build", manual=True)(lambda ctx: None)
    return host


def state(host: Host) -> list[Any]:
    """All that the database says of jobs and of those who run them."""
    tables = host.runtime.database.tables
    told = (tables.jobs, tables.events, tables.supervisors)
    return [host.runtime.database.rows(select(table)) for table in told]


def fields(page: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page)
    return {name: html.unescape(value) for name, value in found}


def has_acted(host: Host, before: list[Any], answer: Any) -> bool:
    cookies = [cookie.partition("=")[0] for cookie in answer.headers.getlist("Set-Cookie")]
    return state(host) != before or "jobrunner_prefs" in cookies


def test_every_address_that_takes_a_form_has_one_here(protected: Host) -> None:
    rules = protected.app.url_map.iter_rules()
    posts = {rule.endpoint.rpartition(".")[2] for rule in rules if "POST" in (rule.methods or ())}

    assert posts == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_acts_with_the_hosts_token_and_not_without(protected: Host, name: str) -> None:
    path, client = f"/jobs{FORMS[name](protected)}", protected.client()
    form, before = fields(client.get(path).text) | ANSWER, state(protected)

    bare = client.post(path, data={**form, "csrf_token": ""}, headers=OURS)

    assert bare.status_code == 400
    assert not has_acted(protected, before, bare)
    assert has_acted(protected, before, client.post(path, data=form, headers=OURS))


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_was_open_for_too_long_leads_to_a_fresh_one(
    protected: Host, name: str, clock: list[int]
) -> None:
    path, client = f"/jobs{FORMS[name](protected)}", protected.client()
    form, before = fields(client.get(path).text) | ANSWER, state(protected)
    clock[0] += protected.app.config["WTF_CSRF_TIME_LIMIT"] + 60

    late = client.post(path, data=form, headers=OURS)

    assert late.status_code == 400
    assert not has_acted(protected, before, late)
    assert "Nothing was changed" in late.text
    assert "expired" in late.text
    link = re.search(r'href="([^"]+)">Open the form again', late.text)
    assert link is not None
    fresh = html.unescape(link[1])
    again = fields(client.get(fresh).text) | ANSWER
    assert has_acted(protected, before, client.post(fresh, data=again, headers=OURS))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seconds by which the time of all tokens is ahead."""
    ahead = [0]
    monkeypatch.setattr(
        TimestampSigner, "get_timestamp", lambda _: int(time.time()) + ahead[0], raising=True
    )
    return ahead


@pytest.mark.browser
@pytest.mark.slow
def test_pages_that_were_open_for_hours_still_lead_to_deeds(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, clock: list[int]
) -> None:
    def before(app: Flask) -> None:
        CSRFProtect(app)
        with_page()(app)
        app.add_url_rule("/favicon.ico", "icon", lambda: "")

    host, page = make_host(before=before), browser_page.page
    host.jobs.actor(lambda: "anna")
    first, second, third = (
        add_job(host.runtime, "running", owner="anna", title=title)
        for title in ("First", "Second", "Third")
    )
    served = serve(host.app)

    def hours_later(path: str) -> None:
        page.goto(f"{served.url}{path}")
        clock[0] += 3 * 3600

    def status(uuid: str) -> str:
        job = host.runtime.jobs.get(uuid)
        assert job is not None
        return job.status

    hours_later(f"/report/{first}")
    page.get_by_role("link", name="Cancel job").click()
    with page.expect_response(lambda answer: answer.request.method == "POST") as told:
        page.get_by_role("button", name="Cancel job").click()
    assert told.value.status == 204
    assert status(first) == "cancel_requested"

    hours_later(f"/jobs/{second}")
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    page.locator("#jr-did").wait_for()
    assert status(second) == "cancel_requested"

    hours_later("/jobs/?status=running")
    page.get_by_role("link", name="Cancel all running jobs").click()
    page.get_by_role("button", name="Cancel 1 job").click()
    page.get_by_role("heading", name="Cancelled 1 job").wait_for()
    assert status(third) == "cancel_requested"
    browser_page.assert_clean()

    hours_later("/jobs/prefs")
    page.get_by_label("Dark").check()
    page.get_by_role("button", name="Keep preferences").click()
    page.get_by_role("link", name="Open the form again").click()
    page.get_by_label("Dark").check()
    page.get_by_role("button", name="Keep preferences").click()
    page.get_by_text("Preferences kept").wait_for()
    assert page.locator("html").get_attribute("data-theme") == "dark"
