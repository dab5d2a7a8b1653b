"""One deed on all that match: counted before, asked of each, told after."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flask_jobrunner.caller import cancel as cancelling
from flask_jobrunner.dashboard import bulk
from flask_jobrunner.model.errors import DatabaseAway
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, change
from tests.dashboard.test_actions import post, status_of, text_of


def until_of(page: str) -> str:
    found = re.search(r'name="until" value="(\d+)"', page)
    assert found is not None
    return found[1]


def act(host: Host, path: str) -> Any:
    """Ask, and say yes."""
    return post(host, path, until=until_of(host.get(path).text))


def test_the_number_is_said_and_every_one_of_them_is_cancelled(host: Host) -> None:
    host.jobs.actor(lambda: "carla")
    waiting = [add_job(host.runtime, "queued") for _ in range(3)]
    running, over = add_job(host.runtime, "running"), add_job(host.runtime, "failed")

    assert "Cancel 4 jobs?" in text_of(host.get("/bulk/cancel"))
    answer = act(host, "/bulk/cancel")

    assert answer.status_code == 200
    assert "Cancelled 4 jobs" in text_of(answer)
    assert [status_of(host, uuid) for uuid in waiting] == ["cancelled"] * 3
    assert status_of(host, running) == "cancel_requested"
    assert status_of(host, over) == "failed"
    job = host.runtime.jobs.get(running)
    assert job is not None
    assert host.runtime.events.of(job.id)[-1].actor == "carla"


def test_what_came_after_the_question_is_left_alone(host: Host) -> None:
    first = add_job(host.runtime, "queued")
    until = until_of(host.get("/bulk/cancel").text)
    later = add_job(host.runtime, "queued")

    assert "Cancelled 1 job" in text_of(post(host, "/bulk/cancel", until=until))
    assert (status_of(host, first), status_of(host, later)) == ("cancelled", "queued")


@pytest.mark.parametrize("until", ["", "x", "-1"])
def test_an_answer_without_its_question_does_nothing(host: Host, until: str) -> None:
    uuid = add_job(host.runtime, "queued")

    assert post(host, "/bulk/cancel", until=until).status_code == 400
    assert status_of(host, uuid) == "queued"


def test_a_state_narrows_it(host: Host) -> None:
    waiting, running = add_job(host.runtime, "queued"), add_job(host.runtime, "running")

    act(host, "/bulk/cancel?status=running")

    assert (status_of(host, waiting), status_of(host, running)) == ("queued", "cancel_requested")
    # A state that cannot be cancelled matches nothing, and everything by no means.
    assert host.get("/bulk/cancel?status=failed").status_code == 409


def test_jobs_that_one_may_not_see_or_act_on_are_neither_counted_nor_touched(
    make_host: MakeHost,
) -> None:
    host = make_host(authorize=lambda action, job: job is None or job.title != f"not to {action}")
    host.jobs.scope(lambda: "ben")
    mine = add_job(host.runtime, "queued", owner="ben")
    kept = [
        add_job(host.runtime, "queued", owner="ben", title="not to cancel"),
        add_job(host.runtime, "queued", owner="ben", title="not to view_job"),
        add_job(host.runtime, "queued", owner="anna"),
    ]

    assert "Cancel 1 job?" in text_of(host.get("/bulk/cancel"))
    act(host, "/bulk/cancel")

    assert status_of(host, mine) == "cancelled"
    assert [status_of(host, uuid) for uuid in kept] == ["queued"] * 3


def test_pulled_jobs_run_again_and_pushed_ones_a_few_at_a_time(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.jobs.handler("import")(print)
    pulled = [
        add_job(host.runtime, "failed", claim_mode="trusted", job_type="import") for _ in range(3)
    ]
    monkeypatch.setattr(bulk, "PUSHED_AT_ONCE", 0)
    pushed = add_job(host.runtime, "interrupted", job_type="import")

    text = text_of(act(host, "/bulk/requeue"))

    assert "Requeued 3 jobs" in text
    assert "1 job were left alone" not in text
    assert "1 job was left alone" in text
    assert [status_of(host, uuid) for uuid in pulled] == ["queued"] * 3
    assert status_of(host, pushed) == "interrupted"


def test_a_type_that_is_not_registered_is_counted_as_refused(host: Host) -> None:
    add_job(host.runtime, "failed", claim_mode="trusted", job_type="gone")

    text = text_of(act(host, "/bulk/requeue"))

    assert "Requeued 0 jobs" in text
    assert "1 job could not be meant" in text


def test_more_than_the_limit_is_said_before_and_after(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    jobs = [add_job(host.runtime, "queued") for _ in range(3)]

    assert "do it again for the rest" in text_of(host.get("/bulk/cancel"))
    assert "do it again for the rest" in text_of(act(host, "/bulk/cancel"))
    assert [status_of(host, uuid) for uuid in jobs].count("cancelled") == 2


def test_a_database_that_goes_away_meanwhile_is_told_with_what_was_done(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        add_job(host.runtime, "queued")
    real, done = cancelling.cancel, list[object]()

    def once(*arguments: Any, **options: Any) -> Any:
        if done:
            raise DatabaseAway("gone")
        done.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(cancelling, "cancel", once)
    text = text_of(act(host, "/bulk/cancel"))

    assert "Cancelled 1 job" in text
    assert "The database did not answer any more." in text


def test_what_waited_is_not_stopped_where_it_has_begun_meanwhile(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [add_job(host.runtime, "queued") for _ in range(2)]
    real = cancelling.cancel

    def while_the_other_begins(runtime: Any, uuid: str, **options: Any) -> Any:
        monkeypatch.setattr(cancelling, "cancel", real)
        (other,) = {*jobs} - {uuid}
        change(host.runtime, other, status="running")
        return real(runtime, uuid, **options)

    monkeypatch.setattr(cancelling, "cancel", while_the_other_begins)
    text = text_of(act(host, "/bulk/cancel?status=queued"))

    assert "Cancelled 1 job" in text
    assert "1 job could not be meant any more" in text
    assert sorted(str(status_of(host, uuid)) for uuid in jobs) == ["cancelled", "running"]


def test_the_list_of_a_state_leads_there(make_host: MakeHost) -> None:
    host = make_host(authorize=lambda action, job: action != "requeue")
    for status in ("queued", "failed", "succeeded"):
        add_job(host.runtime, status)

    assert "/jobs/bulk/cancel?status=queued" in host.get("/?status=queued").text
    assert "/bulk/" not in host.get("/?status=failed").text  # it may not be done
    assert "/bulk/" not in host.get("/?status=succeeded").text
    assert "/bulk/" not in host.get().text
