"""The list: newest first, filtered, paged, honest about its counts, and live by cells."""

from __future__ import annotations

import html
import json
import re

import pytest
from click.testing import CliRunner
from flask.cli import ScriptInfo

from flask_jobrunner.cli import jobs
from flask_jobrunner.dashboard.narrowed import Narrowed
from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.model.words import STATUS_WORDS
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, change, end


def names(body: str) -> list[str]:
    return [html.unescape(name) for name in re.findall(r'jr-name"><a href="[^"]*">([^<]*)', body)]


def link(body: str, text: str) -> str | None:
    found = re.search(rf'href="([^"]*)">{text}</a>', body)
    return html.unescape(found[1]).removeprefix("/jobs") if found else None


def poller(body: str) -> str:
    found = re.search(r'hx-get="([^"]*)"', body)
    assert found is not None
    return html.unescape(found[1])


def test_every_status_has_its_word_and_its_shape(host: Host) -> None:
    for status in JobStatus:
        add_job(host.runtime, status)

    body = host.get().text

    for status in JobStatus:
        chip = rf'jr-chip jr-{status}"><svg[^>]*><use href="#jr-i-{status}"/></svg>'
        assert re.search(chip + STATUS_WORDS[status], body), status
        assert f'id="jr-i-{status}"' in body


def test_newest_first_fifty_a_page_both_ways(host: Host) -> None:
    for number in range(120):
        add_job(host.runtime, "succeeded", title=f"Job {number:03}", age=1000 - number)

    first = host.get().text
    second = host.get(link(first, "Older") or "").text
    third = host.get(link(second, "Older") or "").text
    back = host.get(link(third, "Newer") or "").text

    assert names(first) == [f"Job {n:03}" for n in range(119, 69, -1)]
    assert names(second) == [f"Job {n:03}" for n in range(69, 19, -1)]
    assert names(third) == [f"Job {n:03}" for n in range(19, -1, -1)]
    assert link(third, "Older") is None
    assert link(first, "Newer") is None
    assert names(back) == names(second)


def test_a_page_stays_what_it_was_while_jobs_come(host: Host) -> None:
    for number in range(60):
        add_job(host.runtime, "succeeded", title=f"Job {number:03}")
    older = link(host.get().text, "Older") or ""
    before = names(host.get(older).text)
    add_job(host.runtime, "queued", title="New")

    assert names(host.get(older).text) == before


def test_one_status_alone(host: Host) -> None:
    add_job(host.runtime, "failed", title="Bad")
    add_job(host.runtime, "succeeded", title="Good")

    body = host.get("/?status=failed").text

    assert names(body) == ["Bad"]
    assert re.search(r'status=failed" aria-current="true">Failed <b>1</b>', body)


def test_counts_are_capped_and_say_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from flask_jobrunner.dashboard import job_list

    assert job_list.filter_links.__module__
    with host.app.test_request_context("/jobs/"):
        links = job_list.filter_links({"succeeded": 1001, "failed": 1000}, Narrowed())

    shown = {link.word: link.shown for link in links}
    assert shown["Succeeded"] == "1,000+"
    assert shown["Failed"] == "1,000"
    assert shown["All"] == "1,000+"


def test_nothing_ever_shows_the_first_job_in_code(host: Host) -> None:
    @host.jobs.handler("invoices.send")
    def send(ctx: object) -> None: ...

    body = html.unescape(host.get().text)

    assert "No jobs yet" in body
    assert "@jobs.handler(" in body
    assert "flask --app shop:create_app jobs start invoices.send" in body
    assert "Registered in this app: invoices.send" in body


def test_nothing_that_matches_leads_back_to_all(host: Host) -> None:
    add_job(host.runtime, "succeeded")

    body = host.get("/?status=lost").text

    assert "No jobs match this filter" in body
    assert "Show all jobs" in body


def test_progress_and_step_are_told(host: Host) -> None:
    add_job(
        host.runtime,
        "running",
        progress_done=420,
        progress_total=1000,
        step_index=3,
        step_total=7,
        current_step_label="Import rows",
    )

    body = host.get().text

    assert '<progress class="jr-bar-running" max="1000" value="420"' in body
    assert "42% · Step 3 of 7: Import rows" in body


def test_times_are_relative_and_absolute_in_the_zone_of_the_heading(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_TIMEZONE="Asia/Kolkata")
    uuid = add_job(host.runtime, "succeeded", age=125)
    job = host.runtime.jobs.get(uuid)
    assert job is not None

    body = host.get().text

    assert "Queued (IST)" in body
    assert ">2 min ago</span>" in body
    assert re.search(r"\d+ [A-Z][a-z]{2}(?: \d{4})?, \d\d:\d\d:\d\d</span></time>", body)
    assert job.queued_at.isoformat(timespec="milliseconds").replace("+00:00", "Z") in body


