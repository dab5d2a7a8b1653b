"""Savepoints decide about the rows that joined inside them, in any nesting."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from flask_jobrunner.repositories.host_session import uncommitted

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


@pytest.mark.parametrize("seed", range(12))
def test_any_nesting_tells_the_truth(shop: Shop, strict: sa.Engine, seed: int) -> None:
    with Session(strict) as session:
        walk = Walk(shop, session, seed)
        for _ in range(30):
            walk.step()
        standing, keep = walk.standing(), walk.random.random() < 0.7
        (session.commit if keep else session.rollback)()

    assert walk.called == (standing if keep else [])
    assert shop.jobs_seen() == sorted(walk.called)
