"""The lock's holder is a link wherever the lock is in the way, for those who may see that job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_actions import post

HELD = "Lock is held by"


def ended_and_holder(host: Host, owner: str | None = None) -> tuple[str, str]:
    host.jobs.handler("import", manual=True)(print)
    values: dict[str, Any] = {"lock_key": "k", "job_type": "import", "claim_mode": "trusted"}
    ended = add_job(host.runtime, "failed", owner="ben", **values)
    return ended, add_job(host.runtime, "running", title="Now <it>", owner=owner, **values)


def test_the_page_of_a_job_that_has_ended_leads_to_the_holder(host: Host) -> None:
    ended, holder = ended_and_holder(host)
    link = f'<a href="/jobs/{holder}">Now &lt;it&gt;</a>'

    assert HELD in host.get(f"/{ended}").text
    assert link in host.get(f"/{ended}").text
    assert HELD not in host.get(f"/{holder}").text
    assert HELD not in host.get(f"/{add_job(host.runtime, 'failed', lock_key='free')}").text
    assert HELD not in host.get(f"/{add_job(host.runtime, 'failed')}").text


@pytest.mark.parametrize("deed", ["requeue", "again"])
def test_a_conflict_leads_there_too(host: Host, deed: str) -> None:
    ended, holder = ended_and_holder(host)

    answer = post(host, f"/{ended}/{deed}")

    assert answer.status_code == 409
    assert f'It is held by <a href="/jobs/{holder}">' in answer.text


def test_the_list_of_a_lock_names_its_holder(host: Host) -> None:
    _, holder = ended_and_holder(host)

    assert f'The lock is held by <a href="/jobs/{holder}">' in host.get("/?lock=k").text
    assert "The lock is held by" not in host.get("/?lock=other").text
    assert "The lock is held by" not in host.get("/").text


@pytest.mark.parametrize("hidden_by", ["scope", "authorize"])
def test_a_holder_that_may_not_be_seen_is_not_named(make_host: MakeHost, hidden_by: str) -> None:
    by_hook = hidden_by == "authorize"
    host = make_host(
        authorize=lambda action, job: not (by_hook and job is not None and job.owner == "anna")
    )
    if not by_hook:
        host.jobs.scope(lambda: "ben")
    ended, holder = ended_and_holder(host, owner="anna")

    pages = [
        host.get(f"/{ended}"),
        host.get("/?lock=k&status=failed"),
        post(host, f"/{ended}/requeue"),
    ]

    assert [page.status_code for page in pages] == [200, 200, 409]
    for page in pages:
        assert holder not in page.text
        assert "held by" not in page.text
