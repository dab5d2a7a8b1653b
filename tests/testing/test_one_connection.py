"""Jobs and the host's session on one connection: neither takes the other's work along."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.repositories.host_session import uncommitted
from tests.testing.hosts import Shop

both_modes = pytest.mark.parametrize("mode", ["record", "inline"])


@both_modes
def test_a_session_that_has_read_goes_on_as_if_nothing_had_happened(shared_shop: Shop) -> None:
    shop, session = shared_shop, shared_shop.db.session
    with shop.app.app_context():
        number = shop.add("tea")
        order: Any = session.get(shop.order, number)
        job = shop.jobs.start("orders.fail").job.uuid
        assert uncommitted(session) is None
        assert order in session

        order.name = "undone"
        session.flush()
        session.rollback()
        assert order.name == "tea"
        order.name = "kept"
        session.commit()
        session.remove()
        assert shop.names() == ["kept"]
        assert shop.jobs.get(job) is not None


@both_modes
def test_savepoints_of_the_session_stay_what_they_were(shared_shop: Shop) -> None:
    shop, session = shared_shop, shared_shop.db.session
    with shop.app.app_context():
        number = shop.add("tea")
        if _loses_savepoints(shop):
            pytest.skip("sqlite3 begins no transaction before a savepoint")
        assert session.get(shop.order, number) is not None
        outer = session.begin_nested()
        inner = session.begin_nested()
        job = shop.jobs.start("orders.fail").job.uuid
        session.add(shop.order(name="inner"))
        session.flush()
        inner.rollback()
        session.add(shop.order(name="outer"))
        outer.commit()
        assert uncommitted(session) is not None
        session.rollback()

        assert shop.names() == ["tea"]
        assert shop.jobs.get(job) is not None


@both_modes
def test_a_session_that_has_written_keeps_its_transaction(shared_shop: Shop) -> None:
    shop, session = shared_shop, shared_shop.db.session
    with shop.app.app_context():
        job = shop.jobs.start("orders.fail").job.uuid
        session.add(shop.order(name="open"))
        session.flush()
        shop.jobs.cancel(job)
        shop.jobs.find()
        session.rollback()

        assert shop.names() == []
        assert shop.jobs.get(job) is not None


@both_modes
def test_what_is_not_flushed_is_in_nobody_s_way(shared_shop: Shop) -> None:
    shop, session = shared_shop, shared_shop.db.session
    with shop.app.app_context():
        number = shop.add("tea")
        job = shop.jobs.start("orders.fail", lock_key="k").job.uuid
        order: Any = session.get(shop.order, number)
        order.name = "not flushed"
        shop.jobs.cancel(job)
        session.rollback()

        assert shop.names() == ["tea"]
        assert shop.jobs.wait(job, 0).is_terminal


@both_modes
def test_the_view_s_objects_stay_in_its_session(shared_shop: Shop) -> None:
    shop, session = shared_shop, shared_shop.db.session
    with shop.app.app_context():
        number = shop.add("tea")
        order = session.get(shop.order, number)
        shop.jobs.start("orders.pack", {"order": number})

        assert sa.inspect(order).session is session()
        session.refresh(order)
        session.remove()


@pytest.mark.parametrize("mode", ["inline"])
@pytest.mark.parametrize(("job_type", "status"), [("break", "failed"), ("undo", "succeeded")])
def test_a_handler_s_rollback_undoes_what_it_did_and_nothing_else(
    shared_shop: Shop, job_type: str, status: str
) -> None:
    shop = shared_shop
    with shop.app.app_context():
        shop.add("tea")
        assert shop.jobs.start(f"orders.{job_type}").job.status == status
        shop.db.session.rollback()
        left = ["tea"] if job_type == "break" else ["second thought", "tea"]
        assert shop.names() == left
        assert len(shop.jobs.find(status=status).jobs) == 1


@pytest.mark.parametrize("mode", ["record"])
def test_what_is_written_beside_open_changes_shares_their_fate(shared_shop: Shop) -> None:
    shop, session = shared_shop, shared_shop.db.session
    shop.runtime.config = replace(shop.runtime.config, uncommitted="warn")
    with shop.app.app_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.add(shop.order(name="open"))
        session.flush()
        kept = shop.jobs.start("orders.fail").job.uuid
        session.commit()
        session.add(shop.order(name="never"))
        session.flush()
        lost = shop.jobs.start("orders.fail").job.uuid
        session.rollback()

        assert shop.names() == ["open"]
        assert shop.jobs.get(kept) is not None
        assert shop.jobs.get(lost) is None


def _loses_savepoints(shop: Shop) -> bool:
    engine = shop.db.engine
    raw = shop.runtime.database.engine.raw_connection()
    return engine.dialect.name == "sqlite" and getattr(raw, "isolation_level", None) is not None
