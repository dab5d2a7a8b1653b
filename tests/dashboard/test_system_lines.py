"""What was done to a job stands in its place among the lines of its log, once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flask_jobrunner.runtime import Runtime
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import SECOND, add_job, add_lines, change, end
from tests.dashboard.test_live import opened, poller

ROWS = r'<p id="([LE]\d+)"'


def add_event(runtime: Runtime, ref: str, at: float, **columns: Any) -> None:
    """An event `at` seconds after the job's start."""
    owned = runtime.jobs.owned(ref)
    assert owned is not None
    begun = owned.job.started_at or owned.job.queued_at
    values = {
        "job_id": owned.job.id,
        "attempt": owned.job.attempt,
        "from_status": "running",
        "at": round((begun.timestamp() + at) * SECOND),
    }
    events = runtime.database.tables.events
    runtime.database.run(lambda c: c.execute(events.insert().values(values | columns)))
    change(runtime, ref)


def asked_to_cancel(host: Host, uuid: str, at: float, actor: str = "bob") -> None:
    told = {"action": "cancel", "to_status": "cancel_requested", "actor": actor}
    add_event(host.runtime, uuid, at, **told)


def rows(body: str) -> list[str]:
    """The lines' numbers, and a star for each event."""
    return ["*" if row[0] == "E" else row[1:] for row in re.findall(ROWS, body)]


def test_a_request_to_cancel_stands_between_the_lines(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one", "two", "three", "four"])  # at 0.1, 0.2, …
    asked_to_cancel(host, uuid, 0.25, actor="<bob>")

    body = host.get(f"/{uuid}").text

    assert rows(body) == ["1", "2", "*", "3", "4"]
    assert "<b>system</b><span>Cancel requested by &lt;bob&gt;</span>" in body
    assert rows(host.get(f"/{uuid}/log").text) == ["1", "2", "*", "3", "4"]


def test_lines_that_the_runner_wrote_are_marked(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded")
    first = "Started reports.build, attempt 1: process 17 on web-1."
    printed = {"message": "Succeeded", "stream": "stdout"}
    add_lines(host.runtime, uuid, [first, "Started well", printed, "Succeeded"])

    body = host.get(f"/{uuid}").text

    assert re.findall(r"<b>(\w+)</b><span>(\w+)", body) == [
        ("system", "Started"),
        ("out", "Succeeded"),
        ("system", "Succeeded"),
    ]


def test_an_attempt_begins_where_its_lines_begin_whatever_clocks_say(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one", "two"])
    change(host.runtime, uuid, attempt=2)
    add_lines(host.runtime, uuid, ["three"])
    add_event(host.runtime, uuid, 99, action="requeue", to_status="queued", actor="ann")

    body = host.get(f"/{uuid}").text

    assert rows(body) == ["1", "2", "*", "3"]
    assert "Requeued as attempt 2 by ann" in body
    assert rows(host.get(f"/{uuid}/log?attempt=1").text) == ["1", "2"]
    assert rows(host.get(f"/{uuid}/log?attempt=2").text) == ["*", "3"]
    assert rows(host.get(f"/{uuid}/log?stream=messages").text) == ["1", "2", "3"]


def test_each_event_is_on_one_page_of_the_log(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 2501)])
    for line in (700.5, 1500.5, 2500.5):
        asked_to_cancel(host, uuid, line / 10)

    last = host.get(f"/{uuid}/log").text
    middle = host.get(f"/{uuid}/log?before=1501").text
    first = host.get(f"/{uuid}/log?before=501").text

    assert rows(last) == ["*", *map(str, range(1501, 2501)), "*"]
    assert rows(middle) == [*map(str, range(501, 701)), "*", *map(str, range(701, 1501))]
    assert "*" not in rows(first)
    page = host.get(f"/{uuid}").text
    assert rows(page) == rows(last)
    earlier = host.poll(f"/jobs/{uuid}/_lines?before=1501").text
    assert rows(earlier) == [str(n) for n in range(1001, 1501)]


def test_it_stands_there_once_though_the_clock_was_set_back_between_two_pages(
    host: Host,
) -> None:
    uuid, logs = add_job(host.runtime, "running"), host.runtime.database.tables.logs
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 1501)])
    back = logs.c.created_at - 2 * SECOND
    last = logs.update().where(logs.c.seq == 500).values(created_at=back)
    host.runtime.database.run(lambda c: c.execute(last))
    asked_to_cancel(host, uuid, 49.0)

    page = host.get(f"/{uuid}").text
    earlier = host.poll(f"/jobs/{uuid}/_lines?before=501").text

    assert rows(page)[0] == "501"
    assert rows(page + earlier).count("*") == 1


def test_a_page_that_is_open_is_told_once(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    asked_to_cancel(host, uuid, 0.15)
    url = opened(host, uuid)
    assert host.poll(url).status_code == 204
    asked_to_cancel(host, uuid, 0.16)

    told = host.poll(url).text
    again = poller(told)

    assert rows(told) == ["*"]
    assert again is not None
    assert host.poll(again).status_code == 204
    add_lines(host.runtime, uuid, ["two"])
    assert rows(host.poll(again).text) == ["2"]


def test_an_event_waits_for_the_lines_that_stand_before_it(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    url: str | None = opened(host, uuid)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(2, 1202)])
    asked_to_cancel(host, uuid, 70.05)
    asked_to_cancel(host, uuid, 130)

    seen: list[str] = []
    for _ in range(3):
        assert url is not None
        body = host.poll(url).text
        seen, url = seen + rows(body), poller(body)

    assert seen == [*map(str, range(2, 701)), "*", *map(str, range(701, 1202)), "*"]


def test_a_log_without_a_line_tells_nothing(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    asked_to_cancel(host, uuid, 0.1)
    url = opened(host, uuid)
    body = host.get(f"/{uuid}").text
    assert rows(body) == []
    assert "Waiting for the first line" in body

    add_lines(host.runtime, uuid, [{"message": "one", "created_at": 1}])
    assert rows(host.poll(url).text) == ["1", "*"]


@pytest.mark.parametrize("kind", ["txt", "ndjson"])
def test_a_download_has_stored_lines_only(host: Host, kind: str) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    asked_to_cancel(host, uuid, 0.2)
    end(host.runtime, uuid, "cancelled")

    assert host.get(f"/{uuid}/log.{kind}").text.count("\n") == 1
