"""How heavy pages and polls are: what a phone loads again and again stays small."""

from __future__ import annotations

import gzip
from typing import Any

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines
from tests.dashboard.test_live import poller

LINE = "checked another batch of rows of the file, number"


def weight(answer: Any) -> tuple[int, int]:
    """(bytes, bytes packed)."""
    return len(answer.data), len(gzip.compress(answer.data))


def test_a_full_list(host: Host) -> None:
    for number in range(60):
        status = "running" if number % 5 == 0 else "succeeded"
        add_job(
            host.runtime,
            status,
            title=f"Import of the orders of shop {number}",
            progress_done=number,
            progress_total=100,
        )
    plain, packed = weight(host.get())

    assert plain <= 60_000
    assert packed <= 9_000


def test_a_job_with_a_thousand_lines_and_its_polls(host: Host) -> None:
    uuid = add_job(host.runtime, "running", progress_done=1, progress_total=2000)
    add_lines(host.runtime, uuid, [f"{LINE} {number}" for number in range(1000)])
    page = host.get(f"/{uuid}")
    plain, packed = weight(page)
    poll = poller(page.text)
    assert poll is not None
    asked = host.poll(poll)
    again = poller(asked.text) or poll
    nothing = host.poll(again)

    jobs = host.runtime.database.tables.jobs
    one_further = jobs.update().values(progress_done=2)
    host.runtime.database.run(lambda connection: connection.execute(one_further))
    progress = host.poll(again)
    add_lines(host.runtime, uuid, [f"{LINE} {number}" for number in range(200)])
    lines = host.poll(poller(progress.text) or "")

    assert plain <= 160_000
    # Numbers and times of a thousand lines, which no packing takes away.
    assert packed <= 18_000
    assert (nothing.status_code, nothing.data) == (204, b"")
    assert "Set-Cookie" not in nothing.headers
    assert len(progress.data) <= 2_048
    assert len(lines.data) <= 33_000
