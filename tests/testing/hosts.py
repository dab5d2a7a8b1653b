"""A host application as its own tests have it: in memory, on one connection, or on engines.

The ways in which hosts set up rollback-per-test are those that their documentations show.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from flask import Flask, current_app, g, has_request_context, jsonify
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import scoped_session, sessionmaker

from flask_jobrunner import JobCancelled, JobContext, JobRunner
from flask_jobrunner.runtime import Runtime


@dataclass
class Shop:
    """The host: orders, views that start jobs for them, and handlers that pack them."""

    app: Flask
    db: SQLAlchemy
    jobs: JobRunner
    order: type[Any]

    @property
    def runtime(self) -> Runtime:
        """The runtime of its jobs."""
        found: Runtime = self.app.extensions["jobrunner"]
        return found

    def add(self, name: str) -> int:
        """Commit an order, as a test arranges its data."""
        order = self.order(name=name)
        self.db.session.add(order)
        self.db.session.commit()
        return int(order.id)

    def names(self) -> list[str]:
        """The names of all orders, as a session of its own sees them."""
        with self.app.app_context():
            return sorted(self.db.session.scalars(sa.select(self.order.name)))


def make_shop(
    url: str, mode: str = "process", *, join: str = "create_savepoint", **config: Any
) -> Shop:
    """The application, without its tables."""
    app = Flask("shop")
    app.config.update(SQLALCHEMY_DATABASE_URI=url, JOBRUNNER_MODE=mode, TESTING=True, **config)
    db = SQLAlchemy(session_options={"join_transaction_mode": join})
    jobs = JobRunner()

    class Order(db.Model):  # type: ignore[name-defined,misc]
        __tablename__ = "orders"
        id = sa.Column(sa.Integer, primary_key=True)
        name = sa.Column(sa.String(50))

    shop = Shop(app, db, jobs, Order)
    _handlers(shop)
    _odd_handlers(shop)
    _curious_handlers(shop)
    _calling_handlers(shop)
    _views(shop)
    jobs.authorize(lambda action, job: True)
    db.init_app(app)
    jobs.init_app(app, db)
    return shop


def _handlers(shop: Shop) -> None:
    db, jobs = shop.db, shop.jobs

    @jobs.handler("orders.pack", title="Pack")
    def pack(ctx: JobContext) -> str:
        ctx.info("packing", order=ctx.payload["order"])
        order: Any = db.session.get(shop.order, ctx.payload["order"])
        order.name = f"{order.name}, packed"
        db.session.commit()
        return str(order.name)

    @jobs.handler("orders.fail")
    def fail(ctx: JobContext) -> None:
        db.session.add(shop.order(name="never"))
        db.session.flush()
        ctx.warning("about to fail")
        raise ValueError("no such shelf")


def _odd_handlers(shop: Shop) -> None:
    db, jobs = shop.db, shop.jobs

    @jobs.handler("orders.break")
    def break_transaction(ctx: JobContext) -> None:
        db.session.add(shop.order(name="never"))
        db.session.flush()
        db.session.execute(sa.text("SELECT nonsense FROM nowhere"))

    @jobs.handler("orders.undo")
    def undo(ctx: JobContext) -> None:
        db.session.add(shop.order(name="never"))
        db.session.flush()
        db.session.rollback()
        db.session.add(shop.order(name="second thought"))
        db.session.commit()


def _curious_handlers(shop: Shop) -> None:
    jobs = shop.jobs

    @jobs.handler("orders.look")
    def look(ctx: JobContext) -> list[bool]:
        return [has_request_context(), "view" in g, current_app == shop.app]

    @jobs.handler("orders.thread")
    def ask_in_a_thread(ctx: JobContext) -> None:
        def ask() -> None:
            with shop.app.app_context():
                ctx.info(jobs.wait(ctx.job_uuid, 0).status)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(20)


def _calling_handlers(shop: Shop) -> None:
    jobs = shop.jobs

    @jobs.handler("orders.stop")
    def stop(ctx: JobContext) -> None:
        jobs.cancel(ctx.job_uuid)
        if ctx.is_cancellation_requested():
            raise JobCancelled

    @jobs.handler("orders.chain")
    def chain(ctx: JobContext) -> str:
        first = jobs.start("orders.pack", ctx.payload).job.uuid
        return str(jobs.status(first).result)


def _views(shop: Shop) -> None:
    db, jobs, app = shop.db, shop.jobs, shop.app

    @app.post("/orders/<int:number>/<call>/<job_type>")
    def ask(number: int, call: str, job_type: str) -> Any:
        g.view = "ask"
        order: Any = db.session.get(shop.order, number)  # a transaction that is never committed
        made = getattr(jobs, call)(job_type, {"order": number}, lock_key=f"order:{number}")
        return jsonify(status=made.status, ok=made.ok, job=made.job.uuid, name=order.name)

    @app.post("/orders/<name>")
    def create(name: str) -> Any:
        order = shop.order(name=name)
        db.session.add(order)
        db.session.flush()
        made = jobs.start("orders.pack", {"order": order.id}, session=db.session)
        db.session.commit()
        return jsonify(status=made.status, ok=made.ok, job=made.job.uuid)


Setting = Callable[[str, str], Any]


@contextmanager
def in_memory(url: str, mode: str) -> Iterator[Shop]:
    """`sqlite:///:memory:`, as most small hosts test."""
    shop = make_shop("sqlite:///:memory:", mode)
    with shop.app.app_context():
        shop.db.create_all()
    yield shop
    with shop.app.app_context():
        shop.db.engine.dispose()


@contextmanager
def in_memory_with_events(url: str, mode: str) -> Iterator[Shop]:
    """The same with the two events by which SQLite's savepoints work."""
    shop = make_shop("sqlite:///:memory:", mode)
    with shop.app.app_context():
        begin_for_real(shop.db.engine)
        shop.db.create_all()
    yield shop
    with shop.app.app_context():
        shop.db.engine.dispose()


