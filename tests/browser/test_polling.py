"""When the page asks, when it holds back, and when it stops for good."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, Response, redirect, request
from playwright.sync_api import Page, expect

from tests.browser.conftest import Serve, Served
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.helpers.browser import WatchedPage
from tests.helpers.waiting import eventually, stays

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def lines(page: Page) -> list[str]:
    return page.locator("#jr-log p[id^=L] > span").all_text_contents()


def hide(page: Page, *, hidden: bool) -> None:
    """Tell the page that its tab is (not) in front."""
    page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_log_grows_and_stops_at_the_end_with_every_line_shown(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    expect(page.locator("#jr-none")).to_have_text("Waiting for the first line")

    for start in range(0, 1500, 300):
        add_lines(host.runtime, uuid, [f"line {n}" for n in range(start, start + 300)])
        eventually(lambda start=start: len(lines(page)) == start + 300, timeout=60)  # type: ignore[misc]
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1500, 2600)])
    end(host.runtime, uuid, result_json='{"rows": 3}')

    expect(page.locator("#jr-state")).to_have_text("Succeeded")
    expect(page.locator("#jr-live-text")).to_have_text("Complete", timeout=15_000)
    assert lines(page) == [f"line {n}" for n in range(2600)]
    expect(page.locator("#jr-result")).to_contain_text('"rows": 3')
    expect(page.locator("#jr-say")).to_contain_text("Succeeded")
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=4)
    # Chunks of fifty lines, so that no poll lays out many more lines than are in view.
    sizes = page.evaluate(
        "[...document.querySelectorAll('.jr-chunk')].map((e) => e.children.length)"
    )
    assert max(sizes) <= 50
    assert len(sizes) <= 2600 / 50 + len(served.polls())
    browser_page.assert_clean()


def test_a_job_that_ends_is_asked_for_once_more(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    eventually(lambda: len(served.polls()) >= 1)

    end(host.runtime, uuid)
    asked = len(served.polls())
    expect(page.locator("#jr-live-text")).to_have_text("Complete")
    stays(lambda: len(served.polls()) <= asked + 1, seconds=4)


def test_a_hidden_tab_asks_nothing_and_a_shown_one_at_once(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    eventually(lambda: len(served.polls()) >= 1)
    hide(page, hidden=True)
    page.wait_for_timeout(300)
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=4)
    add_lines(host.runtime, uuid, ["while you were away"])

    hide(page, hidden=False)

    eventually(lambda: len(served.polls()) > asked, timeout=0.5)
    expect(page.get_by_text("while you were away")).to_be_visible()
    browser_page.assert_clean()


def test_pause_and_resume(host: Host, served: Served, browser_page: WatchedPage) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_label("Updates").select_option("off")
    expect(page.locator("#jr-live-text")).to_have_text("Paused")
    page.wait_for_timeout(300)
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=3)

    page.get_by_label("Updates").select_option("auto")

    expect(page.locator("#jr-live-text")).to_have_text("Live")
    eventually(lambda: len(served.polls()) > asked, timeout=0.5)


def test_selected_text_is_left_alone(host: Host, served: Served, browser_page: WatchedPage) -> None:
    uuid, page = add_job(host.runtime, "running", title="Select me"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    page.locator("h1").dblclick()
    page.wait_for_timeout(300)
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=3)

    page.evaluate("getSelection().removeAllRanges()")
    eventually(lambda: len(served.polls()) > asked, timeout=60)


def turned_away(kind: str) -> Any:
    if kind == "login page":
        return redirect("/login")
    if kind == "empty 200":
        return Response("")
    return Response("no", int(kind))


@pytest.mark.parametrize(
    ("page_of", "kind"),
    [
        ("job", "login page"),
        ("job", "401"),
        ("job", "403"),
        ("job", "empty 200"),
        ("list", "login page"),
    ],
)
def test_who_is_signed_out_is_told_once_and_asks_no_more(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage, kind: str, page_of: str
) -> None:
    gone: list[bool] = []

    def guard(app: Flask) -> None:
        @app.get("/login")
        def login() -> str:
            return "<form id=foreign><input name=password></form>"

        @app.before_request
        def turn_away() -> Any:
            if gone and "HX-Request" in request.headers and request.path != "/login":
                return turned_away(kind)
            return None

    host = make_host(before=guard, JOBRUNNER_POLL_MIN=1)
    uuid, served, page = add_job(host.runtime, "running"), serve(host.app), browser_page.page
    add_lines(host.runtime, uuid, ["still readable"])
    page.goto(f"{served.url}/jobs/{uuid if page_of == 'job' else ''}")
    gone.append(True)

    alarm = page.locator("#jr-alert")
    expect(alarm).to_contain_text("You have been signed out.", timeout=10_000)
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=2)

    assert page.locator("#foreign").count() == 0
    assert alarm.locator("button").count() == 1
    expect(page.locator("#jr-live-text")).to_have_text("Stopped")
    if page_of == "job":
        expect(page.get_by_text("still readable")).to_be_visible()
    assert browser_page.policy_violations == []
    gone.clear()
    page.get_by_role("button", name="Reload").click()
    expect(page.locator("#jr-live-text")).to_have_text("Live")


def test_a_job_that_is_gone_is_said_to_be(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    host.jobs.scope(lambda: "somebody else")

    expect(page.locator("#jr-alert")).to_contain_text("This job was deleted.")


def test_a_server_that_fails_is_asked_less_and_less_and_recovers(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage
) -> None:
    down: list[bool] = []
    refused: list[str] = []

    def guard(app: Flask) -> None:
        @app.before_request
        def fail() -> Any:
            if down and "HX-Request" in request.headers:
                refused.append(request.path)
                return Response("down", 503)
            return None

    host = make_host(before=guard)
    uuid, served, page = add_job(host.runtime, "running"), serve(host.app), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    eventually(lambda: len(served.polls()) >= 1)
    down.append(True)

    expect(page.locator("#jr-live-text")).to_contain_text("Reconnecting")
    expect(page.locator("#jr-alert")).to_contain_text("Not updated since", timeout=20_000)
    assert len(refused) == 3
    assert page.evaluate("document.documentElement.classList.contains('jr-stale')")

    down.clear()
    add_lines(host.runtime, uuid, ["back again"])
    page.get_by_role("button", name="Retry now").click()

    expect(page.get_by_text("back again")).to_be_visible()
    expect(page.locator("#jr-live-text")).to_have_text("Live")
    expect(page.locator("#jr-alert")).to_be_empty()


def test_rows_of_the_list_change_in_place_and_new_jobs_raise_a_bar(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage
) -> None:
    host = make_host()
    uuid = add_job(host.runtime, "running", title="First", progress_done=1, progress_total=4)
    served, page = serve(host.app), browser_page.page
    page.goto(f"{served.url}/jobs/")
    row = page.locator("tbody tr").filter(has_text="First")
    expect(row).to_contain_text("25%")

    change(host.runtime, uuid, progress_done=2)
    expect(row).to_contain_text("50%", timeout=12_000)
    end(host.runtime, uuid)
    add_job(host.runtime, "queued", title="Second")

    expect(row).to_contain_text("Succeeded", timeout=12_000)
    expect(page.locator("#jr-news")).to_contain_text("1 new job", timeout=12_000)
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("link", name="show them").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    browser_page.assert_clean()


def test_focus_survives_polls_and_a_button_that_goes_leaves_it_on_the_state(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running", progress_total=9), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_role("link", name="Cancel job").focus()
    for number in range(3):
        asked = len(served.polls())
        add_lines(host.runtime, uuid, [f"line {number}"])
        eventually(lambda asked=asked: len(served.polls()) > asked)  # type: ignore[misc]
    assert page.evaluate("document.activeElement.textContent") == "Cancel job"

    end(host.runtime, uuid)

    expect(page.locator("#jr-state")).to_have_text("Succeeded")
    expect(page.locator("#jr-state")).to_be_focused()
