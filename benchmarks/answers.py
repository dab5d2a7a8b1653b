"""How soon pages answer over a large history: 100,000 jobs with 5,000,000 lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from benchmarks.figures import Figure, percentile
from benchmarks.pages import first_byte, host_on, serving
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job
from tests.helpers.long_logs import fill_log, patient

JOBS = 100_000
LINES_EACH = 40
LONG = 1_000_000
LINKED = 200_000
ROUNDS = 101
POLL = {"HX-Request": "true"}


def figures(names: Sequence[str]) -> Iterator[Figure]:
    """First bytes of list, job and poll; their statements; that an index leads to the rows."""
    for name in names:
        with host_on(name) as host:
            if host is None:
                continue
            uuid = _history(host)
            tail = f"/{uuid}/_live?c={LONG}&v=3&w=3"
            with serving(host.app) as url:
                for what, path, most, statements in (
                    ("list", "/", 150, 6),
                    ("list of one status", "/?status=failed", 150, 6),
                    ("list, an old page", f"/?cursor=n{JOBS // 2}", 150, 6),
                    ("job with 1,000,000 lines", f"/{uuid}", 150, 12),
                    ("poll, nothing new", f"/{uuid}/_live?c={LONG}&v=3&w=3&i=1", 30, 3),
                    ("poll, 200 lines", tail.replace(f"c={LONG}", f"c={LONG - 200}"), 30, 3),
                ):
                    taken = first_byte(f"{url}/jobs{path}", ROUNDS, **POLL)
                    p95 = percentile(taken, 95)
                    yield _figure(f"{what}: first byte, p95", name, p95, "ms", most)
                    asked = _asked(host, path)
                    yield _figure(f"{what}: statements", name, len(asked), "", statements)
                    scans = sum(_scans(host, *statement) for statement in asked)
                    yield _figure(f"{what}: whole tables read", name, scans, "", 0)


def line_figures(names: Sequence[str]) -> Iterator[Figure]:
    """First bytes of parts and searches of long logs."""
    for name in names:
        with host_on(name) as host:
            if host is None:
                continue
            linked = add_job(host.runtime, "running")
            fill_log(host.runtime, linked, LINKED)
            long = add_job(host.runtime, "failed")
            fill_log(host.runtime, long, LONG, errors=[LONG * 9 // 10])
            with serving(host.app) as url:
                for what, path, rounds, most in (
                    ("?line=5000 of 200,000 lines", f"/{linked}/log?line=5000", 41, 300),
                    ("last lines of 1,000,000", f"/{long}/log", 41, 300),
                    ("errors only, of 1,000,000", f"/{long}/log?level=error", 6, 2500),
                    ("search step in 1,000,000", f"/{long}/log?q=no+such&find=next", 6, 2500),
                ):
                    taken = first_byte(f"{url}/jobs{path}", rounds)
                    yield _figure(f"{what}, p95", name, percentile(taken, 95), "ms", most)


def _figure(measure: str, where: str, value: float, unit: str, target: float) -> Figure:
    return Figure(measure=measure, where=where, value=value, unit=unit, target=target)


def _history(host: Host) -> str:
    """The jobs, most of them ended, with their lines; the uuid of one that runs and has many."""
    runtime, tables = host.runtime, host.runtime.database.tables
    statuses = ("succeeded", "succeeded", "succeeded", "failed", "cancelled")
    for number in range(1000):
        add_job(runtime, statuses[number % 5], age=86_400 - number, job_type=f"type.{number % 7}")
    jobs, logs = tables.jobs, tables.logs
    names = [c.name for c in jobs.c if c.name not in ("id", "job_uuid")]
    # MariaDB and PostgreSQL count ids on; the rows of one statement need uuids that differ.
    serial = sa.cast(jobs.c.id, sa.String(20))

    def more(connection: sa.Connection, copy: int) -> None:
        columns = [jobs.c[name] for name in names]
        uuid = sa.func.substr(jobs.c.job_uuid, 1, 24) + sa.literal(f"{copy:04}-")
        copies = sa.select(uuid + serial, *columns).where(jobs.c.id <= 1000)
        connection.execute(sa.insert(jobs).from_select(["job_uuid", *names], copies))

    for copy in range(1, JOBS // 1000):
        with patient(runtime) as connection:
            more(connection, copy)

    def line(connection: sa.Connection, seq: int) -> None:
        columns = ["job_id", "seq", "attempt", "created_at", "level", "stream", "message"]
        values: list[Any] = [sa.literal(seq), sa.literal(1), jobs.c.queued_at + seq]
        values += [sa.literal(text) for text in ("info", "stdout", f"line {seq} of this job")]
        of_all = sa.select(jobs.c.id, *values)
        connection.execute(sa.insert(logs).from_select(columns, of_all))

    for seq in range(1, LINES_EACH + 1):
        with patient(runtime) as connection:
            line(connection, seq)
    with patient(runtime) as connection:
        connection.execute(jobs.update().values(log_seq=LINES_EACH))
    uuid = add_job(runtime, "running")
    fill_log(runtime, uuid, LONG)
    if runtime.database.dialect != "mariadb":
        with patient(runtime) as connection:
            connection.execute(sa.text("ANALYZE"))
    return uuid


def _asked(host: Host, path: str) -> list[tuple[str, Any]]:
    """The statements that a request sends."""
    host.poll(f"/jobs{path}")
    with _noted(host) as asked:
        host.poll(f"/jobs{path}")
    return asked


@contextmanager
def _noted(host: Host) -> Iterator[list[tuple[str, Any]]]:
    found: list[tuple[str, Any]] = []

    def note(_c: Any, _k: Any, statement: str, values: Any, *_: Any) -> None:
        if re.search(r"\bFROM jobrun_", statement):
            found.append((statement, values))

    engine = host.runtime.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def _scans(host: Host, statement: str, values: Any) -> int:
    """How many of our large tables its plan reads from end to end, without an index."""
    database = host.runtime.database
    if "WHERE" not in statement and "LIMIT" in statement:
        return 0  # the newest rows of all, in the order of the primary key, up to the limit
    explain = "EXPLAIN QUERY PLAN" if database.dialect == "sqlite" else "EXPLAIN"
    with database.engine.connect() as connection:
        rows = connection.exec_driver_sql(f"{explain} {statement}", values)
        plan = "\n".join(" ".join(map(str, row)) for row in rows)
    whole = r"SCAN jobrun_(?:jobs|logs)(?! USING)|Seq Scan on jobrun_(?:jobs|logs)"
    return len(re.findall(whole, plan))
