"""Forced stops and running again: only where the app allows them, and only when it is time."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flask_jobrunner.caller import again as repeating
from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.repositories.listing import JobFilter
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import SECOND, add_job, change
from tests.dashboard.test_actions import post, status_of, text_of


@pytest.fixture
def forcing(make_host: MakeHost) -> Host:
    """A host that offers forced stops."""
    return make_host(JOBRUNNER_FORCE_STOP=True)


def asked_to_stop(host: Host, seconds: float) -> str:
    """A running job that was asked so long ago."""
    uuid = add_job(host.runtime, "cancel_requested")
    now = host.runtime.database.clock()
    change(host.runtime, uuid, cancel_requested_at=now - round(seconds * SECOND))
    return uuid


def test_a_forced_stop_is_not_offered_unless_the_app_wants_it(host: Host) -> None:
    uuid = asked_to_stop(host, 3600)

    assert "Force stop" not in host.get(f"/{uuid}").text
    answer = post(host, f"/{uuid}/force-stop")
    assert answer.status_code == 409
    assert "flask jobs cancel --force" in text_of(answer)
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    assert job.stop_reason is None


def test_it_is_offered_once_the_job_had_its_time(forcing: Host) -> None:
    early, late = asked_to_stop(forcing, 5), asked_to_stop(forcing, 11)

    assert "Force stop" not in forcing.get(f"/{early}").text
    assert post(forcing, f"/{early}/force-stop").status_code == 409
    assert "Force stop" in forcing.get(f"/{late}").text


def test_an_open_page_is_told_when_it_is_time(forcing: Host) -> None:
    uuid = asked_to_stop(forcing, 5)
    page = forcing.get(f"/{uuid}").text
    found = re.search(r'hx-get="([^"]*/_live[^"]*)"', page)
    assert found is not None
    jobs = forcing.runtime.database.tables.jobs
    statement = jobs.update().where(jobs.c.job_uuid == uuid).values(cancel_requested_at=1)
    forcing.runtime.database.run(lambda connection: connection.execute(statement))

    assert "Force stop" in forcing.poll(found[1].replace("&amp;", "&")).text


def test_a_forced_stop_is_recorded_with_who_asked(forcing: Host) -> None:
    forcing.jobs.actor(lambda: "carla")
    uuid = asked_to_stop(forcing, 60)
    assert "The process is killed" in text_of(forcing.get(f"/{uuid}/force-stop"))

    answer = post(forcing, f"/{uuid}/force-stop")

    assert answer.status_code == 303
    job = forcing.runtime.jobs.get(uuid)
    assert job is not None
    assert (job.status, job.stop_reason) == ("cancel_requested", "force")
    page = text_of(forcing.get(answer.location.removeprefix("/jobs")))
    assert "Forced to stop by carla" in page
    assert post(forcing, f"/{uuid}/force-stop").status_code == 409


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed", "interrupted"])
def test_other_states_cannot_be_forced(forcing: Host, status: str) -> None:
    uuid = add_job(forcing.runtime, status)

    assert post(forcing, f"/{uuid}/force-stop").status_code == 409
    assert status_of(forcing, uuid) == status


def test_a_lost_job_is_closed_once_the_box_is_ticked(forcing: Host) -> None:
    uuid = add_job(forcing.runtime, "lost")
    assert "Close job" in forcing.get(f"/{uuid}").text

    assert post(forcing, f"/{uuid}/force-stop").status_code == 422
    assert status_of(forcing, uuid) == "lost"
    answer = post(forcing, f"/{uuid}/force-stop", confirm_lost="1")

    assert status_of(forcing, uuid) == "cancelled"
    assert "Job closed" in text_of(forcing.get(answer.location.removeprefix("/jobs")))


def repeatable(host: Host, **values: Any) -> str:
    host.jobs.handler("import", manual=True)(print)
    wanted = {"job_type": "import", "claim_mode": "trusted", "payload": {"rows": 3}}
    return add_job(host.runtime, "succeeded", **wanted | values)


def test_a_manual_type_runs_again_with_the_same_payload(host: Host) -> None:
    host.jobs.actor(lambda: "carla")
    uuid = repeatable(host, owner="ben", reference="r1", title="Import", priority=7)
    assert "Run again" in host.get(f"/{uuid}").text
    assert "with the same input" in text_of(host.get(f"/{uuid}/again"))

    answer = post(host, f"/{uuid}/again")

    assert answer.status_code == 303
    made = host.runtime.jobs.get(answer.location.rpartition("/")[2])
    assert made is not None
    assert made.uuid != uuid
    assert (made.status, made.job_type, made.payload) == ("queued", "import", {"rows": 3})
    assert (made.owner, made.reference, made.title, made.priority) == ("ben", "r1", "Import", 7)
    assert made.actor == "carla"
    assert status_of(host, uuid) == "succeeded"


def test_a_lock_that_is_taken_is_a_conflict_that_leads_to_its_holder(host: Host) -> None:
    uuid = repeatable(host, lock_key="k")
    with host.app.app_context():
        holder = host.jobs.enqueue("import", lock_key="k").job

    answer = post(host, f"/{uuid}/again")

    assert answer.status_code == 409
    assert f'held by <a href="/jobs/{holder.uuid}">' in answer.text


def test_only_manual_types_and_only_what_has_ended(host: Host) -> None:
    host.jobs.handler("other")(print)
    other = add_job(host.runtime, "succeeded", job_type="other")
    waiting = repeatable(host)
    change(host.runtime, waiting, status="queued", finished_at=None)

    for uuid in (other, waiting, add_job(host.runtime, "failed", job_type="gone")):
        assert "Run again" not in host.get(f"/{uuid}").text
        assert post(host, f"/{uuid}/again").status_code == 409
    assert len(host.runtime.listing.find(JobFilter()).jobs) == 3


def test_a_pushed_job_is_started_without_waiting(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid, asked = repeatable(host, claim_mode="token"), list[dict[str, Any]]()
    real = host.jobs.enqueue

    def start(_runtime: Any, job_type: str, payload: Any, **options: Any) -> Any:
        asked.append(options)
        return real(job_type, payload)

    monkeypatch.setattr(repeating, "start", start)

    assert post(host, f"/{uuid}/again").status_code == 303
    assert [options["wait"] for options in asked] == [False]


def test_manual_is_a_yes_or_a_no(host: Host) -> None:
    with pytest.raises(ConfigError, match="manual= must be True or False"):
        host.jobs.handler("x", manual="yes")  # type: ignore[arg-type]  # what is refused
