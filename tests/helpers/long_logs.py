"""Logs of a million lines, made by the database itself within seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from flask_jobrunner.runtime import Runtime
from tests.dashboard.seeding import add_lines

_FIRST = 1000
_COLUMNS = ("job_id", "attempt", "level", "stream")


def fill_log(
    runtime: Runtime, ref: str, lines: int, *, padding: str = "", errors: Collection[int] = ()
) -> None:
    """Give a job without a log one of `texts(lines, padding)`, some of the lines being errors."""
    add_lines(runtime, ref, texts(min(lines, _FIRST), padding))
    owned = runtime.jobs.owned(ref)
    assert owned is not None
    tables, job_id = runtime.database.tables, owned.job.id
    logs, jobs = tables.logs, tables.jobs

    def double(connection: sa.Connection, have: int) -> int:
        seq = logs.c.seq + have
        some = sa.select(
            *(logs.c[name] for name in _COLUMNS),
            seq,
            logs.c.created_at + have * 100_000,
            sa.literal(f"{padding}line ") + sa.cast(seq, sa.String(20)),
        ).where(logs.c.job_id == job_id, logs.c.seq <= lines - have)
        into = [*_COLUMNS, "seq", "created_at", "message"]
        connection.execute(sa.insert(logs).from_select(into, some))
        return min(lines, 2 * have)

    def finish(connection: sa.Connection) -> None:
        of_job = logs.c.job_id == job_id
        chosen = sa.update(logs).where(of_job, logs.c.seq.in_(errors)).values(level="error")
        connection.execute(chosen)
        size = sum(len(text) + 8 for text in texts(lines, padding))
        told = {"log_seq": lines, "log_bytes": size, "error_count": len(errors)}
        connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(told))

    have = min(lines, _FIRST)
    while have < lines:
        with patient(runtime) as connection:
            have = double(connection, have)
    with patient(runtime) as connection:
        finish(connection)


@contextmanager
def patient(runtime: Runtime) -> Iterator[sa.Connection]:
    """A transaction without the limits that statements of ours have: it may take a minute."""
    engine = sa.create_engine(runtime.database.engine.url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def texts(lines: int, padding: str = "") -> Iterator[str]:
    """What stands in such a log."""
    return (f"{padding}line {number}" for number in range(1, lines + 1))
