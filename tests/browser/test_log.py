"""The log in a browser: complete and bounded, and nothing moves under its reader."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Served
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines, end
from tests.helpers.browser import Pages, WatchedPage
from tests.helpers.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

IDS = "[...document.querySelectorAll('#jr-log p[id^=L]')].map((e) => Number(e.id.slice(1)))"


def numbers(page: Page) -> list[int]:
    found: list[int] = page.evaluate(IDS)
    return found


def test_earlier_lines_come_without_a_jump(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 2201)])
    page.goto(f"{served.url}/jobs/{uuid}")
    page.locator("#jr-log").evaluate("(e) => e.scrollTo(0, 0)")
    top = "document.querySelector('#L1201').getBoundingClientRect().top"
    page.locator("#jr-earlier a").scroll_into_view_if_needed()
    before = page.evaluate(top)

    page.evaluate("document.querySelector('#jr-earlier a').click()")

    eventually(lambda: numbers(page) == list(range(701, 2201)), timeout=60)
    eventually(lambda: abs(page.evaluate(top) - before) <= 2, timeout=60)
    for _ in range(2):
        page.evaluate("document.querySelector('#jr-earlier a').click()")
        page.wait_for_timeout(0)
        eventually(lambda: not page.locator("#jr-earlier a[aria-busy]").count(), timeout=60)
    assert numbers(page) == list(range(1, 2201))
    assert page.locator("#jr-earlier").count() == 0
    browser_page.assert_clean()


def test_a_tail_is_complete_in_order_and_bounded(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    seen: set[int] = set()
    for start in range(0, 12_000, 3000):
        add_lines(host.runtime, uuid, [f"line {n}" for n in range(start, start + 3000)])
        while not page.locator(f"#L{start + 3000}").count():
            page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
            found = numbers(page)
            seen.update(found)
            assert len(found) <= 10_000
            assert found == list(range(found[0], found[-1] + 1)) if found else True
        seen.update(numbers(page))
    end(host.runtime, uuid)

    assert seen == set(range(1, 12_001))
    expect(page.locator("#jr-earlier")).to_have_text("Earlier lines are on the full page")
    browser_page.assert_clean()


def test_a_range_is_marked_linked_and_copied(
    host: Host, served: Served, browser_pages: Pages
) -> None:
    uuid, page = add_job(host.runtime, "succeeded"), browser_pages.open().page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 31)])
    page.goto(f"{served.url}/jobs/{uuid}/log")
    page.locator("#L5 > a").click()
    page.locator("#L8 > a").click(modifiers=["Shift"])

    assert page.url.endswith("/log?line=5#L5-L8")
    page.reload()
    assert page.locator(".jr-picked").count() == 4
    page.locator("[data-copy=jr-log]").click()
    expect(page.locator("#jr-say")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "line 5\nline 6\nline 7\nline 8"


def test_times_are_shown_as_offsets_or_not_at_all_and_that_is_kept(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "succeeded"), browser_page.page
    add_lines(host.runtime, uuid, ["one"])
    page.goto(f"{served.url}/jobs/{uuid}")
    log, button = page.locator("#jr-log"), page.locator("#jr-times")
    expect(log).to_have_attribute("data-times", "time")
    button.click()
    page.reload()
    expect(log).to_have_attribute("data-times", "offset")
    log.focus()
    page.keyboard.press("t")
    expect(log).to_have_attribute("data-times", "off")


@pytest.mark.parametrize("javascript", [True, False])
def test_a_search_leads_to_its_line(
    host: Host, served: Served, browser_pages: Pages, javascript: bool
) -> None:
    uuid, page = add_job(host.runtime, "succeeded"), browser_pages.open(javascript=javascript).page
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 3001)])
    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_role("searchbox").fill("LINE 777")
    page.get_by_role("button", name="Search").click()

    expect(page.locator("#L777")).to_be_in_viewport()
    expect(page.locator("#L777 mark")).to_have_text("line 777")
