"""Widgets on a page of the application's own: what they show, and what their polls bring."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from flask import Response

from flask_jobrunner.dashboard.embed import TAIL
from flask_jobrunner.model.words import LAST_WORDS
from tests.dashboard.embedding import MISSING, ask, poll_url, shown, two_people, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.dashboard.test_html import outline


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with a page of its own."""
    return make_host(before=with_page())


def test_a_widget_shows_progress_lines_and_a_way_to_cancel(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "running",
        title="Build report",
        step_index=2,
        step_total=3,
        current_step_label="Reading",
        progress_done=1,
        progress_total=4,
    )
    add_lines(host.runtime, uuid, ["first", {"message": "careful", "level": "warning"}])

    body = shown(host, uuid)

    for text in ("Build report", "Running", "Step 2 of 3", "Reading", "25%", "first", "careful"):
        assert text in body
    assert f'href="/jobs/{uuid}/cancel?next=/report/{uuid}"' in body
    assert f'<noscript><a href="/report/{uuid}">Reload to update</a></noscript>' in body
    assert '<link rel="stylesheet" href="/jobs/static/embed.css' in body
    assert '<script src="/jobs/static/embed.js' in body


def test_the_result_and_the_error_are_told_at_the_end(host: Host) -> None:
    good = add_job(host.runtime, "succeeded", result={"rows": 3, "password": "hunter2"})
    bad = add_job(
        host.runtime, "failed", error_class="ValueError", error_message="no such file\nmore"
    )

    assert "&#34;rows&#34;: 3" in shown(host, good)
    assert "hunter2" not in shown(host, good)
    assert "no such file" in shown(host, bad)
    for uuid in (good, bad):
        assert "Cancel job" not in shown(host, uuid)
        assert f"/jobs/{uuid}/embed" not in shown(host, uuid)


def test_an_error_does_not_announce_words_that_are_not_shown(host: Host) -> None:
    told = f"The process: exited 1. {LAST_WORDS}\nTraceback"
    uuid = add_job(host.runtime, "failed", error_reason_code="launch_failed", error_message=told)

    assert '<p class="jr-embed-error">The process: exited 1.</p>' in shown(host, uuid)


def test_what_the_page_has_to_show_at_the_end_takes_the_place_of_the_result(
    make_host: MakeHost,
) -> None:
    host = make_host(
        before=with_page(
            '{% from "flask_jobrunner/embed.html" import job_widget %}'
            '{% call job_widget(uuid, log=false) %}<a href="/own">The report</a>{% endcall %}'
        )
    )
    runs = add_job(host.runtime, "running")
    add_lines(host.runtime, runs, ["a line"])
    ended = add_job(host.runtime, "succeeded", result={"rows": 3})

    assert '<div data-jr-done hidden><a href="/own">The report</a></div>' in shown(host, runs)
    assert '<div data-jr-done><a href="/own">The report</a></div>' in shown(host, ended)
    assert "rows" not in shown(host, ended)
    assert "a line" not in shown(host, runs)
    end(host.runtime, runs, result_json='{"rows": 3}')
    answer = ask(host, f"{poll_url(shown(host, add_job(host.runtime, 'running')))}")
    assert answer.status_code == 204


def test_options_are_carried_on_by_the_polls(make_host: MakeHost) -> None:
    host = make_host(
        before=with_page(
            '{% from "flask_jobrunner/embed.html" import job_widget %}'
            "{{ job_widget(uuid, log=false, result=false) }}"
        )
    )
    uuid = add_job(host.runtime, "running")
    url = poll_url(shown(host, uuid))
    add_lines(host.runtime, uuid, ["a line to leave out"])
    end(host.runtime, uuid, result_json='{"rows": 3}')

    body = ask(host, url).text

    assert "Succeeded" in body
    assert "a line to leave out" not in body
    assert "rows" not in body


