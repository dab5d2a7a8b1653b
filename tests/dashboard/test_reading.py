"""A GET changes nothing, but for one thing: a job that is shown is settled first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, select

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import SECOND, add_job, add_lines, change


def dump(host: Host) -> dict[str, list[Any]]:
    """Every row of our tables."""
    found: dict[str, list[Any]] = {}
    for table in host.runtime.database.tables.all():
        rows = host.runtime.database.rows(select(table))
        found[table.name] = [tuple(row.values()) for row in rows]
    return found


@pytest.fixture
def statements(host: Host) -> Iterator[list[str]]:
    found: list[str] = []

    def remember(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        found.append(statement)

    event.listen(host.runtime.database.engine, "before_cursor_execute", remember)
    yield found
    event.remove(host.runtime.database.engine, "before_cursor_execute", remember)


def test_pages_polls_and_confirm_pages_write_nothing(host: Host, statements: list[str]) -> None:
    uuids = {
        status: add_job(host.runtime, status)
        for status in ("queued", "running", "cancel_requested", "succeeded", "failed", "lost")
    }
    add_lines(host.runtime, uuids["running"], ["one"])
    before = dump(host)
    statements.clear()

    for uuid in uuids.values():
        for tail in ("", "/_live?c=0&v=0", "/log", "/cancel", "/requeue", "?did=cancel"):
            host.poll(f"/jobs/{uuid}{tail}")
            host.get(f"/{uuid}{tail}")
    host.get()
    host.poll("/jobs/_list?n=0&a=" + ",".join(uuids.values()))

    written = [s for s in statements if s.split()[0].upper() in ("INSERT", "UPDATE", "DELETE")]
    assert statements != []
    assert written == []
    assert dump(host) == before


@pytest.mark.parametrize("tail", ["", "/_live?c=0"])
def test_a_job_that_is_shown_is_settled_first(host: Host, tail: str) -> None:
    uuid = add_job(host.runtime, "queued")
    past = host.runtime.database.clock() - SECOND
    change(host.runtime, uuid, claim_deadline=past)

    body = host.poll(f"/jobs/{uuid}{tail}").text

    assert "Failed" in body
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    assert job.status == "failed"
    assert job.error_reason_code == "launch_timeout"


def test_the_list_settles_nothing(host: Host) -> None:
    uuid = add_job(host.runtime, "queued")
    change(host.runtime, uuid, claim_deadline=host.runtime.database.clock() - SECOND)
    before = dump(host)

    host.get()
    host.poll(f"/jobs/_list?n=0&a={uuid}")

    assert dump(host) == before


def test_who_may_not_see_a_job_settles_nothing(host: Host) -> None:
    uuid = add_job(host.runtime, "queued")
    change(host.runtime, uuid, claim_deadline=host.runtime.database.clock() - SECOND)
    host.jobs.scope(lambda: "somebody else")
    before = dump(host)

    assert host.get(f"/{uuid}").status_code == 404
    assert dump(host) == before


def test_a_page_of_the_list_takes_three_statements(host: Host, statements: list[str]) -> None:
    for _ in range(60):
        add_job(host.runtime, "running")
    statements.clear()

    host.get()

    asked = [s for s in statements if s.lstrip().upper().startswith("SELECT")]
    # The rows, the counts, and what the frame tells.
    assert len(asked) == 3
