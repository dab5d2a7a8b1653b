"""Pages on phone and desktop, light and dark: nothing sticks out, all is in reach."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from playwright.sync_api import Dialog, Page, expect

from flask_jobrunner.model.statuses import JobStatus
from tests.browser.conftest import Served
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines
from tests.dashboard.test_escaping import CORPUS, nasty_job
from tests.dashboard.test_supervisors import add_supervisor
from tests.helpers.browser import Pages, WatchedPage
from tests.helpers.waiting import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONG = "averylongnamewithoutanyspaceinit" * 6


def paths(host: Host) -> list[str]:
    """Every page there is, with names and lines that are too long."""
    found = ["", "?status=lost", "01a22706-15d6-7a3d-b858-606442022120"]
    for status in JobStatus:
        uuid = add_job(
            host.runtime,
            status,
            title=LONG,
            owner=LONG[:190],
            actor=f"by-{LONG}"[:190],
            reference=LONG[:190],
            lock_key=f"{status}-{LONG}"[:190],
            payload={LONG: LONG},
            result={LONG: LONG},
            error_class="ValueError" if status == "failed" else None,
            error_message=LONG if status == "failed" else None,
            traceback="Traceback\n" + LONG * 3,
            step_index=3,
            step_total=40,
            current_step_label=LONG,
            progress_done=123456789,
            progress_total=987654321,
        )
        add_lines(host.runtime, uuid, [LONG * 5, {"message": LONG, "level": "error"}])
        found += [uuid, f"{uuid}/log", f"{uuid}/cancel", f"{uuid}/requeue"]
    add_supervisor(host, "s1", types=(LONG, "mail"), revision=LONG[:190], standby=1)
    job: dict[str, Any] = {"claim_mode": "trusted", "dispatch_by": "s1"}
    add_job(host.runtime, "running", title=LONG, **job)
    add_supervisor(host, "s2", silent=3600)
    host.jobs.handler("import", manual=True)(print)
    found += ["supervisors", "supervisors/s1/drain", "supervisors/s2/drain"]
    found += ["types/import", "types/import/run", f"?lock=running-{LONG}"[:180]]
    return found


def sticks_out(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("javascript", [True, False])
def test_no_page_scrolls_sideways(
    host: Host, served: Served, browser_pages: Pages, width: int, javascript: bool
) -> None:
    watched = browser_pages.open(size=(width, 800), javascript=javascript)
    for path in paths(host):
        watched.page.goto(f"{served.url}/jobs/{path}")
        assert sticks_out(watched.page) <= 0, path


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_keeps_to_the_policy(
    host: Host, served: Served, browser_pages: Pages, theme: Literal["light", "dark"]
) -> None:
    watched = browser_pages.open(color_scheme=theme)
    for path in paths(host):
        watched.page.goto(f"{served.url}/jobs/{path}")
        watched.page.wait_for_load_state("networkidle") if path == "" else None
    assert watched.policy_violations == []
    # A 404 or 409 page is itself reported as an error of the console.
    assert [e for e in watched.console_errors if "Failed to load resource" not in e] == []


SMALL = """(least) => [...document.querySelectorAll("a, button, input, summary")]
  .filter((e) => e.checkVisibility() && getComputedStyle(e).display !== "inline")
  .map((e) => [e.textContent.trim() || e.name, e.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < least || box.width < least))
  .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""


def test_what_one_touches_is_large_enough(host: Host, served: Served, browser_pages: Pages) -> None:
    uuid = add_job(host.runtime, "running")
    page = browser_pages.open(size=(390, 844)).page
    for path in ("", uuid, f"{uuid}/cancel"):
        page.goto(f"{served.url}/jobs/{path}")
        controls = page.evaluate(SMALL, 24)
        assert controls == [], path
    for name in ("Cancel job", "Keep running"):
        control = page.get_by_text(name, exact=True)
        box = control.bounding_box()
        assert box is not None
        assert box["height"] >= 44


def test_the_actions_stay_in_reach_of_the_thumb_and_cover_nothing(
    host: Host, served: Served, browser_pages: Pages
) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(200)])
    page = browser_pages.open(size=(390, 844)).page
    page.goto(f"{served.url}/jobs/{uuid}")

    def bottom(selector: str) -> Any:
        return page.evaluate(
            "(s) => document.querySelector(s).getBoundingClientRect().bottom", selector
        )

    assert bottom("#jr-actions .jr-button") <= 844
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert bottom(".jr-foot .jr-wrap > :last-child") <= 844 - 60


