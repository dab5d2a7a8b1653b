"""The supervisors' page, and what a waiting job's page says about them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from flask_jobrunner.dashboard.access import viewer
from flask_jobrunner.dashboard.supervisor_page import supervisor_page
from flask_jobrunner.protocol import identity
from flask_jobrunner.repositories.supervisors import NewSupervisor
from flask_jobrunner.runtime import package_version
from tests.dashboard.hosts import ELSEWHERE, Host, MakeHost
from tests.dashboard.seeding import SECOND, add_job, change

NOBODY = "Nobody takes this job."
PULLED: dict[str, Any] = {
    "claim_mode": "trusted",
    "claim_deadline": None,
    "worker_token_hash": None,
}


def add_supervisor(host: Host, uuid: str = "s1", *, silent: float = 0.0, **values: Any) -> str:
    """A supervisor's row; `silent` for so many seconds."""
    defaults: dict[str, Any] = {
        "process": identity.this_process(),
        "types": (),
        "slots": 2,
        "standby": 0,
        "revision": None,
        "version": "0.1.0",
    }
    host.runtime.supervisors.add(NewSupervisor(uuid=uuid, **defaults | values))
    set_supervisor(host, uuid, heartbeat_at=host.runtime.database.clock() - round(silent * SECOND))
    return uuid


def set_supervisor(host: Host, uuid: str, **columns: Any) -> None:
    table = host.runtime.database.tables.supervisors
    statement = sa.update(table).where(table.c.supervisor_uuid == uuid).values(**columns)
    host.runtime.database.run(lambda connection: connection.execute(statement))


def pulled(host: Host, **columns: Any) -> str:
    return add_job(host.runtime, "queued", **PULLED | columns)


def test_without_any_it_says_how_to_run_one(host: Host) -> None:
    page = host.get("/supervisors").text

    assert "No supervisor is running" in page
    assert "flask --app shop:create_app jobs work" in page
    assert "ExecStart=" in page
    assert "TimeoutStopSec=45" in page
    assert "CMD [" in page
    assert "Nothing waits." in page


def test_a_supervisor_with_what_it_runs(host: Host) -> None:
    add_supervisor(host, types=("reports.*", "mail"), slots=3)
    add_job(host.runtime, "running", title="Build <it>", dispatch_by="s1", claim_mode="trusted")
    add_job(host.runtime, "running", title="Pushed")
    page = host.get("/supervisors").text

    assert "Working" in page
    assert "1 of 3 used" in page
    assert "reports.*, mail" in page
    assert re.search(r'<span data-since="\d+">5\d s</span>|data-since="\d+">1 min', page)
    assert "Last sign of life</dt><dd>less than 13 s ago" in page
    assert "Standby" not in page
    assert "Build &lt;it&gt;" in page
    assert "Pushed" not in page


def test_how_many_processes_stand_by(host: Host) -> None:
    add_supervisor(host, "s1", standby=0)
    assert "Standing by" not in host.get("/supervisors").text
    add_supervisor(host, "s2", standby=1)
    assert "1 process, already built" in host.get("/supervisors").text
    add_supervisor(host, "s3", standby=3)
    assert "3 processes, already built" in host.get("/supervisors").text


def test_a_job_on_its_way_takes_its_slot_already(host: Host) -> None:
    add_supervisor(host)
    until = host.runtime.database.clock() + 30 * SECOND
    uuid = pulled(host, title="Begins", dispatch_by="s1", dispatch_until=until)
    pulled(host, title="Late", dispatch_by="s1", dispatch_until=until - 60 * SECOND)
    page = host.get("/supervisors").text

    assert "1 of 2 used" in page
    assert uuid in page
    assert "Begins" in page
    assert "Late" not in page


