"""A GET asks, a POST acts and leads back; what came too late is told, not hidden."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from flask_jobrunner.caller import requeue as requeueing
from flask_jobrunner.model.errors import DatabaseAway, LockBusy, UnknownJobType
from flask_jobrunner.model.results import RequeueResult
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job

OURS = {"Sec-Fetch-Site": "same-origin"}


def post(host: Host, path: str, **data: str) -> Any:
    return host.client().post(f"/jobs{path}", headers=OURS, data=data)


def text_of(answer: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def status_of(host: Host, uuid: str) -> str:
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    return job.status


def test_the_confirm_page_says_what_will_happen(host: Host) -> None:
    text = text_of(host.get(f"/{add_job(host.runtime, 'running', title='Import')}/cancel"))

    assert "Cancel this job?" in text
    assert "Running Import" in text
    assert "The job is asked to stop at its next checkpoint. Work already done is kept." in text
    assert "Cancel job Keep running" in text


def test_a_queued_job_is_cancelled_at_once_and_the_page_says_so_before(host: Host) -> None:
    uuid = add_job(host.runtime, "queued")
    assert "It ends as cancelled at once" in text_of(host.get(f"/{uuid}/cancel"))

    answer = post(host, f"/{uuid}/cancel")

    assert answer.status_code == 303
    assert answer.location == f"/jobs/{uuid}?did=cancel"
    assert status_of(host, uuid) == "cancelled"
    assert "Job cancelled" in text_of(host.get(f"/{uuid}?did=cancel"))


def test_cancelling_a_running_job_records_who_asked(host: Host) -> None:
    host.jobs.actor(lambda: "carla")
    uuid = add_job(host.runtime, "running")

    answer = post(host, f"/{uuid}/cancel")

    assert status_of(host, uuid) == "cancel_requested"
    assert "Cancel requested by carla" in text_of(host.get(answer.location.removeprefix("/jobs")))


def test_asking_twice_is_no_error(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    assert post(host, f"/{uuid}/cancel").status_code == 303
    assert post(host, f"/{uuid}/cancel").status_code == 303


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_job_that_finished_first_is_a_conflict_with_its_state(host: Host, method: str) -> None:
    uuid = add_job(host.runtime, "succeeded")

    answer = post(host, f"/{uuid}/cancel") if method == "post" else host.get(f"/{uuid}/cancel")

    assert answer.status_code == 409
    assert "The job finished before it could be cancelled" in text_of(answer)
    assert "Succeeded" in text_of(answer)


def test_a_get_never_acts(host: Host) -> None:
    running, failed = add_job(host.runtime, "running"), add_job(host.runtime, "failed")
    host.get(f"/{running}/cancel")
    host.get(f"/{failed}/requeue")

    assert status_of(host, running) == "running"
    assert status_of(host, failed) == "failed"


@pytest.mark.parametrize("method", ["put", "delete", "patch"])
def test_other_methods_are_refused(host: Host, method: str) -> None:
    uuid = add_job(host.runtime, "running")

    answer = getattr(host.client(), method)(f"/jobs/{uuid}/cancel", headers=OURS)

    assert answer.status_code == 405


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[dict[str, Any]]:
    """Let requeue answer without starting a process; returns what it was asked."""
    asked: list[dict[str, Any]] = []

    def requeue(runtime: Any, ref: Any, **options: Any) -> Any:
        asked.append({"ref": ref, **options})
        if isinstance(answer, Exception):
            raise answer
        return RequeueResult(status=answer, job=runtime.jobs.get(ref))

    monkeypatch.setattr(requeueing, "requeue", requeue)
    return asked


@pytest.mark.parametrize("status", ["failed", "cancelled", "interrupted"])
@pytest.mark.parametrize("answer", ["launching", "started", "launch_failed"])
def test_requeue_leads_back_to_the_job_without_waiting(
    host: Host, monkeypatch: pytest.MonkeyPatch, status: str, answer: str
) -> None:
    asked = answering(monkeypatch, answer)
    host.jobs.actor(lambda: "carla")
    uuid = add_job(host.runtime, status)
    assert "Runs again" not in host.get(f"/{uuid}").text
    assert "as a new attempt with the same input" in text_of(host.get(f"/{uuid}/requeue"))

    reply = post(host, f"/{uuid}/requeue")

    assert reply.status_code == 303
    assert reply.location == f"/jobs/{uuid}?did=requeue"
    assert asked == [{"ref": uuid, "actor": "carla", "confirm_lost": False, "wait": False}]


def test_a_lost_job_needs_the_box_to_be_ticked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, "launching")
    uuid = add_job(host.runtime, "lost")
    page = host.get(f"/{uuid}/requeue")
    assert 'name="confirm_lost" value="1" required' in page.text
    assert "may still be working" in text_of(page)

    refused = post(host, f"/{uuid}/requeue")
    assert refused.status_code == 422
    assert "Tick the box first." in text_of(refused)
    assert asked == []

    assert post(host, f"/{uuid}/requeue", confirm_lost="1").status_code == 303
    assert asked[0]["confirm_lost"] is True


@pytest.mark.parametrize("status", ["queued", "running", "succeeded"])
def test_what_cannot_be_requeued_is_a_conflict(host: Host, status: str) -> None:
    answer = host.get(f"/{add_job(host.runtime, status)}/requeue")

    assert answer.status_code == 409
    assert "cannot be requeued now" in text_of(answer)


def test_a_taken_lock_is_a_conflict_that_names_nobody(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host()
    answering(monkeypatch, "already_active")
    uuid = add_job(host.runtime, "failed", title="Mine")

    answer = post(host, f"/{uuid}/requeue")

    assert answer.status_code == 409
    assert "The lock is taken" in text_of(answer)
    assert "Mine" in text_of(answer)


def test_a_type_that_is_not_registered_any_more_is_told(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, UnknownJobType("No handler is registered for 'x'."))

    answer = post(host, f"/{add_job(host.runtime, 'failed')}/requeue")

    assert answer.status_code == 409
    assert "No handler is registered" in text_of(answer)


@pytest.mark.parametrize("error", [LockBusy("locked"), DatabaseAway("gone")])
@pytest.mark.parametrize("path", ["/", "/{uuid}", "/{uuid}/log", "/{uuid}/cancel"])
def test_a_database_that_does_not_answer_is_a_503_in_the_frame(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception, path: str
) -> None:
    uuid = add_job(host.runtime, "running")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(type(host.runtime.jobs), "owned", fail)
    monkeypatch.setattr(type(host.runtime.listing), "find", fail)

    answer = host.get(path.format(uuid=uuid))

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert "The database does not answer" in text_of(answer)
    assert "Traceback" not in answer.text
    assert "Try again" in answer.text


def test_a_poll_of_a_database_that_does_not_answer_is_a_bare_503(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = add_job(host.runtime, "running")

    def fail(*_: Any, **__: Any) -> None:
        raise LockBusy("locked")

    monkeypatch.setattr(type(host.runtime.jobs), "owned", fail)

    answer = host.poll(f"/jobs/{uuid}/_live?c=0")

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert answer.data == b""