def test_no_script_of_job_data_runs(host: Host, served: Served, browser_page: WatchedPage) -> None:
    page, opened = browser_page.page, list[str]()

    def remember(dialog: Dialog) -> None:
        opened.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", remember)
    jobs = {nasty_job(host, text, "cancel_requested"): text for text in CORPUS}
    page.goto(f"{served.url}/jobs/")
    for uuid, text in jobs.items():
        page.goto(f"{served.url}/jobs/{uuid}/log")
        page.goto(f"{served.url}/jobs/{uuid}")
        add_lines(host.runtime, uuid, [text])
        page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
        eventually(lambda: page.locator("#jr-log p[id^=L]").count() == 3)

    assert opened == []
    assert not any("/evil" in path for path in served.requests)
    assert browser_page.policy_violations == []
    assert browser_page.console_errors == []


def test_following_the_end_yields_to_the_reader(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(300)])
    page.goto(f"{served.url}/jobs/{uuid}")
    follow, log = page.get_by_role("button", name="Follow"), page.locator("#jr-log")
    at_end = "(e) => e.scrollHeight - e.scrollTop - e.clientHeight < 25"
    expect(follow).to_have_attribute("aria-pressed", "true")
    eventually(lambda: log.evaluate(at_end))

    log.hover()
    page.mouse.wheel(0, -600)
    expect(follow).to_have_attribute("aria-pressed", "false")
    place = log.evaluate("(e) => e.scrollTop")
    add_lines(host.runtime, uuid, [f"new {n}" for n in range(57)])
    pill = page.get_by_role("button", name="57 new lines")
    expect(pill).to_be_visible()
    assert abs(log.evaluate("(e) => e.scrollTop") - place) <= 2

    pill.click()
    expect(follow).to_have_attribute("aria-pressed", "true")
    eventually(lambda: log.evaluate(at_end))
    add_lines(host.runtime, uuid, [f"last {n}" for n in range(60)])
    expect(page.get_by_text("last 59")).to_be_visible()
    eventually(lambda: log.evaluate(at_end))


@pytest.mark.parametrize("status", ["running", "succeeded"])
def test_a_log_opens_at_its_end_where_lines_are_wrapped(
    host: Host, served: Served, browser_pages: Pages, status: str
) -> None:
    uuid, page = add_job(host.runtime, status), browser_pages.open(size=(390, 844)).page
    add_lines(host.runtime, uuid, [f"line {n}: {'some words more ' * 8}" for n in range(700)])

    page.goto(f"{served.url}/jobs/{uuid}")

    last = page.locator("#L700")
    eventually(
        lambda: last.evaluate(
            "(e) => e.getBoundingClientRect().bottom"
            " <= document.querySelector('#jr-log').getBoundingClientRect().bottom"
        )
    )


def test_a_link_to_a_line_shows_it(host: Host, served: Served, browser_page: WatchedPage) -> None:
    uuid, page = add_job(host.runtime, "succeeded"), browser_page.page
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 6001)])

    page.goto(f"{served.url}/jobs/{uuid}?line=5000#L5000")

    line = page.locator("#L5000")
    expect(line).to_be_in_viewport()
    assert page.url.endswith(f"/{uuid}/log?line=5000#L5000")
    assert line.evaluate("(e) => e.matches(':target')")


def test_the_copied_log_is_its_text(host: Host, served: Served, browser_pages: Pages) -> None:
    uuid, watched = add_job(host.runtime, "succeeded"), browser_pages.open()
    add_lines(host.runtime, uuid, ["one", "  two", "three"])
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{served.url}/jobs/{uuid}")

    page.locator("[data-copy=jr-log]").click()

    expect(page.locator("#jr-say")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "one\n  two\nthree"


def test_durations_are_right_where_the_visitors_clock_is_wrong(
    host: Host, served: Served, browser_pages: Pages
) -> None:
    uuid, page = add_job(host.runtime, "running", age=100.4), browser_pages.open().page
    page.clock.install()
    page.add_init_script("{ const now = Date.now; Date.now = () => now() - 600000; }")

    page.goto(f"{served.url}/jobs/{uuid}")
    page.clock.run_for(2000)

    expect(page.locator("#jr-sentence")).to_contain_text("Running for 1 min 4")
