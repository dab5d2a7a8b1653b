"""What a page is in each state that is not the usual one: one line for each."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, end

GONE = "01a22706-15d6-7a3d-b858-606442022120"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


def text(answer: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def in_the_frame(answer: Any) -> bool:
    """Whether the answer is a page of ours, with a way out and no trace of code."""
    whole = "jr-brand" in answer.text and "jr-foot" in answer.text and "jr-keys" in answer.text
    return whole and "Traceback" not in answer.text


def test_a_job_that_is_gone(host: Host) -> None:
    answer = host.get(f"/{GONE}")

    assert answer.status_code == 404
    assert in_the_frame(answer)
    assert "This job was deleted, or never existed" in text(answer)
    assert 'href="/jobs/">To the list of jobs</a>' in answer.text


@pytest.mark.parametrize("error", [LockBusy("locked"), DatabaseAway("gone")])
@pytest.mark.parametrize("path", ["/", "/types", "/supervisors", "/prefs"])
def test_a_database_that_does_not_even_tell_its_time(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception, path: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(type(host.runtime.supervisors), "pulse", fail)

    answer = host.get(path)

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert in_the_frame(answer)
    assert "Try again" in text(answer)


@pytest.mark.parametrize(
    ("action", "path", "told"),
    [
        ("cancel", "/{uuid}/cancel", "You may not cancel this job."),
        ("view_supervisors", "/supervisors", "You may not see the supervisors."),
        ("view_list", "/types", "You may not see the list of jobs."),
    ],
)
def test_what_is_forbidden_is_named(make_host: MakeHost, action: str, path: str, told: str) -> None:
    host = make_host(authorize=lambda asked, job: asked != action)
    uuid = add_job(host.runtime, "running")

    answer = host.get(path.format(uuid=uuid))

    assert answer.status_code == 403
    assert in_the_frame(answer)
    assert told in text(answer)


def test_who_may_only_read_is_told_and_offered_nothing(make_host: MakeHost) -> None:
    host = make_host(authorize=lambda action, job: action.startswith("view_"))
    page = host.get(f"/{add_job(host.runtime, 'running')}")

    assert "You have read-only access" in text(page)
    assert "jr-button jr-quiet-danger" not in page.text


def test_a_deed_that_comes_too_late_is_shown_with_the_state_of_now(host: Host) -> None:
    uuid = add_job(host.runtime, "running", title="Import orders")
    end(host.runtime, uuid)

    answer = host.client().post(f"/jobs/{uuid}/cancel", headers=SAME_ORIGIN)

    assert answer.status_code == 409
    assert in_the_frame(answer)
    assert "The job finished before it could be cancelled Succeeded Import orders" in text(answer)
    assert f'href="/jobs/{uuid}">To the job</a>' in answer.text


def test_without_a_script_a_page_that_changes_offers_a_reload(host: Host) -> None:
    running, over = add_job(host.runtime, "running"), add_job(host.runtime, "succeeded")

    for path in ("/", "/supervisors", f"/{running}"):
        assert "Reload to update</a></noscript>" in host.get(path).text, path
    assert "Reload to update" not in host.get(f"/{over}").text
