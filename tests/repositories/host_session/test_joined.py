"""A row that joins the host's transaction, and the callback after its root commit."""

from __future__ import annotations

import contextlib
import gc
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from flask_jobrunner.repositories.host_session import (
    SessionRefused,
    join,
    on_root_commit,
    uncommitted,
)

from .conftest import Shop


def begins_by_hand(engine: sa.Engine) -> sa.Engine:
    """SQLAlchemy's recipe for savepoints on SQLite; other databases need none."""
    if engine.dialect.name == "sqlite":

        @sa.event.listens_for(engine, "connect")
        def _connect(connection: Any, record: Any) -> None:
            connection.isolation_level = None

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN")

    return engine


@pytest.fixture
def strict(shop: Shop) -> sa.Engine:
    """Another engine on the same URL, on which savepoints work everywhere."""
    return begins_by_hand(sa.create_engine(shop.ours.url, poolclass=sa.NullPool))


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


def test_a_savepoints_release_is_no_commit(shop: Shop, strict: sa.Engine) -> None:
    called: list[str] = []
    with Session(strict) as session:
        with session.begin_nested():
            shop.start("a", called, session)
        assert called == []
        assert shop.jobs_seen() == []
        session.commit()

    assert called == ["a"]


def test_a_rolled_back_savepoint_takes_its_own_along(shop: Shop, strict: sa.Engine) -> None:
    called: list[str] = []
    with Session(strict) as session:
        shop.start("before", called, session)
        nested = session.begin_nested()
        shop.start("inside", called, session)
        with session.begin_nested():
            shop.start("released inside", called, session)
        nested.rollback()
        shop.start("after", called, session)
        session.commit()

    assert called == ["before", "after"]
    assert shop.jobs_seen() == ["after", "before"]


def test_an_error_in_a_savepoint_takes_its_own_along(shop: Shop, strict: sa.Engine) -> None:
    called: list[str] = []
    with Session(strict) as session:
        nested = session.begin_nested()
        shop.start("inside", called, session)
        session.add(shop.order(name="first"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        nested.rollback()
        session.commit()

    assert called == []
    assert shop.jobs_seen() == []


def test_the_root_rolls_back_after_a_release(shop: Shop, strict: sa.Engine) -> None:
    called: list[str] = []
    with Session(strict) as session:
        with session.begin_nested():
            shop.start("a", called, session)
        session.rollback()
        session.commit()

    assert called == []
    assert shop.jobs_seen() == []


def test_commit_inside_a_savepoint_goes_to_the_root(shop: Shop, strict: sa.Engine) -> None:
    called: list[str] = []
    with Session(strict) as session:
        session.begin_nested()
        shop.start("a", called, session)
        session.commit()

    assert called == ["a"]
    assert shop.jobs_seen() == ["a"]


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


def test_another_engine_is_refused_with_both_addresses(shop: Shop, tmp_path: Path) -> None:
    elsewhere = sa.create_engine("postgresql+psycopg://bob:hunter2@db.example/shop")
    for session in (Session(elsewhere), scoped_session(sessionmaker(elsewhere))):
        with pytest.raises(SessionRefused) as caught:
            join(session, shop.ours, shop.jobs)
        assert "bob:***@db.example/shop" in str(caught.value)
        assert repr(shop.ours.url) in str(caught.value)
        assert "hunter2" not in str(caught.value)

    with pytest.raises(SessionRefused, match=r"jobs are in postgresql\+psycopg://bob:\*\*\*@"):
        join(Session(shop.ours), elsewhere, shop.jobs)


def test_a_table_of_another_bind_is_refused(shop: Shop) -> None:
    with pytest.raises(SessionRefused, match=r"notes\.sqlite"):
        join(shop.db.session, shop.ours, shop.note.__table__)


def test_sessions_that_cannot_take_a_row_are_refused(shop: Shop) -> None:
    with pytest.raises(SessionRefused, match="bound to no engine"):
        join(Session(), shop.ours, shop.jobs)
    with pytest.raises(SessionRefused, match="not a SQLAlchemy"):
        join(shop.db, shop.ours, shop.jobs)  # type: ignore[arg-type]
    with (
        shop.db.engine.connect() as connection,
        pytest.raises(SessionRefused, match="bound to a Connection"),
    ):
        join(Session(connection), shop.ours, shop.jobs)


def test_autocommit_is_refused(shop: Shop) -> None:
    autocommit = shop.db.engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(autocommit) as session, pytest.raises(SessionRefused, match="autocommit"):
        join(session, shop.ours, shop.jobs)
    by_driver = sa.create_engine(shop.ours.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with Session(by_driver) as session, pytest.raises(SessionRefused, match="autocommit"):
        join(session, shop.ours, shop.jobs)


def test_memory_is_the_same_database_only_in_one_pool() -> None:
    table = sa.Table("jobs", sa.MetaData(), sa.Column("name", sa.String(50)))
    one, two = sa.create_engine("sqlite://"), sa.create_engine("sqlite://")
    with Session(one) as session:
        with pytest.raises(SessionRefused):
            join(session, two, table)
        assert join(session, one.execution_options(note=1), table) is session.connection()
    one.dispose()


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


Move = Callable[["Walk"], None]


class Walk:
    """A random walk through one transaction, with what should stand at each point."""

    def __init__(self, shop: Shop, session: Session, seed: int) -> None:
        self.shop, self.session, self.random = shop, session, random.Random(seed)
        self.called: list[str] = []
        self.levels: list[tuple[Any, list[str], bool]] = [(None, [], False)]
        self.number = 0

    def insert(self) -> None:
        self.number += 1
        name = f"job {self.number}"
        self.shop.start(name, self.called, self.session)
        self.levels[-1][1].append(name)

    def write(self) -> None:
        self.number += 1
        self.session.add(self.shop.order(name=f"order {self.number}"))
        self.session.flush()
        above, names, _ = self.levels[-1]
        self.levels[-1] = (above, names, True)

    def savepoint(self) -> None:
        if self.levels[-1][0] is None or self.random.random() < 0.5:
            self.levels.append((self.session.begin_nested(), [], False))

    def release(self) -> None:
        if len(self.levels) > 1:
            nested, names, written = self.levels.pop()
            nested.commit()
            above, kept, wrote = self.levels[-1]
            self.levels[-1] = (above, kept + names, wrote or written)

    def undo(self) -> None:
        if len(self.levels) > 1:
            nested, _, _ = self.levels.pop()
            nested.rollback()

    def read(self) -> None:
        self.session.execute(sa.select(self.shop.order)).all()

    def step(self) -> None:
        move: Move = self.random.choice(
            [Walk.insert, Walk.write, Walk.read, Walk.release, *[Walk.savepoint, Walk.undo] * 2]
        )
        move(self)
        dirty = any(names or written for _, names, written in self.levels)
        assert (uncommitted(self.session) is not None) == dirty
        assert self.called == []

    def standing(self) -> list[str]:
        return [name for _, names, _ in self.levels for name in names]


@pytest.mark.parametrize("seed", range(20))
def test_any_nesting_tells_the_truth(shop: Shop, strict: sa.Engine, seed: int) -> None:
    with Session(strict) as session:
        walk = Walk(shop, session, seed)
        for _ in range(30):
            walk.step()
        standing, keep = walk.standing(), walk.random.random() < 0.7
        (session.commit if keep else session.rollback)()

    assert walk.called == (standing if keep else [])
    assert shop.jobs_seen() == sorted(walk.called)
