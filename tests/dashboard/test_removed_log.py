"""A log whose lines were removed because they are old: its pages say so, and wait for nothing."""

from __future__ import annotations

import pytest

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import SECOND, add_job, add_lines, change
from tests.dashboard.test_live import poller

REMOVED = "The 48,210 lines of this log were removed; they were old"


@pytest.fixture
def old(host: Host) -> str:
    uuid = add_job(host.runtime, "succeeded", age=4000)
    change(host.runtime, uuid, log_seq=48_210)
    return uuid


def test_the_page_of_the_job_does_not_wait_for_them(host: Host, old: str) -> None:
    page = host.get(f"/{old}").text

    assert REMOVED in page
    assert poller(page) is None


def test_the_page_of_the_log_says_where_they_are(host: Host, old: str) -> None:
    assert REMOVED in host.get(f"/{old}/log").text
    assert "There are no lines here." in host.get(f"/{old}/log?level=error").text
    assert "There are no lines here." in host.get(f"/{old}/log?after=7").text


def test_a_log_that_one_may_not_read_has_no_tools(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["secret"])
    host.runtime.hooks.authorize = lambda action, _: action != "view_log"
    page = host.get(f"/{uuid}").text

    assert "You may not read this log." in page
    assert 'data-copy="jr-log"' not in page


def test_a_job_that_is_not_due_says_so_in_the_list(host: Host) -> None:
    now = host.runtime.database.clock()
    add_job(host.runtime, title="Later", not_before=now + 3600 * SECOND)
    add_job(host.runtime, title="Due", not_before=now - SECOND)
    page = host.get().text

    assert page.count("Not before ") == 1
    assert page.count("Waiting to start") == 1