def test_a_poll_brings_what_is_new_once_and_ends(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    url = poll_url(shown(host, uuid))
    assert (ask(host, url).status_code, ask(host, url).data) == (204, b"")

    add_lines(host.runtime, uuid, ["two"])
    body = ask(host, url).text
    assert "two" in body
    assert "one</span>" not in body
    change(host.runtime, uuid, progress_done=1, progress_total=2)
    url = poll_url(body)
    body = ask(host, url).text
    assert "50%" in body
    end(host.runtime, uuid)
    body = ask(host, poll_url(body)).text
    assert "Succeeded" in body
    assert "data-jr-poll" not in body


def test_more_lines_than_it_keeps_are_left_to_the_page_of_the_job(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = poll_url(shown(host, uuid))
    add_lines(host.runtime, uuid, [f"line {n}." for n in range(TAIL * 3)])

    body = ask(host, url).text

    assert body.count("line ") == TAIL
    assert f"line {TAIL * 3 - 1}." in body
    assert ask(host, poll_url(body)).status_code == 204


def test_lines_that_were_removed_are_not_waited_for(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded", log_seq=70)

    assert f"/jobs/{uuid}/embed" not in shown(host, uuid)


def test_a_poll_without_a_cursor_brings_the_whole_widget(host: Host) -> None:
    uuid = add_job(host.runtime, "running", title="Fetched")
    add_lines(host.runtime, uuid, ["one"])

    answer = ask(host, f"/jobs/{uuid}/embed")

    assert "Fetched" in answer.text
    assert "one" in answer.text
    assert host.poll(f"/jobs/{uuid}/embed").text.count("<jr-live") == 1


@pytest.mark.parametrize(("path", "to"), [("{}/embed?c=3", "{}"), ("_mine", "")])
def test_a_fragment_that_is_opened_leads_to_a_page(host: Host, path: str, to: str) -> None:
    uuid = add_job(host.runtime, "running")

    answer = host.get(f"/{path.format(uuid)}")

    assert (answer.status_code, answer.location) == (303, f"/jobs/{to.format(uuid)}")


@pytest.mark.parametrize("query", ["c=x", "c=1&v=x", "c=1&p=%00", "c=1&log=x", "c=1&q=-1"])
def test_what_no_widget_sends_is_refused(host: Host, query: str) -> None:
    answer = ask(host, f"/jobs/{add_job(host.runtime, 'running')}/embed?{query}")

    assert (answer.status_code, answer.data) == (400, b"")


def test_the_parameters_of_the_page_itself_are_not_ours(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    body = host.client().get(f"/report/{uuid}?v=x&c=y&n=z&log=no").text

    assert "Running" in body
    assert f"next=/report/{uuid}?v%3Dx%26c%3Dy%26n%3Dz%26log%3Dno" in html.unescape(body)


def test_my_jobs_are_those_of_the_owner_newest_first(host: Host) -> None:
    two_people(host)
    for number in range(12):
        add_job(host.runtime, "running", owner="anna", title=f"Anna's {number}.")
    add_job(host.runtime, "running", owner="ANNA", title="Another name")

    body = shown(host, MISSING, headers={"X-User": "anna"})

    titles = re.findall(r"Anna&#39;s (\d+)\.", body)
    assert titles == [str(number) for number in range(11, 1, -1)]
    assert "Another name" not in body


def test_a_list_of_mine_changes_by_polls(host: Host) -> None:
    two_people(host)
    uuid = add_job(host.runtime, "running", owner="anna", title="Mine")
    body = shown(host, MISSING, headers={"X-User": "anna"})
    url = poll_url(body)
    assert ask(host, url, **{"X-User": "anna"}).status_code == 204

    end(host.runtime, uuid)
    body = ask(host, url, **{"X-User": "anna"}).text

    assert "Succeeded" in body
    assert 'data-jr-seconds="30"' in body


def test_elements_are_closed_and_there_are_no_ids(host: Host) -> None:
    host.jobs.actor(lambda: "anna")
    for status in ("queued", "running", "succeeded", "failed"):
        uuid = add_job(host.runtime, status, owner="anna", progress_done=1, progress_total=2)
        add_lines(host.runtime, uuid, ["one"])
        for body in (ask(host, f"/jobs/{uuid}/embed").text, ask(host, "/jobs/_mine").text):
            page = outline(body)
            assert (page.wrong, page.open, page.ids) == ([], [], [])
            assert not re.search(r"\sstyle=|\son\w+=|<script", body)


def test_a_widget_answers_a_database_that_is_locked_with_503(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flask_jobrunner import LockBusy

    def busy(*_: Any) -> Any:
        raise LockBusy("locked")

    uuid = add_job(host.runtime, "running")
    monkeypatch.setattr(host.runtime.jobs, "owned", busy)

    answer: Response = ask(host, f"/jobs/{uuid}/embed?c=0")

    assert (answer.status_code, answer.data) == (503, b"")
    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert answer.headers["Retry-After"]


def test_a_widget_says_how_long_its_type_usually_takes(host: Host) -> None:
    for _ in range(3):
        add_job(host.runtime, "succeeded", ran=250.0)
    uuid = add_job(host.runtime, "running", age=20.0)
    body = shown(host, uuid)
    assert "Usually takes 4 min 10 s." in body

    change(host.runtime, uuid, progress_done=1, progress_total=4)
    assert "Usually takes 4 min 10 s." in ask(host, poll_url(body)).text
    end(host.runtime, uuid)
    assert "Usually takes" not in shown(host, uuid)
