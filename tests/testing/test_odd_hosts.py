"""Hosts that keep their data in other ways than most, and threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner import JobRunnerError
from tests.testing.hosts import in_memory, make_shop


def test_jobs_of_a_bind_of_their_own() -> None:
    binds = {"jobs": "sqlite://"}
    shop = make_shop("sqlite://", "inline", SQLALCHEMY_BINDS=binds, JOBRUNNER_BIND_KEY="jobs")
    with shop.app.app_context():
        shop.db.create_all()
        assert sa.inspect(shop.db.engine).get_table_names() == ["orders"]
        number = shop.add("tea")
        assert shop.db.session.get(shop.order, number) is not None
        assert shop.jobs.start("orders.pack", {"order": number}).job.status == "succeeded"
        shop.jobs.start("orders.pack", {"order": number}, session=shop.db.session)
        shop.db.session.commit()
        assert shop.names() == ["tea, packed, packed"]


def test_a_session_without_savepoints_is_told_what_it_needs() -> None:
    shop = make_shop("sqlite://", "inline", join="conditional_savepoint")
    with shop.app.app_context():
        shop.db.create_all()
        engines: Any = shop.db.engines
        with shop.db.engine.connect() as connection:
            transaction = connection.begin()
            connection.execute(shop.order.__table__.insert().values(name="tea"))
            engines[None] = connection
            with pytest.raises(JobRunnerError, match=r"join_transaction_mode.*create_savepoint"):
                shop.jobs.start("orders.undo")
            transaction.close()


def test_a_database_in_memory_that_was_given_up_is_found_again() -> None:
    with in_memory("", "record") as shop, shop.app.app_context():
        shop.jobs.start("orders.fail")
        shop.db.session.remove()
        shop.db.engine.dispose()
        shop.db.create_all()
        assert shop.jobs.find().jobs == []
        assert shop.jobs.start("orders.fail").status == "started"


def test_an_inline_handler_may_ask_from_another_thread() -> None:
    with in_memory("", "inline") as shop, shop.app.app_context():
        job = shop.jobs.start("orders.thread").job
        assert "running" in [line.message for line in shop.jobs.status(job.uuid).logs]


def test_threads_on_one_connection_take_turns() -> None:
    with in_memory("", "record") as shop:
        errors, start = list[BaseException](), threading.Barrier(4)

        def ask() -> None:
            try:
                start.wait(20)
                for _ in range(25):
                    with shop.app.app_context():
                        shop.jobs.get(shop.jobs.start("orders.fail").job.uuid)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with shop.app.app_context():
            assert errors == []
            assert len(shop.jobs.recorded()) == len(shop.jobs.find(limit=200).jobs) == 100


def test_long_output_of_an_inline_job_is_all_there() -> None:
    with in_memory("", "inline") as shop:

        @shop.jobs.handler("orders.chat")
        def chat(ctx: Any) -> None:
            for number in range(5000):
                ctx.info(f"{number} {'x' * 4000}")

        with shop.app.app_context():
            job = shop.jobs.start("orders.chat").job
            seen = shop.jobs.status(job.uuid, 0, 2)
            assert job.status == "succeeded"
            assert [line.message[:2] for line in seen.logs][1:] == ["0 "]
            # And the runner's own, first and last.
            assert shop.jobs.status(job.uuid, limit=1).last_log_seq == 5002