def test_its_state_is_a_word(host: Host) -> None:
    states = {
        "working": (0, None),
        "stopping": (0, 1),
        "late": (13, None),
        "gone": (3600, None),
    }
    for name, (silent, drain) in states.items():
        add_supervisor(host, name, silent=silent)
        set_supervisor(host, name, drain_requested_at=drain)
    page = host.get("/supervisors").text

    found = re.findall(r'<span class="jr-chip [^>]*><svg.*?</svg>(\w[\w ]*)</span>', page)
    assert found == ["Working", "Stopping", "Late", "Not seen"]
    assert "no sign of life for 10 s" in page
    assert re.search(r"At \d\d:\d\d:\d\d UTC it counts as gone", page)
    assert "finish by themselves" in page
    assert re.search(r"removes this entry, at \d\d:\d\d:\d\d UTC at the latest", page)


def test_another_revision_than_that_of_the_page_is_told(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_REVISION="r2")
    add_supervisor(host, revision="r1", version="0.0.9")
    page = host.get("/supervisors").text

    assert "This web process has the revision r2." in page
    assert f"This web process has flask_jobrunner {package_version()}." in page
    set_supervisor(host, "s1", revision="r2", version=package_version())
    assert "This web process has" not in host.get("/supervisors").text


def test_standby_and_what_waits_longest_for_it(host: Host) -> None:
    add_supervisor(host, standby=2, types=("mail.*",))
    pulled(host, job_type="other", age=7200)
    assert "Oldest that waits" not in host.get("/supervisors").text
    pulled(host, job_type="mail.send", age=3600)
    pulled(host, job_type="mail.send", age=60)
    page = host.get("/supervisors").text
    host.runtime.drains.drain("s1", host.runtime.supervisors.all()[0].process, "ann")
    drained = host.get("/supervisors").text
    assert "Oldest that waits" not in drained
    assert "already built" not in drained

    assert "<dt>Standing by</dt><dd>2 processes, already built</dd>" in page
    assert re.search(r"Oldest that waits</dt><dd><span data-since=\"\d+\">1 h 00 min", page)


def test_what_only_ticks_brings_no_poll(host: Host) -> None:
    add_supervisor(host)
    uuid = add_job(host.runtime, "running", dispatch_by="s1", claim_mode="trusted")
    found = re.search(r'hx-get="([^"]*_supervisors[^"]*)"', host.get("/supervisors").text)
    assert found is not None
    set_supervisor(host, "s1", heartbeat_at=host.runtime.database.clock())
    assert host.poll(found[1]).status_code == 204
    later = datetime.now(UTC) + timedelta(minutes=1)
    with host.app.test_request_context("/jobs/supervisors", environ_base=ELSEWHERE):
        assert supervisor_page(viewer(), later).tag in found[1]

    change(host.runtime, uuid, started_at=1)
    assert host.poll(found[1]).status_code == 200


def test_the_queue_by_type_and_revision(host: Host) -> None:
    add_supervisor(host, types=("reports.*",))
    for _ in range(3):
        pulled(host, job_type="reports.build")
    pulled(host, job_type="mail.send")
    pulled(host, job_type="reports.build", revision="r9")
    pulled(host, job_type="later.on", not_before=2**60)
    page = re.sub(r"<[^>]+>", "", host.get("/supervisors").text)

    assert re.search(r"3\s*reports.build, the oldest since", page)
    assert re.search(r"1\s*mail.send, .*takes jobs of the type mail.send", page)
    assert re.search(r"1\s*reports.build of revision r9.*was made for revision r9", page)
    assert "later.on" not in page


def test_a_poll_brings_it_again_when_something_changed(host: Host) -> None:
    add_supervisor(host)
    url = re.search(r'hx-get="([^"]*_supervisors[^"]*)"', host.get("/supervisors").text)
    assert url is not None

    assert host.poll(url[1]).status_code == 204
    set_supervisor(host, "s1", drain_requested_at=1)
    answer = host.poll(url[1])
    assert answer.status_code == 200
    assert 'id="jr-supervisors" hx-swap-oob="true"' in answer.text
    assert "Stopping" in answer.text
    assert host.client().get(url[1]).location == "/jobs/supervisors"


