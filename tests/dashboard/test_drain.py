"""Drain and resume from the page: asked first, told after, refused where it makes no sense."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_actions import post, text_of
from tests.dashboard.test_supervisors import add_supervisor, set_supervisor


def is_drained(host: Host, uuid: str = "s1") -> bool:
    (row,) = [one for one in host.runtime.supervisors.all() if one.uuid == uuid]
    return row.drain_requested_at is not None


def chip(host: Host) -> str:
    found = re.search(r"jr-chip [^>]*><svg.*?</svg>(\w[\w ]*)<", host.get("/supervisors").text)
    assert found is not None
    return found[1]


def test_the_question_says_what_it_means_and_does_nothing(host: Host) -> None:
    add_supervisor(host)
    text = text_of(host.get("/supervisors/s1/drain"))

    assert "Drain this supervisor?" in text
    assert "those that run go on" in text
    assert "within about 5.0 s" in text
    assert "Drain supervisor Let it work" in text
    assert not is_drained(host)


def test_it_is_drained_shown_and_resumed_with_who_asked(host: Host) -> None:
    host.jobs.actor(lambda: "<ann>")
    add_supervisor(host)
    job = add_job(host.runtime, "running", dispatch_by="s1", claim_mode="trusted")
    assert ">Drain<" in host.get("/supervisors").text

    answer = post(host, "/supervisors/s1/drain")
    assert (answer.status_code, answer.location) == (303, "/jobs/supervisors?did=s1")
    assert is_drained(host)
    page = host.get("/supervisors?did=s1").text
    assert 'role="status"' in page
    assert page.count("Drain asked by &lt;ann&gt;, ") == 2
    assert chip(host) == "Draining"
    assert "What runs goes on." in page
    jobs = host.runtime.database.tables.jobs
    statement = jobs.update().where(jobs.c.job_uuid == job).values(dispatch_by="other")
    host.runtime.database.run(lambda connection: connection.execute(statement))
    assert chip(host) == "Drained"
    assert 'href="/jobs/supervisors/s1/drain?resume=1">Resume<' in page

    asked = host.get("/supervisors/s1/drain?resume=1")
    assert "Resume this supervisor?" in text_of(asked)
    assert 'name="resume" value="1"' in asked.text
    assert post(host, "/supervisors/s1/drain?resume=1", resume="1").status_code == 303
    assert not is_drained(host)
    assert chip(host) == "Working"
    assert "Resumed by &lt;ann&gt;, " in host.get("/supervisors").text


def test_asking_twice_is_no_error_and_no_second_event(host: Host) -> None:
    host.jobs.actor(lambda: "ann")
    add_supervisor(host)
    assert post(host, "/supervisors/s1/drain").status_code == 303
    before = host.runtime.drains.newest(["s1"])
    host.jobs.actor(lambda: "ben")

    assert post(host, "/supervisors/s1/drain").status_code == 303
    assert host.runtime.drains.newest(["s1"]) == before


@pytest.mark.parametrize("resume", [{}, {"resume": "1"}])
def test_one_that_ends_is_neither_drained_nor_resumed(host: Host, resume: dict[str, str]) -> None:
    add_supervisor(host)
    process = host.runtime.supervisors.all()[0].process
    host.runtime.drains.drain("s1", process, "ann")
    host.runtime.drains.stops("s1", process)

    assert chip(host) == "Stopping"
    assert "/drain" not in host.get("/supervisors").text
    assert post(host, "/supervisors/s1/drain", **resume).status_code == 409
    assert is_drained(host)


def test_one_that_is_gone_or_silent_is_not_found(host: Host) -> None:
    add_supervisor(host, "silent", silent=3600)

    for uuid in ("silent", "none"):
        for answer in (
            host.get(f"/supervisors/{uuid}/drain"),
            post(host, f"/supervisors/{uuid}/drain"),
        ):
            assert answer.status_code == 404
            assert "No such supervisor" in text_of(answer)
    assert not is_drained(host, "silent")
    assert "/drain" not in host.get("/supervisors").text


def test_a_late_one_can_be_drained(host: Host) -> None:
    add_supervisor(host, silent=13)
    assert ">Drain<" in host.get("/supervisors").text
    assert post(host, "/supervisors/s1/drain").status_code == 303


def test_it_is_offered_to_those_who_may(make_host: MakeHost) -> None:
    host = make_host(authorize=lambda action, job: action != "drain")
    add_supervisor(host)

    assert "/drain" not in host.get("/supervisors").text
    answer = post(host, "/supervisors/s1/drain")
    assert answer.status_code == 403
    assert "You may not drain and resume supervisors." in text_of(answer)
    assert not is_drained(host)


def test_an_open_page_is_told(host: Host) -> None:
    add_supervisor(host)
    found = re.search(r'hx-get="([^"]*_supervisors[^"]*)"', host.get("/supervisors").text)
    assert found is not None
    host.runtime.drains.drain("s1", host.runtime.supervisors.all()[0].process, "ann")

    answer = host.poll(found[1])
    assert answer.status_code == 200
    assert "Drained" in answer.text
    set_supervisor(host, "s1", drain_requested_at=None)