def test_a_poll_with_nothing_new_is_a_204(host: Host) -> None:
    add_job(host.runtime, "running")
    url = poller(host.get().text)

    answer = host.poll(url)

    assert answer.status_code == 204
    assert answer.data == b""
    assert answer.headers["X-Jobrunner-Fragment"] == "1"


def test_a_poll_of_an_empty_list_tells_of_the_first_job(host: Host) -> None:
    url = poller(host.get().text)
    assert host.poll(url).status_code == 204
    add_job(host.runtime, "queued")

    answer = host.poll(url)

    assert "1 new job" in answer.text
    assert host.poll(poller(answer.text)).status_code == 204


def test_a_poll_brings_the_cells_of_rows_that_were_active(host: Host) -> None:
    running = add_job(host.runtime, "running", progress_done=1, progress_total=4)
    done = add_job(host.runtime, "succeeded")
    url = poller(host.get().text)
    change(host.runtime, running, progress_done=2)

    answer = host.poll(url)

    key = running[-12:]
    assert f'id="p{key}" hx-swap-oob="true"' in answer.text
    assert f'id="s{key}"' in answer.text
    assert f'id="t{key}"' in answer.text
    assert done[-12:] not in answer.text
    assert len(answer.data) <= 2048


def test_a_row_that_ended_is_shown_once_more_and_asked_for_no_more(host: Host) -> None:
    running = add_job(host.runtime, "running")
    url = poller(host.get().text)
    end(host.runtime, running)

    answer = host.poll(url)

    assert "Succeeded" in answer.text
    assert running not in poller(answer.text)
    assert host.poll(poller(answer.text)).status_code == 204


def test_new_jobs_raise_a_bar_and_change_no_row(host: Host) -> None:
    add_job(host.runtime, "succeeded")
    url = poller(host.get().text)
    add_job(host.runtime, "queued")
    add_job(host.runtime, "queued")

    answer = host.poll(url)

    assert "2 new jobs" in answer.text
    assert "<tr" not in answer.text
    assert host.poll(poller(answer.text)).status_code == 204


def test_new_jobs_are_told_of_only_where_they_match(host: Host) -> None:
    add_job(host.runtime, "failed")
    url = poller(host.get("/?status=failed").text)
    add_job(host.runtime, "queued")
    assert host.poll(url).status_code == 204
    add_job(host.runtime, "failed")

    assert "1 new job" in host.poll(url).text


def test_an_older_page_is_not_told_of_new_jobs(host: Host) -> None:
    for _ in range(60):
        add_job(host.runtime, "succeeded")
    url = poller(host.get(link(host.get().text, "Older") or "").text)
    add_job(host.runtime, "queued")

    assert host.poll(url).status_code == 204


def test_a_fragment_opened_by_hand_leads_to_the_page(host: Host) -> None:
    answer = host.client().get("/jobs/_list?status=failed&a=1")

    assert answer.status_code == 303
    assert answer.location == "/jobs/?status=failed"


def test_the_interval_is_not_below_the_floor(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_POLL_MIN=7)
    uuid = add_job(host.runtime, "running")

    assert 'hx-trigger="every 7s,' in host.get().text
    assert 'hx-trigger="every 7s,' in host.get(f"/{uuid}").text


def test_fifty_rows_fit_the_budget(host: Host) -> None:
    for _ in range(50):
        add_job(
            host.runtime,
            "running",
            title="Import customers and their orders",
            reference="import:12345",
            owner="someone@example.org",
            progress_done=420,
            progress_total=1000,
            current_step_label="Import rows",
        )

    assert len(host.get().data) <= 60 * 1024


@pytest.mark.parametrize("status", [None, "queued", "failed", "lost"])
def test_the_command_and_the_page_list_the_same(host: Host, status: str | None) -> None:
    for one in JobStatus:
        add_job(host.runtime, one, title=f"Job that is {one}")
    wanted = ["--status", status] if status else []
    runner = CliRunner()
    script = ScriptInfo(create_app=lambda: host.app, set_debug_flag=False)

    listed = json.loads(runner.invoke(jobs, ["list", "--json", *wanted], obj=script).stdout)["jobs"]
    body = host.get(f"/?status={status}" if status else "/").text

    shown = re.findall(r'jr-name"><a href="/jobs/([0-9a-f-]{36})"', body)
    assert [job["uuid"] for job in listed] == shown
    assert [job["title"] for job in listed] == names(body)
    chips = re.findall(r'jr-chip jr-(\w+)"', body)
    assert [job["status"] for job in listed] == chips
    assert len(listed) == (1 if status else len(JobStatus))
