"""The uncommitted-changes rule, each way to change something, on all three databases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session, aliased, scoped_session, sessionmaker

from flask_jobrunner.repositories.host_session import Uncommitted, uncommitted, watch

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


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_found_named_and_gone_after_the_commit(shop: Shop, case: str) -> None:
    steps, named = CHANGES[case]
    for step in steps:
        step(shop)

    found = uncommitted(shop.db.session)
    assert found is not None
    assert named in found.message
    assert "secret" not in found.message
    assert "db.session.commit()" in found.message
    assert "session=db.session" in found.message

    shop.db.session.commit()
    assert uncommitted(shop.db.session) is None


@pytest.mark.parametrize("case", NO_CHANGES)
def test_what_changes_nothing_is_not_a_change(shop: Shop, case: str) -> None:
    for step in NO_CHANGES[case]:
        step(shop)

    assert uncommitted(shop.db.session) is None


def test_a_released_savepoint_belongs_to_its_transaction(shop: Shop) -> None:
    in_savepoint(shop, flush_new)

    found = uncommitted(shop.db.session)

    if shop.committed() == ["first"]:
        assert found is not None
        assert (found.statement or "").startswith("INSERT INTO orders")
    else:
        # sqlite3 begins nothing before a savepoint, so the release has committed already.
        assert shop.db.engine.dialect.name == "sqlite"
        assert found is None


def test_a_write_in_a_cte_is_a_change_on_postgresql(shop: Shop) -> None:
    if shop.db.engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL writes in a CTE below a SELECT")
    orders = shop.order.__table__
    gone = sa.delete(orders).returning(orders.c.id).cte("gone")
    shop.db.session.execute(sa.select(gone)).all()

    found = uncommitted(shop.db.session)

    assert found is not None
    assert (found.statement or "").startswith("WITH gone AS")


def test_autocommit_leaves_nothing_uncommitted(shop: Shop) -> None:
    connection = shop.db.session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    connection.execute(shop.order.__table__.insert().values(name="second"))

    assert shop.committed() == ["first", "second"]
    assert uncommitted(shop.db.session) is None


def test_an_autocommit_engine_leaves_nothing_uncommitted(shop: Shop) -> None:
    url = shop.db.engine.url
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with Session(engine) as session:
        session.add(shop.order(name="second"))
        assert uncommitted(session) is not None
        session.flush()
        assert shop.committed() == ["first", "second"]
        assert uncommitted(session) is None


def test_a_begin_by_hand_counts_in_autocommit_mode(shop: Shop) -> None:
    url = shop.db.engine.url
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with Session(engine) as session:
        session.execute(sa.text("BEGIN"))
        session.execute(sa.text("DELETE FROM orders"))
        found = uncommitted(session)
        session.execute(sa.text("ROLLBACK"))
        assert uncommitted(session) is None

    assert found is not None
    assert shop.committed() == ["first"]


def test_a_rollback_by_hand_leaves_nothing(shop: Shop) -> None:
    flush_new(shop)
    shop.db.session.execute(sa.text("ROLLBACK"))

    assert uncommitted(shop.db.session) is None


def test_two_binds_are_clean_after_one_commit(shop: Shop) -> None:
    flush_new(shop)
    shop.db.session.add(shop.note(name="n"))
    shop.db.session.flush()
    assert uncommitted(shop.db.session) is not None

    shop.db.session.commit()
    assert uncommitted(shop.db.session) is None


def test_many_objects_are_counted(shop: Shop) -> None:
    flush_new(shop)
    shop.db.session.add_all(shop.order(name=f"n{number}") for number in range(8))

    found = uncommitted(shop.db.session)

    assert found is not None
    assert found.objects == ("<Order (new)>",) * 5
    assert found.more == 3
    assert "3 more, the statement INSERT INTO orders" in found.message


def test_looking_runs_no_sql_and_begins_nothing(shop: Shop) -> None:
    order = first(shop)
    shop.db.session.commit()  # the order is expired now: reading it would be a SELECT
    shop.db.session.add(shop.order(name="second"))
    order.name = "renamed"
    shop.db.session.commit()
    shop.db.session.add(shop.order(name="third"))
    shop.db.session.delete(order)
    statements: list[str] = []

    @sa.event.listens_for(shop.db.engine, "before_cursor_execute")
    def _note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    in_transaction = shop.db.session().in_transaction()
    found = uncommitted(shop.db.session)

    assert found is not None
    assert found.objects == ("<Order (new)>", "<Order 1 (deleted)>")
    assert statements == []
    assert shop.db.session().in_transaction() == in_transaction


def test_an_expired_object_that_is_set_is_named_without_loading_it(shop: Shop) -> None:
    order = first(shop)
    shop.db.session.commit()
    order.name = "first"

    # Its old value is not known, so a flush would write it.
    assert uncommitted(shop.db.session) == Uncommitted(("<Order 1>",))


def test_a_clean_session_is_not_begun(shop: Shop) -> None:
    shop.db.session.remove()

    assert uncommitted(shop.db.session) is None
    assert not shop.db.session.registry.has()


def test_no_application_context_and_no_session_are_clean(sqlite_url: str, tmp_path: Path) -> None:
    app = Flask(__name__, instance_path=str(tmp_path))
    app.config["SQLALCHEMY_DATABASE_URI"] = sqlite_url
    db = SQLAlchemy(app)

    assert uncommitted(db.session) is None
    assert uncommitted(object()) is None  # type: ignore[arg-type]


def test_a_session_of_any_make_is_watched(shop: Shop) -> None:
    watch()  # a second call changes nothing

    class Special(Session):
        pass

    made = scoped_session(sessionmaker(shop.db.engine, class_=Special))
    made.execute(shop.order.__table__.insert().values(name="second"))
    found = uncommitted(made)
    made.remove()

    assert found is not None
    assert uncommitted(made) is None


def test_a_session_on_an_outer_transaction_is_clean_after_its_commit(shop: Shop) -> None:
    # The usual rollback-per-test fixture: the session's commit is all the host can do.
    with shop.db.engine.connect() as connection, connection.begin() as outer:
        connection.execute(shop.order.__table__.insert().values(name="fixture"))
        with Session(connection) as session:
            session.execute(sa.select(shop.order))
            assert uncommitted(session) is None
            session.add(shop.order(name="second"))
            session.flush()
            assert uncommitted(session) is not None
            session.commit()
            session.execute(sa.select(shop.order))
            assert uncommitted(session) is None
        outer.rollback()


def test_a_lost_connection_has_nothing_to_lose(shop: Shop) -> None:
    flush_new(shop)
    shop.db.session.connection().invalidate()

    assert uncommitted(shop.db.session) is None
    shop.db.session.rollback()


def test_a_comparison_that_fails_counts_as_a_change(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename(shop, "first")
    monkeypatch.setattr(Session, "is_modified", lambda *args, **kwargs: 1 / 0)

    assert uncommitted(shop.db.session) == Uncommitted(("<Order 1>",))


def test_a_fault_in_the_check_is_logged_not_raised(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Session, "new", property(lambda self: 1 / 0))

    assert uncommitted(shop.db.session) is None
    assert "could not be told" in caplog.text