def test_the_link_is_there_for_those_who_may(make_host: MakeHost) -> None:
    link = 'href="/jobs/supervisors"'
    assert link in make_host().get().text
    allowed = make_host(authorize=lambda action, job: action != "view_supervisors")
    assert link not in allowed.get().text
    assert allowed.get("/supervisors").status_code == 403


def test_a_scope_hides_the_jobs_of_others(make_host: MakeHost) -> None:
    host = make_host()
    host.jobs.scope(lambda: "ben")
    add_supervisor(host)
    for owner in ("ben", "anna"):
        job: dict[str, Any] = {"owner": owner, "title": f"Of {owner}", "claim_mode": "trusted"}
        add_job(host.runtime, "running", dispatch_by="s1", **job)
        pulled(host, owner=owner, job_type=f"type.of.{owner}")
    page = host.get("/supervisors").text

    assert "Of ben" in page
    assert "type.of.ben" in page
    assert "anna" not in page
    assert "<dt>Slots</dt><dd>2</dd>" in page
    assert "used" not in page


# -- a job's page -------------------------------------------------------------------------------


def test_a_job_that_nobody_takes_says_why(host: Host) -> None:
    uuid = pulled(host, job_type="mail.send")
    assert NOBODY in host.get(f"/{uuid}").text
    assert "No supervisor is running" in host.get(f"/{uuid}").text

    add_supervisor(host, "gone", silent=3600)
    assert "No supervisor is running" in host.get(f"/{uuid}").text
    add_supervisor(host, "stopping", types=("mail.*",))
    assert "No supervisor is running" not in host.get(f"/{uuid}").text
    set_supervisor(host, "stopping", drain_requested_at=1)
    assert "take no more jobs" in host.get(f"/{uuid}").text

    add_supervisor(host, "other", types=("reports.*",))
    assert "takes jobs of the type mail.send" in host.get(f"/{uuid}").text
    add_supervisor(host, "mine", types=("mail.*",))
    assert NOBODY not in host.get(f"/{uuid}").text


def test_a_pushed_job_and_one_on_its_way_have_nothing_to_say_about_supervisors(
    host: Host,
) -> None:
    later = host.runtime.database.clock() + 60 * SECOND
    jobs = [
        add_job(host.runtime, "queued"),
        pulled(host, dispatch_until=later),
        add_job(host.runtime, "running", claim_mode="trusted"),
    ]

    assert all(NOBODY not in host.get(f"/{uuid}").text for uuid in jobs)


def test_a_poll_brings_the_notice_and_takes_it_away(host: Host) -> None:
    uuid = pulled(host)
    url = re.search(r'hx-get="([^"]*_live[^"]*)"', host.get(f"/{uuid}").text)
    assert url is not None
    url_now = url[1].replace("&amp;", "&")
    assert host.poll(url_now).status_code == 204

    add_supervisor(host)
    answer = host.poll(url_now)
    assert answer.status_code == 200
    assert 'id="jr-notices"' in answer.text
    assert NOBODY not in answer.text


def test_a_job_of_another_revision_can_be_admitted_under_this_one(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_REVISION="r2")
    host.jobs.handler("reports.build")(lambda ctx: None)
    add_supervisor(host, revision="r2")
    old, mine = pulled(host, revision="r1"), pulled(host, revision="r2")
    page = host.get(f"/{old}").text

    assert "was made for revision r1" in page
    assert "Requeue job" in page
    assert "Requeue job" not in host.get(f"/{mine}").text
    assert "waits on" in host.get(f"/{old}/requeue").text
    headers = {"Sec-Fetch-Site": "same-origin"}
    assert host.client().post(f"/jobs/{mine}/requeue", headers=headers).status_code == 409
    done = host.client().post(f"/jobs/{old}/requeue", headers=headers)
    assert done.status_code == 303
    after = host.client().get(done.location).text
    assert "Job requeued" in after
    assert NOBODY not in after
    owned = host.runtime.jobs.owned(old)
    assert owned is not None
    assert (owned.revision, owned.job.attempt) == ("r2", 2)
