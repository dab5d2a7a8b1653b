"""Search in the list, the pages of the job types, what is usual, and the preferences."""

from __future__ import annotations

import html
import re

import pytest

from flask_jobrunner.dashboard import narrowed
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, change
from tests.dashboard.test_list import link, names, poller

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


def test_a_search_stays_in_every_address_of_the_page(host: Host) -> None:
    for number in range(60):
        add_job(host.runtime, "failed", title=f"Owl {number}", reference="r:1")
    add_job(host.runtime, "succeeded", title="Stork")

    body = host.get("/?q=owl&reference=r:1&status=failed").text
    older = link(body, "Older") or ""

    assert len(names(body)) == 50
    assert len(names(host.get(older).text)) == 10
    assert "q=owl" in older
    assert "reference=r:1" in older
    assert 'value="owl"' in body
    assert "q=owl" in poller(body)
    assert re.search(r'href="[^"]*q=owl[^"]*">Lost <b>0', body) or "q=owl&amp;" in body
    assert host.poll(poller(body)).status_code == 204
    add_job(host.runtime, "failed", title="Stork")
    assert host.poll(poller(body)).status_code == 204
    add_job(host.runtime, "failed", title="Owl", reference="r:1")
    assert "1 new job" in host.poll(poller(body)).text


def test_the_page_says_when_it_looked_at_the_newest_jobs_only(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrowed, "READ", 2)
    add_job(host.runtime, title="Owl of old")
    for _ in range(2):
        add_job(host.runtime, title="Owl")

    body = host.get("/?q=owl").text

    assert names(body) == ["Owl", "Owl"]
    assert "Searched the newest 2 jobs" in body
    assert "Searched the newest" not in host.get("/").text


def test_nobody_searches_the_jobs_of_others(make_host: MakeHost) -> None:
    host = make_host()
    host.jobs.scope(lambda: "ann")
    theirs = add_job(host.runtime, "failed", title="Secret", owner="bob", job_type="bob.only")
    add_job(host.runtime, "succeeded", title="Mine", owner="ann")

    for query in ("q=secret", f"q={theirs}", "type=bob.only", "owner=bob"):
        body = host.get(f"/?{query}").text
        assert names(body) == []
        assert "<b>1</b>" not in body
    assert host.get("/types/bob.only").status_code == host.get("/types/nothing").status_code == 404
    assert "bob.only" not in host.get("/types").text


def test_warnings_and_errors_are_counted_in_the_list_and_followed(host: Host) -> None:
    done = add_job(host.runtime, "succeeded", warning_count=3)
    running = add_job(host.runtime, "running", error_count=1)
    body = host.get().text
    assert re.search(rf'id="p{done[-12:]}"[^\n]*>3 warnings<', body)
    assert ">1 error<" in body

    change(host.runtime, running, error_count=2)

    assert ">2 errors<" in host.poll(poller(body)).text


def test_a_type_tells_of_its_runs_failures_and_times(host: Host) -> None:
    for number in range(19):
        add_job(host.runtime, "succeeded", ran=10.0 + number, waited=2.0)
    add_job(host.runtime, "failed", ran=1.0, error_class="KeyError")

    overview, body = host.get("/types").text, html.unescape(host.get("/types/reports.build").text)

    assert ">reports.build</a>" in overview
    assert ">5.0 %</a>" in overview
    assert "18.0 s / 27.0 s" in overview
    assert "1 (5.0 %)" in body
    assert body.count("<svg viewBox") == 3
    assert "<code>KeyError</code>" in body
    assert "style=" not in body
    failures = re.search(r'href="/jobs([^"]*error=KeyError[^"]*)"', body)
    assert failures is not None
    assert len(names(host.get(failures[1]).text)) == 1


def test_a_job_says_how_long_its_type_usually_takes(host: Host) -> None:
    for _ in range(3):
        add_job(host.runtime, "succeeded", ran=250.0)
    running = add_job(host.runtime, "running", age=20.0)
    late = add_job(host.runtime, "running", age=900.0)

    assert "<dt>Usually takes</dt><dd>4 min 10 s</dd>" in host.get(f"/{running}").text
    assert re.search(r"<dt>Expected end</dt><dd>[^<]*UTC</dd>", host.get(f"/{running}").text)
    assert "It takes longer than usual" in host.get(f"/{late}").text


def test_preferences_are_kept_and_obeyed(host: Host) -> None:
    add_job(host.runtime, "running")
    client, chosen = host.client(), {"theme": "dark", "zone": "Asia/Kolkata", "poll": "15"}

    answer = client.post("/jobs/prefs", data=chosen | {"wrap": "off"}, headers=SAME_ORIGIN)

    assert answer.status_code == 303
    cookie = answer.headers["Set-Cookie"]
    assert "Path=/jobs/" in cookie
    assert "HttpOnly" in cookie
    body = client.get("/jobs/").text
    assert 'data-theme="dark"' in body
    assert "dark.css" in body
    assert "Queued (IST)" in body
    assert '<option value="15" selected>' in body
    assert 'data-wrap="off"' in body
    assert "Preferences kept" in client.get("/jobs/prefs?did=kept").text
    assert "data-theme" not in host.get().text


@pytest.mark.parametrize("wrong", [{"zone": "../etc"}, {"zone": "No/Where"}, {"theme": "pink"}])
def test_preferences_that_are_none_are_refused(host: Host, wrong: dict[str, str]) -> None:
    answer = host.client().post("/jobs/prefs", data=wrong, headers=SAME_ORIGIN)

    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert "jobrunner_prefs" not in answer.headers.get("Set-Cookie", "")


def test_a_form_of_elsewhere_sets_no_preferences(host: Host) -> None:
    elsewhere = {"Sec-Fetch-Site": "cross-site"}

    assert host.client().post("/jobs/prefs", headers=elsewhere).status_code == 403