@contextmanager
def on_engines(url: str, mode: str) -> Iterator[Shop]:
    """No trick: what a test commits is committed."""
    shop = make_shop(url, mode)
    with shop.app.app_context():
        shop.db.create_all()
    yield shop
    with shop.app.app_context():
        shop.db.engine.dispose()


@contextmanager
def engines_replaced(url: str, mode: str) -> Iterator[Shop]:
    """A connection takes the engine's place, and the test's end rolls it back."""
    shop = make_shop(url, mode)
    with shop.app.app_context():
        shop.db.create_all()
        engines: Any = shop.db.engines
        engine = engines[None]
    if engine.dialect.name == "sqlite":
        begin_for_real(engine)
    with engine.connect() as connection:
        transaction = connection.begin()
        engines[None] = connection
        yield shop
        transaction.rollback()
        engines[None] = engine
    assert_nothing_left(shop, engine)
    engine.dispose()


@contextmanager
def session_replaced(url: str, mode: str) -> Iterator[Shop]:
    """`db.session` goes by thread and is bound to one connection."""
    shop = make_shop(url, mode)
    with shop.app.app_context():
        shop.db.create_all()
        engine = shop.db.engine
    if engine.dialect.name == "sqlite":
        begin_for_real(engine)
    with engine.connect() as connection:
        transaction = connection.begin()
        factory: Any = sessionmaker(connection, join_transaction_mode="create_savepoint")
        shop.db.session = scoped_session(factory)
        yield shop
        shop.db.session.remove()
        transaction.rollback()
    assert_nothing_left(shop, engine)
    engine.dispose()


def assert_nothing_left(shop: Shop, engine: sa.Engine) -> None:
    """Whether the test's rollback took everything along, as it does with the host's own rows."""
    with engine.connect() as connection:
        for table in shop.db.metadata.tables.values():
            count = sa.select(sa.func.count()).select_from(table)
            assert connection.scalar(count) == 0, table.name


def begin_for_real(engine: sa.Engine) -> None:
    """SQLAlchemy's recipe for SQLite: sqlite3 begins nothing by itself, the engine does."""

    @sa.event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    engine.dispose()


SHARED: dict[str, Any] = {
    "memory": in_memory,
    "memory with events": in_memory_with_events,
    "engines replaced": engines_replaced,
    "session replaced": session_replaced,
}
EVERY: dict[str, Any] = SHARED | {"engines": on_engines}
