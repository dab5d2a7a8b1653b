"""The frame in a browser: the pace of updates, the clock, and nothing that moves."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Serve, Served
from tests.browser.test_polling import hide
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.helpers.browser import PHONE, Pages, WatchedPage
from tests.helpers.waiting import eventually, stays

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def poll(page: Page, served: Served) -> None:
    """Have the page ask once more, and wait for its answer to be shown."""
    asked = len(served.polls())
    with page.expect_response(lambda answer: "/_" in answer.url, timeout=60_000):
        page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
    eventually(lambda: len(served.polls()) > asked, timeout=60)


# --- how often a page asks ------------------------------------------------------------------


def test_the_pace_is_chosen_in_the_header_and_remembered(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    pace, live = page.get_by_label("Updates"), page.locator("#jr-live-text")
    expect(pace).to_have_value("auto")
    pace.select_option("off")
    expect(live).to_have_text("Paused")
    page.reload()
    expect(pace).to_have_value("off")
    expect(live).to_have_text("Paused")
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=3)

    page.locator("h1").click()
    page.keyboard.press("r")
    eventually(lambda: len(served.polls()) == asked + 1, timeout=60)
    expect(live).to_have_text("Paused")
    page.keyboard.press("p")
    expect(live).to_have_text("Live")
    eventually(lambda: len(served.polls()) > asked + 2, timeout=60)
    browser_page.assert_clean()


def test_a_slower_pace_holds_polls_back(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.clock.install()
    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_label("Updates").select_option("15")
    eventually(lambda: len(served.polls()) >= 1, timeout=60)
    page.clock.run_for(1000)
    asked = len(served.polls())

    for _ in range(13):
        page.clock.run_for(1000)
    assert len(served.polls()) == asked
    for _ in range(3):
        page.clock.run_for(1000)
    eventually(lambda: len(served.polls()) == asked + 1, timeout=60)


def test_preferences_that_change_go_before_what_was_chosen_earlier(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    page = browser_page.page
    page.goto(f"{served.url}/jobs/")
    page.get_by_label("Updates").select_option("off")
    page.goto(f"{served.url}/jobs/prefs")
    page.get_by_label("Every 15 s").check()
    page.get_by_role("button", name="Keep preferences").click()

    page.goto(f"{served.url}/jobs/")

    expect(page.get_by_label("Updates")).to_have_value("15")


def test_a_hidden_page_asks_nothing_for_a_minute_and_at_once_when_it_is_shown(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.clock.install()
    page.goto(f"{served.url}/jobs/{uuid}")
    page.clock.run_for(1100)
    eventually(lambda: len(served.polls()) >= 1, timeout=60)
    hide(page, hidden=True)
    page.clock.run_for(1100)
    asked = len(served.polls())

    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    assert len(served.polls()) == asked

    hide(page, hidden=False)
    page.clock.run_for(250)
    eventually(lambda: len(served.polls()) == asked + 1, timeout=60)


def test_an_open_dialog_holds_polls_back(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    page.get_by_role("button", name="Shortcuts").click()
    expect(page.locator("#jr-keys")).to_be_visible()
    page.wait_for_timeout(300)
    asked = len(served.polls())
    stays(lambda: len(served.polls()) == asked, seconds=3)

    page.keyboard.press("Escape")

    expect(page.get_by_role("button", name="Shortcuts")).to_be_focused()
    eventually(lambda: len(served.polls()) > asked, timeout=60)


def test_a_page_that_nobody_touches_rests_after_two_hours(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.clock.install()
    page.goto(f"{served.url}/jobs/{uuid}")
    page.clock.run_for(1100)

    page.clock.fast_forward("02:00:01")
    page.clock.run_for(1100)

    expect(page.locator("#jr-alert")).to_contain_text("Updates paused after 2 hours.")
    asked = len(served.polls())
    page.clock.run_for(10_000)
    assert len(served.polls()) == asked
    page.get_by_role("button", name="Resume").click()
    eventually(lambda: len(served.polls()) > asked, timeout=60)
    expect(page.locator("#jr-live-text")).to_have_text("Live")


def test_a_server_that_is_down_for_a_minute_is_asked_seven_times_at_most(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.clock.install()
    page.goto(f"{served.url}/jobs/{uuid}")
    tried: list[str] = []

    def refuse(route: object, request: object) -> None:
        tried.append(request.url)  # type: ignore[attr-defined]  # playwright's own
        route.abort("connectionrefused")  # type: ignore[attr-defined]

    page.route("**/_live?*", refuse)
    for second in range(60):
        before = len(tried)
        page.clock.run_for(1000)
        if second < 2 and not before:
            page.wait_for_timeout(1000)
        page.wait_for_timeout(20)

    assert 4 <= len(tried) <= 7
    alarm = page.locator("#jr-alert")
    expect(alarm).to_contain_text("Not updated since")
    expect(page.locator("#jr-live-text")).to_contain_text("Reconnecting in ")
    page.unroute("**/_live?*")
    add_lines(host.runtime, uuid, ["back again"])
    page.clock.run_for(80_000)
    expect(page.get_by_text("back again")).to_be_visible()
    expect(alarm).to_be_empty()
    expect(page.locator("#jr-live-text")).to_have_text("Live")


def test_a_server_that_says_when_to_come_back_is_left_alone_until_then(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.clock.install()
    page.goto(f"{served.url}/jobs/{uuid}")
    page.route("**/_live?*", lambda route: route.fulfill(status=503, headers={"Retry-After": "40"}))
    with page.expect_response("**/_live?*", timeout=60_000):
        page.clock.run_for(1100)

    expect(page.locator("#jr-live-text")).to_contain_text("Reconnecting in 40 s")


# --- what must not move -----------------------------------------------------------------------


def test_nothing_of_a_reader_moves_over_thirty_polls(
    make_host: MakeHost, serve: Serve, browser_page: WatchedPage
) -> None:
    host = make_host()
    uuid = add_job(
        host.runtime, "running", payload={"k": "x" * 5000}, progress_done=0, progress_total=100
    )
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(300)])
    served, page = serve(host.app), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    page.locator("summary").click()
    page.locator("#jr-log").evaluate("(e) => e.scrollTo(0, 900)")
    field = page.get_by_role("searchbox")
    field.fill("half a wo")
    page.evaluate("scrollTo(0, 240)")
    seen = """() => [document.activeElement.name, document.activeElement.value, scrollY,
        document.querySelector("details").open, document.querySelector("#jr-log").scrollTop]"""
    page.wait_for_timeout(300)
    before = page.evaluate(seen)

    for number in range(1, 31):
        change(host.runtime, uuid, progress_done=number)
        add_lines(host.runtime, uuid, [f"new {number}"])
        poll(page, served)

    expect(page.locator("#jr-progress")).to_contain_text("30%", timeout=60_000)
    assert before[0] == "q"
    assert page.evaluate(seen) == before
    browser_page.assert_clean()


def test_a_filter_half_typed_stays_while_rows_change(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid = add_job(host.runtime, "running", title="First", progress_done=0, progress_total=100)
    page = browser_page.page
    page.goto(f"{served.url}/jobs/")
    page.get_by_text("More filters").click()
    page.get_by_label("Owner").fill("ann")

    for number in range(1, 31):
        change(host.runtime, uuid, progress_done=number)
        poll(page, served)

    expect(page.locator("tbody tr")).to_contain_text("30%", timeout=60_000)
    expect(page.get_by_label("Owner")).to_be_focused()
    expect(page.get_by_label("Owner")).to_have_value("ann")


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
@pytest.mark.parametrize("wrong", [-600_000, 600_000])
def test_durations_are_right_in_every_zone_and_with_a_wrong_clock(
    make_host: MakeHost, serve: Serve, browser_pages: Pages, zone: str, wrong: int
) -> None:
    host = make_host(JOBRUNNER_TIMEZONE=zone)
    uuid = add_job(host.runtime, "running", age=100.4)
    fresh = add_job(host.runtime, "running", age=0.5, waited=0.4)
    served, page = serve(host.app), browser_pages.open().page
    page.add_init_script(f"{{ const now = Date.now; Date.now = () => now() + {wrong}; }}")
    label = {"Asia/Kolkata": "IST", "America/New_York": "E"}[zone]

    page.goto(f"{served.url}/jobs/{fresh}")
    expect(page.locator("#jr-sentence")).to_contain_text("Running for ")
    stays(
        lambda: "-" not in page.locator("#jr-sentence span").inner_text(),
        seconds=2,
    )
    page.goto(f"{served.url}/jobs/{uuid}")
    started = page.locator("#jr-timeline time").first.inner_text()
    sentence = page.locator("#jr-sentence span")
    first = sentence.inner_text()
    assert first.startswith(("1 min 4", "1 min 5", "2 min"))
    expect(sentence).not_to_have_text(first, timeout=60_000)
    assert label in started
    as_of = page.locator("#jr-as-of")
    shown = as_of.inner_text()
    assert label in shown
    expect(as_of).not_to_have_text(shown, timeout=60_000)
    assert label in as_of.inner_text()


def test_the_footer_is_as_fresh_as_the_last_answer_and_stands_still_afterwards(
    host: Host, served: Served, browser_page: WatchedPage
) -> None:
    uuid, page = add_job(host.runtime, "running"), browser_page.page
    page.goto(f"{served.url}/jobs/{uuid}")
    as_of = page.locator("#jr-as-of")
    first = as_of.inner_text()
    expect(as_of).not_to_have_text(first, timeout=60_000)

    end(host.runtime, uuid)

    expect(page.locator("#jr-live-text")).to_have_text("Complete", timeout=60_000)
    expect(page.get_by_label("Updates")).to_be_hidden()
    last = as_of.inner_text()
    stays(lambda: as_of.inner_text() == last, seconds=2)


# --- a phone ----------------------------------------------------------------------------------


def test_the_way_back_is_whole_on_a_phone(
    make_host: MakeHost, serve: Serve, browser_pages: Pages
) -> None:
    host = make_host(name="orchard_and_bakery", JOBRUNNER_ENVIRONMENT="staging")
    uuid = add_job(host.runtime, "running")
    served, page = serve(host.app), browser_pages.open(size=PHONE).page
    for path in ("", uuid, "supervisors", "prefs"):
        page.goto(f"{served.url}/jobs/{path}")
        back = page.get_by_text("Back to orchard_and_bakery")
        assert back.evaluate("(e) => e.scrollWidth <= e.clientWidth"), path
        expect(back).to_be_in_viewport(ratio=1)
