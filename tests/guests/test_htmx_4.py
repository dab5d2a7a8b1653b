"""The dashboard's pages with the next htmx in the place of the one they ship."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask, Response, redirect, request
from playwright.sync_api import Route, expect

from tests.browser.conftest import Serve, Served
from tests.browser.test_embed import VERSIONS
from tests.browser.test_log import numbers
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.helpers.browser import WatchedPage
from tests.helpers.waiting import eventually, stays

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATIENT = 60_000


@pytest.fixture
def newer(browser_page: WatchedPage) -> WatchedPage:
    """A page that gets htmx 4."""

    def exchange(route: Route) -> None:
        route.fulfill(path=VERSIONS["4"], content_type="text/javascript")

    browser_page.page.route(re.compile(r"/static/htmx\.min\.js"), exchange)
    return browser_page


def test_a_job_is_followed_to_its_end_and_asked_for_no_more(
    host: Host, served: Served, newer: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running", progress_total=4), newer.page
    page.goto(f"{served.url}/jobs/{uuid}")
    assert page.evaluate("htmx.version").startswith("4.")
    page.get_by_role("link", name="Cancel job").focus()
    for part in range(3):
        add_lines(host.runtime, uuid, [f"line {n}" for n in range(400)])
        every = list(range(1, 400 * (part + 1) + 1))
        eventually(lambda every=every: numbers(page) == every, timeout=60)  # type: ignore[misc]  # mypy#12459
    assert page.evaluate("document.activeElement.textContent") == "Cancel job"
    change(host.runtime, uuid, progress_done=1)
    expect(page.locator("#jr-progress")).to_contain_text("25%", timeout=PATIENT)

    end(host.runtime, uuid, result_json='{"rows": 3}')

    expect(page.locator("#jr-live-text")).to_have_text("Complete", timeout=PATIENT)
    expect(page.locator("#jr-state")).to_have_text("Succeeded")
    expect(page.locator("#jr-state")).to_be_focused()
    expect(page.locator("#jr-result")).to_contain_text('"rows": 3')
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=4)
    newer.assert_clean()


def test_a_long_tail_is_complete_in_order_and_bounded(
    host: Host, served: Served, newer: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), newer.page
    page.goto(f"{served.url}/jobs/{uuid}")
    seen: set[int] = set()
    for start in range(0, 12_000, 3000):
        add_lines(host.runtime, uuid, [f"line {n}" for n in range(start, start + 3000)])

        def arrived(last: int = start + 3000) -> bool:
            page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
            found = numbers(page)
            assert found == sorted(set(found))
            assert len(found) <= 10_000
            seen.update(found)
            return bool(found) and found[-1] == last

        eventually(arrived, timeout=90)
    assert seen == set(range(1, 12_001))
    newer.assert_clean()


@pytest.mark.parametrize("kind", ["login page", "401", "empty 200"])
def test_who_is_signed_out_is_told_once_and_asks_no_more(
    make_host: MakeHost, serve: Serve, newer: WatchedPage, kind: str
) -> None:
    gone: list[bool] = []

    def guard(app: Flask) -> None:
        app.add_url_rule("/login", "login", lambda: "<form id=foreign></form>")

        @app.before_request
        def turn_away() -> Any:
            if not gone or "HX-Request" not in request.headers or request.path == "/login":
                return None
            if kind == "login page":
                return redirect("/login")
            return Response("", 401 if kind == "401" else 200)

    host = make_host(before=guard, JOBRUNNER_POLL_MIN=1)
    uuid, served, page = add_job(host.runtime, "running"), serve(host.app), newer.page
    page.goto(f"{served.url}/jobs/{uuid}")
    gone.append(True)

    expect(page.locator("#jr-alert")).to_contain_text("signed out", timeout=PATIENT)
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=3)
    assert page.locator("#foreign").count() == 0
    assert newer.policy_violations == []


def test_a_server_that_fails_is_asked_less_and_less_and_recovers(
    make_host: MakeHost, serve: Serve, newer: WatchedPage
) -> None:
    down: list[bool] = []
    refused: list[str] = []

    def guard(app: Flask) -> None:
        @app.before_request
        def fail() -> Any:
            if not down or "HX-Request" not in request.headers:
                return None
            refused.append(request.path)
            return Response("down", 503)

    host = make_host(before=guard)
    uuid, served, page = add_job(host.runtime, "running"), serve(host.app), newer.page
    page.goto(f"{served.url}/jobs/{uuid}")
    eventually(lambda: len(served.polls()) >= 1, timeout=60)
    down.append(True)

    expect(page.locator("#jr-alert")).to_contain_text("Not updated since", timeout=PATIENT)
    assert len(refused) == 3
    down.clear()
    add_lines(host.runtime, uuid, ["back again"])
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_text("back again")).to_be_visible(timeout=PATIENT)
    expect(page.locator("#jr-live-text")).to_have_text("Live")


def test_a_paused_page_asks_nothing_and_a_list_changes_in_place(
    host: Host, served: Served, newer: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running", title="First", progress_total=4), newer.page
    page.goto(f"{served.url}/jobs/")
    page.get_by_label("Updates").select_option("off")
    page.wait_for_timeout(500)
    asked = len(served.polls())
    change(host.runtime, uuid, progress_done=2)
    stays(lambda: len(served.polls()) == asked, seconds=6)

    page.get_by_label("Updates").select_option("auto")

    expect(page.locator("tbody tr")).to_contain_text("50%", timeout=PATIENT)
    add_job(host.runtime, "queued", title="Second")
    expect(page.locator("#jr-news")).to_contain_text("1 new job", timeout=PATIENT)
    newer.assert_clean()


def test_a_server_that_cannot_be_reached_is_waited_for(
    host: Host, served: Served, newer: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), newer.page
    page.goto(f"{served.url}/jobs/{uuid}")
    eventually(lambda: len(served.polls()) >= 1, timeout=60)
    away = re.compile("/_live")
    page.route(away, lambda route: route.abort())
    expect(page.locator("#jr-live-text")).to_contain_text("Reconnecting", timeout=PATIENT)

    page.unroute(away)
    add_lines(host.runtime, uuid, ["back again"])

    expect(page.get_by_text("back again")).to_be_visible(timeout=PATIENT)
    expect(page.locator("#jr-live-text")).to_have_text("Live")
