"""What stands around every page: names, ways to go, how many supervisors live, clocks."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from flask_jobrunner.dashboard import frame as framing
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import SECOND, add_job
from tests.dashboard.test_supervisors import add_supervisor

GONE = "01a22706-15d6-7a3d-b858-606442022120"


def nav(body: str) -> str:
    found = re.search(r'<nav class="jr-nav".*?</nav>', body, re.DOTALL)
    return found[0] if found else ""


def text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def test_without_a_name_of_its_own_the_way_home_is_jobs(host: Host) -> None:
    body = host.get("/types").text

    assert "</svg>Jobs</a>" in body
    assert text(nav(body)) == "Types Supervisors 0"
    assert 'href="/jobs/types" aria-current="page"' in nav(body)


def test_a_name_and_a_label_are_shown_on_every_page_and_escaped(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_TITLE="Shop <ops>", JOBRUNNER_ENVIRONMENT="staging")
    uuid = add_job(host.runtime, "running")

    for path in ("/", "/types", "/supervisors", "/prefs", f"/{uuid}", f"/{GONE}"):
        body = host.get(path).text
        assert "</svg>Shop &lt;ops&gt;</a>" in body, path
        assert ">staging</span>" in body, path
    assert text(nav(host.get("/").text)) == "Jobs Types Supervisors 0"


def test_no_supervisor_is_an_alert_while_jobs_wait_for_one(host: Host) -> None:
    add_job(host.runtime, "queued")
    assert "jr-failed" not in nav(host.get("/").text), "it was pushed, and needs none"

    add_job(host.runtime, "queued", claim_mode="trusted", claim_deadline=None)
    assert 'class="jr-chip jr-failed">0<' in nav(host.get("/").text)
    assert "None is running, and jobs wait for one" in nav(host.get("/").text)

    add_supervisor(host)
    assert text(nav(host.get("/").text)) == "Types Supervisors 1"


def test_a_supervisor_that_is_silent_is_not_counted(host: Host) -> None:
    add_supervisor(host)
    table, now = host.runtime.database.tables.supervisors, host.runtime.database.clock()
    host.runtime.database.run(
        lambda c: c.execute(table.update().values(heartbeat_at=now - 60 * SECOND))
    )

    assert text(nav(host.get("/").text)) == "Types Supervisors 0"


def test_the_count_follows_on_the_page_of_the_supervisors(host: Host) -> None:
    url = re.search(r'hx-get="([^"]+)"', host.get("/supervisors").text)
    assert url is not None
    add_supervisor(host)

    answer = host.poll(html.unescape(url[1]))

    assert re.search(r'<b id="jr-to-supervisors-count" hx-swap-oob="true">1</b>', answer.text)


def test_who_may_not_go_somewhere_is_shown_no_way_there(make_host: MakeHost) -> None:
    host = make_host(authorize=lambda action, job: action == "view_list")

    assert text(nav(host.get("/").text)) == "Types"


def test_who_may_not_see_supervisors_costs_no_look_at_them(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(authorize=lambda action, job: action != "view_supervisors")
    pulse = type(host.runtime.supervisors).pulse
    asked = list[object]()

    def told(repository: Any, *narrow: Any) -> Any:
        asked.append(narrow)
        return pulse(repository, *narrow)

    monkeypatch.setattr(type(host.runtime.supervisors), "pulse", told)

    assert host.get("/").status_code == host.get("/types").status_code == 200
    assert asked == []


def test_who_is_restricted_is_not_told_that_others_wait(host: Host) -> None:
    add_job(host.runtime, "queued", claim_mode="trusted", claim_deadline=None, owner="ben")
    host.jobs.scope(lambda: "anna")

    assert "jr-failed" not in nav(host.get("/").text)


@pytest.mark.parametrize(
    ("seconds", "told"), [(45, "45.0 s ahead of"), (-120, "2 min 00 s behind")]
)
def test_clocks_that_disagree_are_told(
    host: Host, monkeypatch: pytest.MonkeyPatch, seconds: int, told: str
) -> None:
    fixed = datetime(2026, 11, 30, 12, tzinfo=UTC)

    monkeypatch.setattr(framing, "datetime", SimpleNamespace(now=lambda _: fixed))

    assert framing._skew(fixed + timedelta(seconds=seconds)) == (
        f"The database's clock is {told} this server's"
    )
    assert framing._skew(fixed + timedelta(seconds=29)) == ""


def test_a_page_says_that_the_clocks_disagree(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The database's clock" not in html.unescape(host.get("/").text)
    monkeypatch.setattr(framing, "SKEW_SHOWN", -1.0)

    assert "The database's clock" in html.unescape(host.get("/").text)


@pytest.mark.parametrize("path", ["/_list?n=0", "/_supervisors", "/{uuid}/_live?c=0"])
def test_every_poll_says_as_of_when_it_is(host: Host, path: str) -> None:
    uuid = add_job(host.runtime, "running")

    answer = host.poll("/jobs" + path.format(uuid=uuid))

    as_of = re.fullmatch(
        r"(\d{13}) \d+ \w{3} \d{4}, \d\d:\d\d:\d\d UTC", answer.headers["X-Jobrunner-As-Of"]
    )
    assert as_of is not None
    assert abs(int(as_of[1]) / 1000 - datetime.now(UTC).timestamp()) < 60


def test_the_shortcuts_are_listed_and_can_be_switched_off(host: Host) -> None:
    body = host.get("/").text

    assert '<dialog class="jr-panel jr-card" id="jr-keys"' in body
    for keys in ("/", "?", "g j", "g w", "g t", "r", "p", "f", "t", "w"):
        assert f"<kbd>{keys}</kbd>" in body
    assert 'id="jr-keys-open" hidden' in body, "without a script there are none"
