"""The uncommitted-changes rule, each way to change something, on all three databases."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from flask_jobrunner.repositories.host_session import Uncommitted, uncommitted, watch

from .changes import CHANGES, NO_CHANGES, first, flush_new, in_savepoint, rename
from .conftest import Shop


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
