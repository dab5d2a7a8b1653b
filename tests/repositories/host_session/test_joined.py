"""A row that joins the host's transaction, and the callback after its root commit."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from flask_jobrunner.repositories.host_session import (
    on_root_commit,
    uncommitted,
)

from .conftest import Shop


def test_the_row_is_committed_with_the_host_and_called_back_once(shop: Shop) -> None:
    called: list[str] = []
    shop.db.session.add(shop.order(name="second"))
    shop.start("a", called)
    assert called == []
    assert shop.jobs_seen() == []

    shop.db.session.commit()
    assert called == ["a"]
    assert shop.jobs_seen() == ["a"]
    assert shop.committed() == ["first", "second"]

    shop.db.session.add(shop.order(name="third"))
    shop.db.session.commit()
    assert called == ["a"]


def test_the_row_is_there_and_the_connection_is_back_when_called(shop: Shop) -> None:
    seen: list[tuple[list[str], int]] = []
    pool = shop.db.engine.pool
    checked_out = getattr(pool, "checkedout", lambda: 0)
    shop.start("a", [])
    on_root_commit(shop.db.session, lambda: seen.append((shop.jobs_seen(), checked_out())))

    shop.db.session.commit()

    assert seen == [(["a"], 0)]


def test_pending_objects_are_not_flushed_by_joining(shop: Shop) -> None:
    called: list[str] = []
    duplicate = shop.order(name="first")
    shop.db.session.add(duplicate)
    shop.start("a", called)
    assert duplicate in shop.db.session.new

    with pytest.raises(sa.exc.IntegrityError):
        shop.db.session.commit()
    shop.db.session.rollback()

    assert called == []
    assert shop.jobs_seen() == []


def test_a_joined_row_counts_as_uncommitted(shop: Shop) -> None:
    shop.start("a", [])
    found = uncommitted(shop.db.session)
    assert found is not None
    assert (found.statement or "").startswith("INSERT INTO jobs")


@pytest.mark.parametrize("end", ["rollback", "close", "remove", "invalidate"])
def test_without_a_commit_nothing_is_left_and_nothing_called(shop: Shop, end: str) -> None:
    called: list[str] = []
    shop.start("a", called)
    session = shop.db.session if end == "remove" else shop.db.session()
    getattr(session, end)()
    shop.db.session.commit()

    assert called == []
    assert shop.jobs_seen() == []


def test_callbacks_keep_their_order_and_a_failing_one_stops_nobody(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []
    shop.start("a", called)
    on_root_commit(shop.db.session, lambda: 1 / 0)
    shop.start("b", called)
    shop.start("c", called)

    shop.db.session.commit()

    assert called == ["a", "b", "c"]
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_may_start_the_next(shop: Shop) -> None:
    called: list[str] = []

    def chain() -> None:
        shop.start("b", called)
        shop.db.session.commit()

    shop.start("a", called)
    on_root_commit(shop.db.session, chain)
    shop.start("c", called)
    shop.db.session.commit()

    assert called == ["a", "b", "c"]
    assert shop.jobs_seen() == ["a", "b", "c"]


def test_a_callback_may_leave_the_next_to_a_later_commit(shop: Shop) -> None:
    called: list[str] = []
    shop.start("a", called)
    on_root_commit(shop.db.session, lambda: shop.start("b", called))
    shop.db.session.commit()
    assert called == ["a"]

    shop.db.session.commit()
    assert called == ["a", "b"]


def test_in_the_context_managers_of_sqlalchemy(shop: Shop) -> None:
    called: list[str] = []
    maker = sessionmaker(shop.db.engine)
    with maker.begin() as session:
        shop.start("a", called, session)
        assert called == []
    assert called == ["a"]

    with contextlib.suppress(ZeroDivisionError), maker.begin() as session:
        shop.start("b", called, session)
        raise ZeroDivisionError
    assert called == ["a"]
    assert shop.jobs_seen() == ["a"]


def test_started_from_the_hosts_own_listeners(shop: Shop) -> None:
    called: list[str] = []
    session = Session(shop.db.engine)

    @sa.event.listens_for(session, "before_commit", once=True)
    def _before_commit(found: Session) -> None:
        shop.start("before commit", called, found)
        found.add(shop.order(name="added late"))

    @sa.event.listens_for(session, "after_flush", once=True)
    def _after_flush(found: Session, context: object) -> None:
        shop.start("after flush", called, found)

    session.add(shop.order(name="second"))
    session.commit()
    session.close()

    assert sorted(called) == ["after flush", "before commit"]
    assert shop.jobs_seen() == sorted(called)
    assert shop.committed() == ["added late", "first", "second"]


def test_a_commit_that_fails_calls_nobody(shop: Shop) -> None:
    called: list[str] = []
    shop.start("a", called)

    @sa.event.listens_for(shop.db.engine, "commit")
    def _fail(connection: sa.Connection) -> None:
        raise RuntimeError("the wire is cut")

    with pytest.raises(RuntimeError):
        shop.db.session.commit()
    shop.db.session.rollback()
    sa.event.remove(shop.db.engine, "commit", _fail)

    assert called == []
    assert shop.jobs_seen() == []


def test_two_phase_commit(shop: Shop) -> None:
    if shop.db.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no two-phase commit")
    called: list[str] = []
    with Session(shop.db.engine, twophase=True) as session:
        shop.start("a", called, session)
        session.prepare()
        assert called == []
        assert uncommitted(session) is not None
        session.commit()
        assert called == ["a"]
        assert uncommitted(session) is None

        shop.start("b", called, session)
        with session.begin_nested():
            shop.start("c", called, session)
        session.commit()
        assert called == ["a", "b", "c"]

        shop.start("d", called, session)
        session.prepare()
        session.rollback()
    assert called == ["a", "b", "c"]
    assert shop.jobs_seen() == ["a", "b", "c"]


def test_the_other_bind_is_committed_with_it(shop: Shop) -> None:
    called: list[str] = []
    shop.db.session.add(shop.note(name="n"))
    shop.db.session.flush()
    shop.start("a", called)
    shop.db.session.commit()

    assert called == ["a"]
    assert shop.db.session.scalar(sa.select(sa.func.count()).select_from(shop.note)) == 1


def test_waiting_without_having_joined_is_a_mistake_of_ours(shop: Shop) -> None:
    with pytest.raises(RuntimeError, match="after join"):
        on_root_commit(shop.db.session, lambda: None)
    shop.db.session.execute(sa.select(shop.order))
    with pytest.raises(RuntimeError, match="after join"):
        on_root_commit(shop.db.session, lambda: None)


def test_a_forgotten_session_is_not_kept_alive(shop: Shop) -> None:
    session = Session(shop.ours)
    shop.start("a", [], session)
    on_root_commit(session, lambda bound=session: bound.info)  # type: ignore[misc]
    remembered = weakref.ref(session), weakref.ref(session.connection())

    del session
    gc.collect()

    assert [reference() for reference in remembered] == [None, None]
