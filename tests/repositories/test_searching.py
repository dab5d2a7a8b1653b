"""The list's search and the figures of job types: what they find, and that an index leads there."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.statuses import JobStatus
from flask_jobrunner.repositories.listing import JobFilter
from tests.helpers.stores import Store, change, queue


def titles(store: Store, **narrow: Any) -> list[str | None]:
    return [job.title for job in store.listing.find(JobFilter(**narrow)).jobs]


def ended(store: Store, status: str = "succeeded", **values: Any) -> int:
    """A job that ended after 4 seconds of waiting and 10 of work."""
    columns = {
        name: values.pop(name) for name in ("error_class", "error_reason_code") if name in values
    }
    took = values.pop("took", 10)
    job = queue(store, **values)
    start = 1_000_000_000_000_000
    change(
        store,
        job.id,
        status=status,
        queued_at=start,
        started_at=start + 4_000_000,
        finished_at=start + 4_000_000 + took * 1_000_000,
        active_lock_key=None,
        **columns,
    )
    return job.id


def test_a_text_is_found_in_every_column_that_people_search(store: Store) -> None:
    queue(store, title="Import owls.csv")
    queue(store, title="b", job_type="shop.export")
    queue(store, title="c", owner="ann@example.org")
    queue(store, title="d", reference="order:4711")
    queue(store, title="e", lock_key="stock:7")
    ended(store, "failed", title="f", error_class="shop.errors.OutOfStock")
    queue(store, title="100%_\\")

    assert titles(store, text="OWLS") == ["Import owls.csv"]
    assert titles(store, text="export") == ["b"]
    assert titles(store, text="ann@") == ["c"]
    assert titles(store, text="4711") == ["d"]
    assert titles(store, text="stock") == ["f", "e"]
    assert titles(store, text="errors.outof") == ["f"]
    assert titles(store, text="0%_\\") == ["100%_\\"]
    assert titles(store, text="%") == ["100%_\\"]
    assert titles(store, text="nowhere") == []


def test_an_id_is_found_by_its_beginning_and_by_how_lists_show_it(store: Store) -> None:
    made = [queue(store, title=str(number)) for number in range(3)]
    for job, uuid in zip(
        made,
        [
            "01a22706-15d6-7a3d-b858-606442022120",
            "01a22706-15d6-7a3d-b858-606442022121",
            "01a22707-0000-7a3d-b858-606442022120",
        ],
        strict=True,
    ):
        change(store, job.id, job_uuid=uuid)

    assert titles(store, text="01A22706") == ["1", "0"]
    assert titles(store, text="01a22706-15d6-7a3d-b858-606442022121") == ["1"]
    assert titles(store, text="01a22706…2120") == ["0"]
    assert titles(store, text="01a2270") == ["2", "1", "0"]
    assert titles(store, text="01a22708") == []
    # However old it is; a text is looked for among the newest ones only.
    assert titles(store, text="01a22706", above=made[1].id) == ["1", "0"]
    assert titles(store, text="01a22", above=made[1].id) == ["2"]


def test_digits_that_could_be_an_id_are_found_elsewhere_too(store: Store) -> None:
    queue(store, title="a", reference="12345678")

    assert titles(store, text="12345678") == ["a"]


def test_nobody_finds_or_counts_what_is_outside_of_his_scope(store: Store) -> None:
    mine = queue(store, title="mine", owner="ann", reference="r:1")
    theirs = queue(store, title="theirs", owner="bob", reference="r:1", lock_key="k")

    assert titles(store, scope="ann", text="r:1") == ["mine"]
    assert titles(store, scope="ann", text=theirs.uuid) == []
    assert titles(store, scope="ann", text=mine.uuid) == ["mine"]
    assert titles(store, scope="ann", owner="bob") == []
    assert titles(store, scope="ann", had_lock="k") == []
    assert titles(store, scope="ann", reference="r:1") == ["mine"]
    assert titles(store, scope="ANN") == []
    counts = store.listing.counts(JobFilter(scope="ann", text="r:1"))
    assert sum(counts.values()) == 1
    assert store.history.newest(JobFilter(scope="ann"), 10) == []


@pytest.mark.parametrize("near", ["ann ", "Ann", "ann%", "a_n", " ann", "\u00e4nn"])
def test_a_name_that_is_almost_the_same_is_somebody_else(store: Store, near: str) -> None:
    queue(store, title="mine", owner="ann")
    queue(store, title="theirs", owner=near)
    ended(store, title="also mine", owner="ann")
    ended(store, title="also theirs", owner=near)

    for scope, expected in (("ann", ["also mine", "mine"]), (near, ["also theirs", "theirs"])):
        assert titles(store, scope=scope) == expected
        assert sum(store.listing.counts(JobFilter(scope=scope)).values()) == 2
        assert len(store.history.newest(JobFilter(scope=scope), 10)) == 1


def test_a_lock_key_leads_to_jobs_that_have_ended(store: Store) -> None:
    ended(store, title="a", lock_key="stock:7")
    queue(store, title="b", lock_key="stock:7")
    queue(store, title="c", lock_key="stock:70")

    assert titles(store, had_lock="stock:7") == ["b", "a"]


def test_pages_of_a_type_lead_through_all_statuses_and_back(store: Store) -> None:
    statuses = ["succeeded", "failed", "lost", "cancelled"]
    made = [ended(store, statuses[number % 4], job_type="a") for number in range(9)]
    made += [queue(store, job_type="a").id]
    queue(store, job_type="b")
    narrow, cursor, seen = JobFilter(job_type="a"), None, []
    while True:
        page = store.listing.find(narrow, cursor=cursor, limit=4)
        seen.append([job.id for job in page.jobs])
        cursor = page.next_cursor
        if cursor is None:
            break
    assert list(itertools.chain(*seen)) == made[::-1]
    back = store.listing.find(narrow, cursor=page.previous_cursor, limit=4)
    assert [job.id for job in back.jobs] == seen[1]
    some = JobFilter(job_type="a", status=["lost", "failed"])
    assert [job.status for job in store.listing.find(some).jobs] == ["lost", "failed"] * 2


def test_the_floor_is_there_only_where_it_keeps_something_out(store: Store) -> None:
    assert store.listing.floor(3) == 0
    made = [queue(store).id for _ in range(3)]
    assert store.listing.floor(3) == 0
    made.append(queue(store).id)
    assert store.listing.floor(3) == made[0]


def test_the_newest_runs_of_a_type(store: Store) -> None:
    for took in range(1, 6):
        ended(store, job_type="a", took=took)
    ended(store, "failed", job_type="a", error_class="ValueError", took=60)
    ended(store, job_type="b")
    queue(store, job_type="a")

    runs = store.history.newest(JobFilter(job_type="a"), 3)

    assert [(run.status, run.ran) for run in runs] == [
        ("failed", 60.0),
        ("succeeded", 5.0),
        ("succeeded", 4.0),
    ]
    assert {run.waited for run in runs} == {4.0}
    assert runs[0].error_class == "ValueError"
    only = store.history.newest(JobFilter(job_type="a"), 2, ["succeeded"])
    assert [run.ran for run in only] == [5.0, 4.0]
    assert len(store.history.newest(JobFilter(), 100)) == 7


# -- plans ------------------------------------------------------------------------------------


def copied(store: Store, times: int) -> None:
    """Every job that often, and statistics that know it: few rows are read whole at no loss."""
    table = store.database.tables.jobs
    found = store.database.read(lambda connection: connection.execute(sa.select(table)).all())
    rows = [
        {**row._mapping, "job_uuid": str(uuid4()), "reference": f"{row.reference}.{copy}"}
        for row, copy in itertools.product(found, range(1, times))
    ]
    for row in rows:
        del row["id"]
    store.database.run(lambda connection: connection.execute(table.insert(), rows))
    if store.kind == "mariadb":
        with store.database.engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE TABLE jobrun_jobs").all()


def whole_tables_read(store: Store, statement: str, values: Any) -> list[str]:
    """What the plan says of reading all jobs instead of going along an index."""
    with store.database.engine.connect() as connection:
        if store.kind == "sqlite":
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            return [str(row) for row in plan if "SCAN jobrun_jobs" in row[3]]
        if store.kind == "postgresql":
            connection.exec_driver_sql("SET enable_seqscan = off")
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", values)
            return [row[0] for row in plan if "Seq Scan on jobrun_jobs" in row[0]]
        connection.exec_driver_sql("SET max_seeks_for_key = 1")
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}", values)
        rows = [row._mapping for row in plan]
        return [str(row) for row in rows if row["table"] == "jobrun_jobs" and row["key"] is None]


FILTERS = [
    {},
    {"status": ["failed"]},
    {"status": ["failed", "lost"]},
    {"job_type": "a"},
    {"job_type": "a", "status": ["failed"]},
    {"owner": "ann"},
    {"scope": "ann", "job_type": "a", "above": 10},
    {"reference": "r:1"},
    {"had_lock": "k"},
    {"text": "needle", "above": 10},
    {"text": "needle", "job_type": "a", "status": ["failed"], "above": 10},
    {"text": "01a22706", "above": 10},
    {"error_class": "ValueError", "above": 10},
]


@pytest.mark.parametrize("narrow", FILTERS, ids=lambda n: "+".join(n) or "all")
def test_an_index_leads_to_every_page_count_and_figure(
    store: Store, narrow: dict[str, Any]
) -> None:
    for number in range(20):
        status = list(JobStatus)[3 + number % 5]
        ended(store, status, job_type="ab"[number % 2], owner="ann", reference=f"r:{number}")
    copied(store, 25)
    asked: list[tuple[str, Any]] = []

    def note(_c: Any, _k: Any, statement: str, values: Any, *_: Any) -> None:
        if "jobrun_jobs" in statement and statement.startswith("SELECT"):
            asked.append((statement, values))

    sa.event.listen(store.database.engine, "before_cursor_execute", note)
    try:
        store.listing.find(JobFilter(**narrow))
        store.listing.find(JobFilter(**narrow), cursor="n5")
        store.listing.counts(JobFilter(**narrow))
        if "text" not in narrow:
            store.history.newest(JobFilter(**narrow), 50)
    finally:
        sa.event.remove(store.database.engine, "before_cursor_execute", note)

    assert 3 <= len(asked) <= 6
    # The newest of all are read in the order of the primary key, up to the limit.
    for statement, values in asked[2 if not narrow else 0 :]:
        assert whole_tables_read(store, statement, values) == [], statement
