"""A session of Flask-Login that ends while pages are open."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from tests.browser.conftest import Serve, Served
from tests.dashboard.embedding import MISSING, WIDGET, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines
from tests.guests.accounts import ANNA, only_users, with_accounts
from tests.helpers.browser import WatchedPage
from tests.helpers.waiting import eventually, stays

OURS = {"Sec-Fetch-Site": "same-origin"}
PATIENT = 60_000


@pytest.fixture
def club(make_host: MakeHost) -> Host:
    """A host that shows nothing to strangers."""

    def before(app: Flask) -> None:
        with_accounts(app)
        with_page()(app)

    return make_host(before=before, authorize=only_users, JOBRUNNER_POLL_MIN=1)


PATHS = {
    "page": "/jobs/{}",
    "list": "/jobs/?status=running&q=build",
    "types": "/jobs/types",
    "preferences": "/jobs/prefs",
    "supervisors": "/jobs/supervisors",
    "log": "/jobs/{}/log?line=3",
    "question": "/jobs/{}/cancel",
    "bulk question": "/jobs/bulk/cancel?status=running",
    "text": "/jobs/{}/log.txt",
    "download": "/jobs/{}/artifacts/a.csv",
    "poll of a job": "/jobs/{}/_live?c=0&v=1&p=0",
    "poll of the list": "/jobs/_list?n=0",
    "poll of the supervisors": "/jobs/_supervisors?v=0",
    "poll of a widget": "/jobs/{}/embed?c=0&v=1&p=0",
    "poll of my jobs": "/jobs/_mine?v=0",
    "lines": "/jobs/{}/_lines?before=3",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_stranger_is_sent_to_sign_in_and_comes_back_to_a_page(club: Host, path: str) -> None:
    uuid, client = add_job(club.runtime, "running", title="Secret"), club.client()
    path = path.format(uuid)

    answer = client.get(path, headers={"HX-Request": "true", **WIDGET})

    assert answer.status_code == 302
    assert "X-Jobrunner-Fragment" not in answer.headers
    assert "Secret" not in answer.text
    sign_in = urlsplit(answer.location)
    assert sign_in.path == "/login"
    assert parse_qs(sign_in.query)["next"] == [path]

    back = client.post(answer.location)
    landed = client.get(back.location, follow_redirects=True)
    # What a script asked for is no page: whoever lands there is led to the page it belongs to.
    assert landed.status_code == (404 if "artifacts" in path else 200)
    assert landed.mimetype == "text/plain" or "<!doctype html>" in landed.text


@pytest.mark.parametrize(
    "path", ["{}/cancel", "{}/requeue", "{}/again", "bulk/cancel", "bulk/requeue", "prefs"]
)
def test_a_strangers_form_does_nothing_and_is_asked_again_after_signing_in(
    club: Host, path: str
) -> None:
    uuid, client = add_job(club.runtime, "running"), club.client()
    path = f"/jobs/{path}".format(uuid)

    answer = client.post(path, headers=OURS, data={"until": "9", "theme": "dark"})

    assert answer.status_code == 302
    assert urlsplit(answer.location).path == "/login"
    job = club.runtime.jobs.get(uuid)
    assert job is not None
    assert job.status == "running"
    back = client.post(answer.location)
    assert back.location == path
    assert client.get(path).status_code in (200, 409)


def test_jobs_that_are_there_and_those_that_are_not_are_the_same_to_a_stranger(club: Host) -> None:
    uuid, client = add_job(club.runtime, "running"), club.client()

    for path in (path for path in PATHS.values() if "{}" in path):
        there, absent = client.get(path.format(uuid)), client.get(path.format(MISSING))
        assert there.status_code == absent.status_code
        assert there.text.replace(uuid, MISSING) == absent.text, path


def sign_in(page: Page, served: Served, path: str) -> None:
    page.goto(f"{served.url}/login?next={path}")
    page.get_by_role("button", name="Enter").click()
    page.wait_for_url(f"{served.url}{path}")


def end_session(page: Page) -> None:
    page.context.clear_cookies(name="session")


def from_scripts(served: Served) -> list[str]:
    return [path for path in served.requests if re.search("/_|/embed", path)]


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("where", ["", "{}", "supervisors"])
def test_a_page_whose_session_ends_says_so_once_and_asks_no_more(
    club: Host, serve: Serve, browser_page: WatchedPage, where: str
) -> None:
    uuid, served, page = add_job(club.runtime, "running"), serve(club.app), browser_page.page
    add_lines(club.runtime, uuid, ["still readable"])
    path = f"/jobs/{where}".format(uuid)
    sign_in(page, served, path)
    eventually(lambda: from_scripts(served), timeout=60)
    end_session(page)

    alarm = page.locator("#jr-alert")
    expect(alarm).to_contain_text("You have been signed out.", timeout=PATIENT)
    asked = len(from_scripts(served))
    stays(lambda: len(from_scripts(served)) == asked, seconds=3)
    assert page.locator("form[method=post] button").get_by_text("Enter").count() == 0
    assert served.requests.count("/login") <= 1 + len([p for p in served.requests if "next=" in p])

    page.get_by_role("button", name="Reload").click()
    expect(page).to_have_title("Sign in")
    # The one poll that was turned away has flashed nothing that piles up.
    assert page.locator(".told").count() <= 1
    page.get_by_role("button", name="Enter").click()
    page.wait_for_url(f"{served.url}{path}")
    assert browser_page.policy_violations == []
    assert browser_page.console_errors == []


@pytest.mark.browser
@pytest.mark.slow
def test_widgets_whose_session_ends_say_so_and_ask_no_more(
    club: Host, serve: Serve, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(club.runtime, "running", owner=ANNA), browser_page.page
    add_lines(club.runtime, uuid, ["still readable"])
    served = serve(club.app)
    sign_in(page, served, f"/report/{uuid}")
    eventually(lambda: from_scripts(served), timeout=60)
    end_session(page)

    notes = page.locator("[data-jr-note]")
    for note in (notes.first, notes.nth(1)):
        expect(note).to_contain_text("You have been signed out.", timeout=PATIENT)
    asked = len(from_scripts(served))
    stays(lambda: len(from_scripts(served)) == asked, seconds=3)
    expect(page.get_by_text("still readable")).to_be_visible()
    assert browser_page.policy_violations == []
    assert browser_page.console_errors == []

    page.get_by_role("link", name="Cancel job").click()
    expect(page).to_have_title("Sign in")
    page.get_by_role("button", name="Enter").click()
    page.get_by_role("button", name="Cancel job").click()
    page.wait_for_url(f"{served.url}/report/{uuid}")
    expect(page.locator("jr-live").first).to_contain_text("Cancelling")


@pytest.mark.browser
@pytest.mark.slow
def test_a_widget_whose_session_ends_under_its_question_has_cancelled_nothing_and_says_so(
    club: Host, serve: Serve, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(club.runtime, "queued", owner=ANNA), browser_page.page
    served = serve(club.app)
    sign_in(page, served, f"/report/{uuid}")
    page.get_by_role("link", name="Cancel job").click()
    button = page.get_by_role("button", name="Cancel job")
    expect(button).to_be_visible()
    end_session(page)
    button.click()

    expect(page.locator("[data-jr-note]").first).to_contain_text("You have been signed out.")
    job = club.runtime.jobs.get(uuid)
    assert job is not None
    assert job.status == "queued"
