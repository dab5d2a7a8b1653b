"""What a host may do in its session: each way to change something, and what changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from flask_jobrunner.repositories.host_session import uncommitted

from .conftest import Shop

Step = Callable[[Shop], object]


def first(shop: Shop) -> Any:
    return shop.db.session.scalars(sa.select(shop.order).filter_by(name="first")).one()


def rename(shop: Shop, name: str) -> None:
    first(shop).name = name


def flush_new(shop: Shop) -> None:
    shop.db.session.add(shop.order(name="second"))
    shop.db.session.flush()


def insert_core(shop: Shop) -> None:
    shop.db.session.execute(shop.order.__table__.insert().values(name="b"))


def rename_flushed(shop: Shop, name: str) -> None:
    rename(shop, name)
    shop.db.session.flush()


def in_savepoint(shop: Shop, step: Step) -> None:
    with shop.db.session.begin_nested():
        step(shop)


def undone_savepoint(shop: Shop, step: Step) -> None:
    nested = shop.db.session.begin_nested()
    step(shop)
    nested.rollback()


def failing_savepoint(shop: Shop) -> None:
    with pytest.raises(sa.exc.IntegrityError), shop.db.session.begin_nested():
        shop.db.session.add(shop.order(name="first"))


def undone_connection_savepoint(shop: Shop) -> None:
    connection = shop.db.session.connection()
    nested = connection.begin_nested()
    connection.execute(shop.order.__table__.delete())
    nested.rollback()


def undone_savepoint_by_hand(shop: Shop) -> None:
    for statement in ("SAVEPOINT mine", "DELETE FROM orders", "ROLLBACK TO SAVEPOINT mine"):
        shop.db.session.execute(sa.text(statement))


def failed_flush(shop: Shop) -> None:
    # The flush has rolled the transaction back; the session still waits for its rollback().
    shop.db.session.add(shop.order(name="first"))
    with pytest.raises(sa.exc.IntegrityError):
        shop.db.session.flush()


def nested_levels_undone(shop: Shop) -> None:
    outer = shop.db.session.begin_nested()
    in_savepoint(shop, flush_new)
    undone_savepoint(shop, lambda s: rename_flushed(s, "c"))
    outer.rollback()


def read_only_settings(shop: Shop) -> None:
    statements = {
        "sqlite": ["PRAGMA table_info(orders)", "EXPLAIN SELECT 1"],
        "postgresql": ["SET LOCAL statement_timeout = 1000", "EXPLAIN DELETE FROM orders"],
    }.get(shop.db.engine.dialect.name, ["SET @a = 1", "SHOW TABLES", "EXPLAIN SELECT 1"])
    for statement in statements:
        shop.db.session.execute(sa.text(statement))


def changed_and_back(shop: Shop) -> None:
    order = first(shop)
    order.name = "b"
    order.name = "first"


def other_sessions_write(shop: Shop) -> None:
    with Session(shop.db.engine) as session:
        session.add(shop.order(name="elsewhere"))
        session.flush()
        assert uncommitted(session) is not None
        assert uncommitted(shop.db.session) is None


def cte_read(shop: Shop) -> None:
    table = sa.select(shop.order.__table__).cte("a")
    shop.db.session.execute(sa.select(aliased(shop.order, table))).all()


def added_and_taken_out(shop: Shop) -> None:
    order = shop.order(name="b")
    shop.db.session.add(order)
    shop.db.session.expunge(order)


CHANGES: dict[str, tuple[list[Step], str]] = {
    "pending": ([lambda s: s.db.session.add(s.order(name="b"))], "<Order (new)>"),
    "modified": ([lambda s: rename(s, "b")], "<Order 1>"),
    "deleted": ([lambda s: s.db.session.delete(first(s))], "<Order 1 (deleted)>"),
    "flushed": ([flush_new], "INSERT INTO orders"),
    "flushed change": ([lambda s: rename_flushed(s, "b")], "UPDATE orders SET"),
    "bulk save": (
        [lambda s: s.db.session.bulk_save_objects([s.order(name="b"), s.order(name="c")])],
        "INSERT INTO orders",
    ),
    "bulk mappings": (
        [lambda s: s.db.session.bulk_insert_mappings(s.order, [{"name": "b"}, {"name": "c"}])],
        "INSERT INTO orders",
    ),
    "bulk update": (
        [lambda s: s.db.session.bulk_update_mappings(s.order, [{"id": 1, "name": "b"}])],
        "UPDATE orders SET",
    ),
    "many": (
        [lambda s: s.db.session.execute(sa.insert(s.order), [{"name": "b"}, {"name": "c"}])],
        "INSERT INTO orders",
    ),
    "Core insert": ([insert_core], "INSERT INTO orders"),
    "Core update": (
        [lambda s: s.db.session.execute(sa.update(s.order).values(name="b"))],
        "UPDATE orders SET",
    ),
    "Core delete": (
        [lambda s: s.db.session.execute(s.order.__table__.delete())],
        "DELETE FROM orders",
    ),
    "query delete": ([lambda s: s.db.session.query(s.order).delete()], "DELETE FROM orders"),
    "returning": (
        [
            lambda s: s.db.session.scalars(
                sa.insert(s.order.__table__).values(name="b").returning(s.order.__table__.c.id)
            ).all()
        ],
        "INSERT INTO orders",
    ),
    "text": (
        [lambda s: s.db.session.execute(sa.text("UPDATE orders SET name = 'secret'"))],
        "UPDATE orders SET name = '…'",
    ),
    "commented text": (
        [lambda s: s.db.session.execute(sa.text("-- nightly\nDELETE FROM orders"))],
        "DELETE FROM orders",
    ),
    "text without parameters": (
        [
            lambda s: s.db.session.connection().exec_driver_sql(
                "DELETE FROM orders", execution_options={"no_parameters": True}
            )
        ],
        "DELETE FROM orders",
    ),
    "executemany": (
        [
            lambda s: s.db.session.connection().execute(
                sa.text("UPDATE orders SET name = :n WHERE id = :i"),
                [{"n": "b", "i": 1}, {"n": "c", "i": 2}],
            )
        ],
        "UPDATE orders SET name",
    ),
    "another bind": ([lambda s: s.db.session.add(s.note(name="n"))], "<Note (new)>"),
    "another bind, flushed": (
        [
            first,
            lambda s: s.db.session.add(s.note(name="n")),
            lambda s: s.db.session.flush(),
        ],
        "INSERT INTO note",
    ),
    "written, then read": ([flush_new, first], "INSERT INTO orders"),
    "before a savepoint that was undone": (
        [flush_new, lambda s: undone_savepoint(s, lambda s: rename_flushed(s, "c"))],
        "INSERT INTO orders",
    ),
    "in an open savepoint": (
        [lambda s: s.db.session.begin_nested(), flush_new],
        "INSERT INTO orders",
    ),
}


NO_CHANGES: dict[str, list[Step]] = {
    "nothing": [],
    "read": [first],
    "read with a CTE": [cte_read],
    "the same value": [lambda s: rename(s, "first")],
    "changed and changed back": [changed_and_back],
    "added and taken out again": [added_and_taken_out],
    "locked rows": [
        lambda s: s.db.session.scalars(sa.select(s.order).with_for_update()).all(),
    ],
    "settings and explanations": [read_only_settings],
    "rolled back": [flush_new, lambda s: s.db.session.rollback()],
    "rolled back before a flush": [lambda s: rename(s, "b"), lambda s: s.db.session.rollback()],
    "committed": [flush_new, lambda s: s.db.session.commit()],
    "committed, then read": [flush_new, lambda s: s.db.session.commit(), first],
    "closed": [flush_new, lambda s: s.db.session.close()],
    "removed": [flush_new, lambda s: s.db.session.remove()],
    "rolled back to a savepoint": [first, lambda s: undone_savepoint(s, flush_new)],
    "a savepoint that failed": [first, failing_savepoint],
    "rolled back on the connection": [first, undone_connection_savepoint],
    "rolled back by hand": [first, undone_savepoint_by_hand],
    "inner savepoints undone by an outer one": [first, nested_levels_undone],
    "a flush that failed": [failed_flush],
    "another session's write": [other_sessions_write],
}
