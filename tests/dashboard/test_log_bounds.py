"""However long a log and its lines are, a page, a poll and a search take a bounded part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, select

from flask_jobrunner.dashboard.log_window import PAGE_BYTES
from flask_jobrunner.repositories import logs
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines

LINES = 12_000
Asked = list[tuple[str, Any]]


def numbers(body: str) -> list[int]:
    return [int(number) for number in re.findall(r'<p id="L(\d+)"', body)]


@pytest.fixture
def asked(host: Host) -> Iterator[Asked]:
    """The statements that read lines, with their values."""
    found: Asked = []

    def note(_c: Any, _k: Any, statement: str, values: Any, *_: Any) -> None:
        if "jobrun_logs" in statement and statement.startswith("SELECT"):
            found.append((statement, values))

    event.listen(host.runtime.database.engine, "before_cursor_execute", note)
    yield found
    event.remove(host.runtime.database.engine, "before_cursor_execute", note)


def plans(host: Host, asked: Asked) -> list[str]:
    with host.runtime.database.engine.connect() as connection:
        return [
            str(row[3])
            for statement, values in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]


@pytest.mark.parametrize(
    ("path", "statements", "shown"),
    [
        ("", 1, 1000),
        ("/log", 2, 1000),
        ("/log?line=5000", 2, 1000),
        ("/log?before=6000", 2, 1000),
        ("/log?after=0", 2, 1000),
        ("/log?level=error", 4, 12),
        ("/log?stream=stderr&line=6000", 6, 12),
        ("/log?q=line+9999&find=next&from=1", 3, 0),
        ("/log?q=line+5432&find=previous&from=12000", 3, 0),
        ("/log?find=error", 2, 0),
        ("/_lines?before=11001", 1, 500),
        ("/_live?c=10&v=3&w=3", 1, 500),
        ("/_live?c=11000&v=3&w=3", 1, 500),
    ],
)
def test_every_view_reads_a_bounded_part_by_the_index(
    host: Host, asked: Asked, path: str, statements: int, shown: int
) -> None:
    uuid = add_job(host.runtime, "running", error_count=12)
    told = [
        {"message": f"line {n}", "level": "error", "stream": "stderr"}
        if n % 1000 == 0
        else f"line {n}"
        for n in range(1, LINES + 1)
    ]
    add_lines(host.runtime, uuid, told)
    asked.clear()

    answer = host.poll(f"/jobs/{uuid}{path}")

    assert answer.status_code in (200, 303)
    assert len(numbers(answer.text)) == shown
    assert 1 <= len(asked) <= statements
    assert all("LIMIT" in statement or "min(" in statement for statement, _ in asked)
    for plan in plans(host, asked):
        assert re.fullmatch(r"SEARCH jobrun_logs USING (COVERING )?INDEX \S+ \(job_id=\?.*", plan)


@pytest.mark.parametrize("place", ["", "?line=300", "?after=0", "?before=400"])
def test_a_page_of_long_lines_has_fewer_of_them_and_leads_to_all(host: Host, place: str) -> None:
    uuid = add_job(host.runtime, "succeeded")
    add_lines(host.runtime, uuid, [f"{n} {'x' * 16_000}" for n in range(1, 601)])

    answer = host.get(f"/{uuid}/log{place}")
    shown = numbers(answer.text)

    assert len(answer.data) < 1.5 * PAGE_BYTES
    assert 40 <= len(shown) <= 70
    assert shown == list(range(shown[0], shown[-1] + 1))
    if place.startswith("?line"):
        assert 300 in shown
    if shown[0] > 1:
        assert f"before={shown[0]}" in answer.text
    if shown[-1] < 600:
        assert f"after={shown[-1]}" in answer.text


def test_a_search_says_what_it_has_seen(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = add_job(host.runtime, "succeeded", error_count=1)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(1, 2001)])
    monkeypatch.setattr(logs, "SEARCH_PAGE", 500)
    in_no_time = {"backwards": False, "seconds": 0}
    monkeypatch.setattr(logs.LogRepository.search, "__kwdefaults__", in_no_time)

    def said(query: str) -> str:
        found = re.search(r'role="status">(.*?) <a', host.get(f"/{uuid}/log?{query}").text)
        assert found is not None, query
        return found[1]

    assert said("q=needle&find=next").startswith("No match in lines 1 to 500. ")
    assert said("q=needle&find=next&from=500").startswith("No match in lines 501 to 1,000. ")
    assert said("q=needle&find=previous&from=2000").startswith("No match in lines 1,500 to 1,999. ")
    assert said("find=error").startswith("No error in lines 1 to 500. ")
    assert "lines 1,001 to 2,000 were not looked through yet" in said("q=x&find=next&from=500")


def test_a_poll_takes_three_statements_at_most(host: Host, asked: Asked) -> None:
    everything: list[str] = []
    engine = host.runtime.database.engine

    def note(_c: Any, _k: Any, statement: str, *_: Any) -> None:
        everything.append(statement)

    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one", "two"])
    host.runtime.database.rows(select(host.runtime.database.tables.meta))
    event.listen(engine, "before_cursor_execute", note)
    try:
        for told in ("", "&w=3"):
            everything.clear()
            assert numbers(host.poll(f"/jobs/{uuid}/_live?c=1&v=3&p=0{told}").text) == [2]
            read = [statement for statement in everything if statement.startswith("SELECT")]
            assert 1 <= len(read) <= 3, [re.findall(r"FROM .*", s) for s in read]
    finally:
        event.remove(engine, "before_cursor_execute", note)
