"""The supervisors' page in a browser: drained with the keyboard alone, and a focus that stays."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Served
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job
from tests.dashboard.test_supervisors import add_supervisor, set_supervisor
from tests.helpers.browser import Pages, WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def alive(host: Host) -> None:
    """A supervisor that stays fresh however slow this machine is."""
    add_supervisor(host)
    set_supervisor(host, "s1", heartbeat_at=host.runtime.database.clock() + 3600 * 1_000_000)


@pytest.mark.parametrize("javascript", [True, False])
def test_it_is_drained_and_resumed_with_the_keyboard(
    host: Host, served: Served, browser_pages: Pages, javascript: bool
) -> None:
    alive(host)
    page = browser_pages.open(javascript=javascript).page
    for deed, after in (("Drain", "Drained"), ("Resume", "Working")):
        page.goto(f"{served.url}/jobs/supervisors")
        page.get_by_role("link", name=f"{deed} ").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name=f"{deed} supervisor").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#jr-did")).to_be_visible(timeout=60_000)
        expect(page.locator(".jr-chip")).to_have_text(after)
    assert sorted(one.action for one in host.runtime.drains.newest(["s1"]).values()) == ["resume"]


def test_the_focus_stays_where_it_was_when_the_page_brings_something_new(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    alive(host)
    page = browser_page.page
    page.goto(f"{served.url}/jobs/supervisors")
    page.get_by_role("link", name="Drain ").focus()
    add_job(host.runtime, "running", title="New", dispatch_by="s1", claim_mode="trusted")

    expect(page.get_by_role("link", name="New")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("link", name="Drain ")).to_be_focused()
    assert browser_page.policy_violations == []
    assert browser_page.console_errors == []
