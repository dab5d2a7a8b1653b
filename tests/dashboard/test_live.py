"""Polls of a job's page: what is new and nothing else, to the last line, and then none."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import SECOND, add_job, add_lines, change, end


def poller(body: str) -> str | None:
    found = re.search(r'<div id="jr-poll" data-poll hx-get="([^"]*)"', body)
    return html.unescape(found[1]) if found else None


def interval(body: str) -> str:
    found = re.search(r'hx-trigger="every ([\d.]+)s,', body)
    assert found is not None
    return found[1]


def numbers(body: str) -> list[int]:
    return [int(number) for number in re.findall(r'<p id="L(\d+)"', body)]


def opened(host: Host, uuid: str) -> str:
    url = poller(host.get(f"/{uuid}").text)
    assert url is not None
    return url


def test_nothing_new_is_a_204_without_a_body_or_a_cookie(host: Host) -> None:
    url = opened(host, add_job(host.runtime, "running"))

    answer = host.poll(url)

    assert answer.status_code == 204
    assert answer.data == b""
    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert "Set-Cookie" not in answer.headers


def test_new_lines_come_once_in_one_chunk_with_the_next_cursor(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one", "two"])
    url = opened(host, uuid)
    add_lines(host.runtime, uuid, ["three", "four"])

    answer = host.poll(url)

    assert numbers(answer.text) == [3, 4]
    assert '<div hx-swap-oob="beforeend:#jr-log"><div class="jr-chunk jr-n5">' in answer.text
    assert answer.text.count("jr-chunk") == 1
    again = poller(answer.text)
    assert again is not None
    assert host.poll(again).status_code == 204


def test_a_lost_answer_is_asked_for_again(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    add_lines(host.runtime, uuid, ["one"])

    assert numbers(host.poll(url).text) == numbers(host.poll(url).text) == [1]


def test_progress_alone_brings_leaves_only(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "running",
        progress_done=1,
        progress_total=4,
        step_index=1,
        step_total=4,
        current_step_label="Import rows",
    )
    url = opened(host, uuid)
    jobs = host.runtime.database.tables.jobs
    host.runtime.database.run(lambda c: c.execute(jobs.update().values(progress_done=2)))

    answer = host.poll(url)

    assert 'id="jr-progress" hx-swap-oob="true"' in answer.text
    for region in ("jr-facts", "jr-timeline", "jr-actions", "jr-state", "jr-error"):
        assert region not in answer.text
    assert len(answer.data) <= 2048


def test_a_beat_that_shows_nothing_is_a_204(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    jobs, now = host.runtime.database.tables.jobs, host.runtime.database.clock()
    host.runtime.database.run(
        lambda c: c.execute(jobs.update().values(heartbeat_at=now, lease_until=now + 15 * SECOND))
    )

    assert host.poll(url).status_code == 204


def test_a_change_of_state_brings_every_region_and_is_announced(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    change(host.runtime, uuid, status="cancel_requested", stop_reason="cancel")

    answer = host.poll(url)

    page = host.get(f"/{uuid}").text
    for region in re.findall(r'id="(jr-[a-z]+)" hx-swap-oob', answer.text):
        assert f'id="{region}"' in page
    assert "Cancelling" in answer.text
    assert 'id="jr-say"' in answer.text
    assert "Asked to stop" in answer.text


def test_who_asked_to_cancel_is_still_told_when_progress_moves(host: Host) -> None:
    uuid = add_job(host.runtime, "cancel_requested", progress_done=1, progress_total=4)
    url = opened(host, uuid)
    jobs = host.runtime.database.tables.jobs
    host.runtime.database.run(lambda c: c.execute(jobs.update().values(progress_done=2)))

    assert "Cancel requested by anna," in host.poll(url).text


def test_a_poll_of_500_lines_and_64_kilobytes_at_most(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1200)])
    assert numbers(host.poll(url).text) == list(range(1, 501))

    other = add_job(host.runtime, "running")
    url = opened(host, other)
    add_lines(host.runtime, other, ["x" * 3900 for _ in range(100)])
    answer = host.poll(url)
    assert 10 < len(numbers(answer.text)) < 20
    assert len(answer.data) < 80_000


def test_two_hundred_lines_fit_the_budget(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    add_lines(
        host.runtime, uuid, [f"Row {n:>6} of 10,000 imported: {'x' * 30}" for n in range(200)]
    )

    answer = host.poll(url)

    assert len(numbers(answer.text)) == 200
    assert len(answer.data) <= 33_000


def follow(host: Host, url: str | None) -> tuple[list[int], list[Any]]:
    """Poll as the page would until a poller without a trigger comes."""
    lines: list[int] = []
    answers = []
    while url is not None:
        answer = host.poll(url)
        answers.append(answer)
        assert len(answers) < 50
        if answer.status_code == 204:
            continue
        lines += numbers(answer.text)
        url = poller(answer.text)
    return lines, answers


def test_the_last_answer_comes_when_every_line_was_shown_and_has_no_trigger(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1730)])
    end(host.runtime, uuid)

    lines, answers = follow(host, url)

    assert lines == list(range(1, 1731))
    assert len(answers) == 4
    assert "hx-trigger" not in answers[-1].text
    assert '<div id="jr-poll"></div>' in answers[-1].text


def test_a_job_that_ended_is_asked_for_exactly_once_more(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    url = opened(host, uuid)
    end(host.runtime, uuid, result_json='{"rows": 3}')

    _, answers = follow(host, url)

    assert len(answers) == 1
    assert "Succeeded" in answers[0].text
    assert "&#34;rows&#34;: 3" in answers[0].text


def test_last_words_that_come_after_the_end_are_still_shown(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    now = host.runtime.database.clock()
    change(host.runtime, uuid, status="interrupted", finished_at=now, updated_at=now)

    first = host.poll(url).text
    waiting = poller(first)
    assert waiting is not None, "the parent has not reported yet"
    assert host.poll(waiting).status_code == 204

    add_lines(host.runtime, uuid, ["the last words"])
    attempts = host.runtime.database.tables.attempts
    host.runtime.database.run(
        lambda c: c.execute(attempts.update().values(reported_at=now, signal=9))
    )
    lines, answers = follow(host, waiting)

    assert lines == [1]
    assert len(answers) == 1


def test_nobody_waits_for_a_report_for_ever(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    long_ago = host.runtime.database.clock() - 20 * SECOND
    change(host.runtime, uuid, status="lost", finished_at=long_ago, updated_at=long_ago)

    assert poller(host.poll(url).text) is None


def test_the_page_of_a_job_that_is_over_never_polls(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")
    add_lines(host.runtime, uuid, ["one"])

    assert poller(host.get(f"/{uuid}").text) is None


def at(url: str, **values: object) -> str:
    for name, value in values.items():
        url = re.sub(rf"\b{name}=[^&]*", f"{name}={value}", url)
    return url


@pytest.mark.parametrize(("quiet", "seconds"), [(3, "1"), (60, "2"), (400, "5")])
def test_a_quiet_job_is_asked_less_often(host: Host, quiet: int, seconds: str) -> None:
    url = opened(host, add_job(host.runtime, "running", age=1000))
    now = host.runtime.database.clock() // SECOND

    answer = host.poll(at(url, q=now - quiet, i="0.5"))

    assert interval(answer.text) == seconds
    settled = poller(answer.text)
    assert settled is not None
    assert host.poll(settled).status_code == 204


def test_a_new_line_speeds_a_quiet_page_up(host: Host) -> None:
    uuid = add_job(host.runtime, "running", age=1000)
    url = at(opened(host, uuid), q=0, i=5)
    add_lines(host.runtime, uuid, ["at last"])

    assert interval(host.poll(url).text) == "1"


@pytest.mark.parametrize(("age", "seconds"), [(1, "1"), (40, "5")])
def test_a_queued_job_is_asked_often_only_while_it_is_about_to_start(
    host: Host, age: int, seconds: str
) -> None:
    assert interval(host.get(f"/{add_job(host.runtime, 'queued', age=age)}").text) == seconds


def test_a_cancelling_job_is_asked_often_for_half_a_minute(host: Host) -> None:
    uuid = add_job(host.runtime, "cancel_requested")
    assert interval(host.get(f"/{uuid}").text) == "1"

    change(host.runtime, uuid, updated_at=host.runtime.database.clock() - 40 * SECOND)
    assert interval(host.get(f"/{uuid}").text) == "2"


def test_the_trigger_is_one_that_needs_no_eval(host: Host) -> None:
    body = host.get(f"/{add_job(host.runtime, 'running')}").text

    assert 'hx-trigger="every 1s, visibilitychange from:document, jr:now"' in body
    assert 'hx-sync="this:drop"' in body
    assert "&#34;allowEval&#34;:false" in body


def test_a_fragment_opened_by_hand_leads_to_the_page(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    answer = host.client().get(f"/jobs/{uuid}/_live?c=3")

    assert answer.status_code == 303
    assert answer.location == f"/jobs/{uuid}"


def test_a_job_that_is_gone_is_a_404_with_our_header_and_nothing_else(host: Host) -> None:
    answer = host.poll("/jobs/01a22706-15d6-7a3d-b858-606442022120/_live?c=0")

    assert answer.status_code == 404
    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert answer.data == b""


def test_a_poll_with_nothing_new_reads_by_keys_only(host: Host) -> None:
    from sqlalchemy import event

    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    url = opened(host, uuid)
    statements: list[str] = []
    event.listen(
        host.runtime.database.engine,
        "before_cursor_execute",
        lambda c, cursor, statement, *rest: statements.append(statement),
    )

    assert host.poll(url).status_code == 204

    asked = [s for s in statements if not s.upper().startswith(("PRAGMA", "BEGIN", "COMMIT"))]
    assert len(asked) <= 2, asked


def test_the_poll_goes_below_the_mount_of_the_page(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_URL_PREFIX="/admin/ops/jobs")
    uuid = add_job(host.runtime, "running")

    body = (
        host.client()
        .get(f"/admin/ops/jobs/{uuid}", environ_overrides={"SCRIPT_NAME": "/shop"})
        .text
    )

    assert (poller(body) or "").startswith(f"/shop/admin/ops/jobs/{uuid}/_live?")
