"""A long log in a browser: bounded, nothing moves under its reader, and any line has an address."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from flask_jobrunner.dashboard.rendering import STATIC
from tests.browser.conftest import Served
from tests.browser.test_log import numbers
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines, change
from tests.dashboard.test_system_lines import add_event
from tests.helpers.browser import Pages, WatchedPage
from tests.helpers.long_logs import fill_log
from tests.helpers.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries()) {
    const moved = sources.map(({ node }) => node && (node.id || node.className || node.nodeName));
    window.shifts.push(`${value}: ${moved}`);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
AT_END = "(e) => e.scrollHeight - e.scrollTop - e.clientHeight <= 24"
HEAP = 30 << 20
KEPT = 10_000


def ask_until(page: Page, line: int) -> None:
    """Have the page ask until it shows this line."""

    def shown() -> bool:
        page.evaluate("document.querySelector('#jr-poll') && htmx.trigger('#jr-poll', 'jr:now')")
        return page.locator(f"#L{line}").count() == 1

    eventually(shown, timeout=60, message=lambda: f"{numbers(page)[-3:]}, not {line}")


def keep(page: Page, lines: int) -> None:
    """Let the page hold so many lines only, so that a test need not bring ten thousand."""
    script = (STATIC / "log.js").read_text(encoding="utf-8")
    fewer = script.replace(f"LINES_KEPT = {KEPT}", f"LINES_KEPT = {lines}")
    assert fewer != script

    def serve(route: Route) -> None:
        route.fulfill(body=fewer, content_type="text/javascript")

    page.route("**/static/log.js*", serve)


def heap(page: Page) -> int:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    return used


def check_tail(host: Host, served: Served, watched: WatchedPage, lines: int) -> None:
    """Every line is there once, in order and at the end; nothing shifts; the page stays small."""
    uuid, page = add_job(host.runtime, "running"), watched.page
    # Its duration has as many digits for the whole test: what stands behind it stays there.
    change(host.runtime, uuid, started_at=host.runtime.database.clock() - 1_000_000_000)
    page.add_init_script(WATCH_SHIFTS)
    page.goto(f"{served.url}/jobs/{uuid}")
    add_lines(host.runtime, uuid, ["line 1"])
    ask_until(page, 1)
    page.evaluate("window.shifts = []")
    log, before, seen = page.locator("#jr-log"), heap(page), {1}
    for start in range(1, lines, 500):
        add_lines(host.runtime, uuid, [f"line {n + 1}" for n in range(start, start + 500)])
        ask_until(page, start + 500)
        eventually(lambda: log.evaluate(AT_END), timeout=60)
        found = numbers(page)
        assert found == list(range(found[0], found[-1] + 1))
        assert len(found) <= KEPT
        seen.update(found)

    assert seen == set(range(1, lines + 1))
    assert page.evaluate("window.shifts") == []
    assert heap(page) - before < HEAP
    watched.assert_clean()


def test_a_log_that_grows_shifts_nothing(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    check_tail(host, served, browser_page, 2_501)


@pytest.mark.million
def test_a_log_that_outgrows_the_page_shifts_nothing(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    check_tail(host, served, browser_page, 20_001)


def test_scrolling_up_stops_following_and_the_end_goes_on(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 301)])
    page.goto(f"{served.url}/jobs/{uuid}")
    log, follow = page.locator("#jr-log"), page.locator("#jr-follow")
    expect(follow).to_have_attribute("aria-pressed", "true")

    log.hover()
    page.mouse.wheel(0, -600)
    expect(follow).to_have_attribute("aria-pressed", "false")
    place = log.evaluate("(e) => e.scrollTop")
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(301, 321)])
    ask_until(page, 320)

    expect(page.locator("#jr-pill")).to_have_text("20 new lines")
    assert log.evaluate("(e) => e.scrollTop") == place
    log.focus()
    page.keyboard.press("End")
    expect(follow).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#jr-pill")).to_be_hidden()
    add_lines(host.runtime, uuid, ["line 321"])
    ask_until(page, 321)
    expect(page.locator("#L321")).to_be_in_viewport()
    browser_page.assert_clean()


def test_a_reader_keeps_older_lines_and_a_mark_says_that_newer_ones_are_missing(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    keep(page, 1200)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 1101)])
    page.goto(f"{served.url}/jobs/{uuid}")
    page.locator("#jr-follow").click()
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1101, 1501)])
    # Its chunk has no room: it comes and goes.
    later = page.locator("#jr-later")
    for more in range(1501, 1521):
        add_lines(host.runtime, uuid, [f"line {more}"])
        page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
    expect(later).to_have_text("Newer lines are not kept on this page. Go to the end")
    add_lines(host.runtime, uuid, ["one more"])
    page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
    cursor = "document.querySelector('#jr-poll').getAttribute('hx-get')"
    eventually(lambda: "c=1521" in page.evaluate(cursor), timeout=60)

    found = numbers(page)
    assert found == list(range(101, found[-1] + 1))
    assert found[-1] < 1521
    assert later.evaluate("(e) => e.nextElementSibling") is None
    later.locator("a").click()
    expect(page.locator("#L1521")).to_be_in_viewport()
    expect(page.locator("#jr-follow")).to_have_attribute("aria-pressed", "true")
    browser_page.assert_clean()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_line_of_a_very_long_log_has_an_address(
    host: Host, served: Served, browser_pages: Pages, javascript: bool
) -> None:
    uuid, watched = add_job(host.runtime, "running"), browser_pages.open(javascript=javascript)
    fill_log(host.runtime, uuid, 200_000)
    ground = "(e) => getComputedStyle(e).backgroundColor"
    page = watched.page
    page.goto(f"{served.url}/jobs/{uuid}?line=5000#L5000")

    line = page.locator("#L5000")
    expect(line).to_be_in_viewport()
    assert line.evaluate(ground) != page.locator("#L5001").evaluate(ground)
    assert numbers(page) == list(range(4500, 5500))
    watched.assert_clean()


def test_what_was_done_comes_once_between_the_lines(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    add_lines(host.runtime, uuid, ["one"])
    page.goto(f"{served.url}/jobs/{uuid}")
    told = {"action": "cancel", "to_status": "cancel_requested", "actor": "bob"}
    add_event(host.runtime, uuid, 0.2, **told)
    change(host.runtime, uuid, status="cancel_requested", stop_reason="cancel")
    expect(page.locator("#jr-log p.s > span")).to_have_text(["Cancel requested by bob"])
    add_lines(host.runtime, uuid, ["two"])
    ask_until(page, 2)

    rows = page.locator("#jr-log .jr-chunk p > span")
    assert rows.all_text_contents() == ["one", "Cancel requested by bob", "two"]
    browser_page.assert_clean()


def test_new_lines_are_announced_on_request_and_not_too_often(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    add_lines(host.runtime, uuid, ["one"])
    page.clock.install()
    page.goto(f"{served.url}/jobs/{uuid}")
    say, announce = page.locator("#jr-say"), page.locator("#jr-announce")

    def bring(line: int) -> None:
        add_lines(host.runtime, uuid, [f"line {line}"])
        page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
        eventually(lambda: page.locator(f"#L{line}").count() == 1, timeout=60)

    bring(2)
    expect(say).to_be_empty()
    announce.click()
    bring(3)
    expect(say).to_have_text("2 new lines, last: line 3")
    bring(4)
    page.clock.fast_forward(10_000)
    bring(5)
    expect(say).to_have_text("2 new lines, last: line 3")
    page.clock.fast_forward(10_000)
    bring(6)
    expect(say).to_have_text("3 new lines, last: line 6")
