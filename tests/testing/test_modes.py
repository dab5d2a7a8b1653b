"""Views of a host in `record` and `inline` mode, in every way in which hosts keep their data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import g

from flask_jobrunner import (
    ConfigError,
    InvalidPayload,
    JobContext,
    UncommittedChanges,
    UnknownJobType,
    job_created,
    job_finished,
)
from tests.testing.hosts import Shop

both_modes = pytest.mark.parametrize("mode", ["record", "inline"])
inline = pytest.mark.parametrize("mode", ["inline"])
record = pytest.mark.parametrize("mode", ["record"])


def post(shop: Shop, path: str) -> dict[str, Any]:
    """What a view answers, from a request with a context of its own."""
    answer = shop.app.test_client().post(path)
    assert answer.status_code == 200, answer.text
    values: dict[str, Any] = answer.get_json()
    return values


@both_modes
@pytest.mark.parametrize(("call", "status"), [("start", "started"), ("enqueue", "queued")])
def test_a_view_behaves_as_when_all_went_well(
    shop: Shop, mode: str, call: str, status: str
) -> None:
    with shop.app.app_context():
        number = shop.add("tea")
    answer = post(shop, f"/orders/{number}/{call}/orders.pack")

    assert (answer["status"], answer["ok"], answer["name"]) == (status, True, "tea")
    with shop.app.app_context():
        (seen,) = shop.jobs.recorded()
        assert (seen.kind, seen.job_type, seen.payload) == (call, "orders.pack", {"order": number})
        assert (seen.title, seen.lock_key) == ("Pack", f"order:{number}")
        job = shop.jobs.get(answer["job"])
        assert job is not None
        assert job.status == ("queued" if mode == "record" else "succeeded")
        again = post(shop, f"/orders/{number}/{call}/orders.pack")
        assert again["status"] == ("already_active" if mode == "record" else status)
    assert shop.names() == (["tea"] if mode == "record" else ["tea, packed, packed"])


@both_modes
def test_what_is_wrong_is_refused_as_in_production(any_shop: Shop) -> None:
    shop = any_shop
    with shop.app.app_context():
        with pytest.raises(UnknownJobType):
            shop.jobs.start("orders.unknown")
        with pytest.raises(InvalidPayload):
            shop.jobs.enqueue("orders.pack", {"order": {1}})
        with pytest.raises(InvalidPayload):
            shop.jobs.start("orders.pack", wait=-1)
        shop.db.session.add(shop.order(name="open"))
        for ask in (shop.jobs.start, shop.jobs.enqueue):
            with pytest.raises(UncommittedChanges, match="Order"):
                ask("orders.pack", {"order": 1})
        shop.db.session.flush()
        with pytest.raises(UncommittedChanges, match="INSERT INTO orders"):
            shop.jobs.start("orders.pack", {"order": 1})
        shop.db.session.rollback()

        assert shop.jobs.recorded() == []
        assert shop.jobs.find().jobs == []


@both_modes
def test_a_job_follows_the_transaction_that_it_joined(shop: Shop, mode: str) -> None:
    answer = post(shop, "/orders/tea")

    assert (answer["status"], answer["ok"]) == ("launching", True)
    with shop.app.app_context():
        assert [one.kind for one in shop.jobs.recorded("orders.pack")] == ["start"]
        job = shop.jobs.get(answer["job"])
        assert job is not None
        assert job.status == ("queued" if mode == "record" else "succeeded")
    assert shop.names() == (["tea"] if mode == "record" else ["tea, packed"])


@both_modes
@pytest.mark.parametrize("call", ["start", "enqueue"])
def test_a_rollback_leaves_nothing_of_what_joined(shop: Shop, call: str) -> None:
    with shop.app.app_context():
        shop.db.session.add(shop.order(name="never"))
        shop.db.session.flush()
        getattr(shop.jobs, call)("orders.pack", {"order": 1}, session=shop.db.session)
        shop.db.session.rollback()

        assert shop.jobs.recorded() == []
        assert shop.jobs.find().jobs == []
        assert shop.names() == []


@record
def test_everything_that_was_asked_for_is_recorded_in_order(any_shop: Shop) -> None:
    shop = any_shop
    later = datetime.now(UTC) + timedelta(days=1)
    with shop.app.app_context():
        shop.jobs.start("orders.pack", {"order": 1}, owner="ann", reference="order:1", actor="bob")
        shop.jobs.enqueue("orders.fail", priority=7, not_before=later, title="Fail", lock_key="f")
        shop.jobs.enqueue("orders.fail", lock_key="f")

        first, second = shop.jobs.recorded()
        assert (first.kind, first.owner, first.reference, first.actor) == (
            "start",
            "ann",
            "order:1",
            "bob",
        )
        assert (second.kind, second.priority, second.not_before) == ("enqueue", 7, later)
        assert (second.title, second.lock_key, second.payload) == ("Fail", "f", None)
        assert second.job.status == "queued"
        assert shop.jobs.recorded("orders.pack") == [first]
        assert shop.jobs.recorded("orders") == []


@record
def test_a_recorded_job_waits_for_ever_and_can_be_cancelled_and_requeued(shop: Shop) -> None:
    with shop.app.app_context():
        for ask, answer in ((shop.jobs.start, "started"), (shop.jobs.enqueue, "queued")):
            job = ask("orders.stop", lock_key="k").job.uuid
            late = shop.runtime.database.clock() + 10**12
            shop.runtime.database.clock = lambda now=late: now  # type: ignore[misc]
            assert shop.jobs.wait(job, 0).status == "queued"
            assert shop.jobs.cancel(job).status == "cancelled"
            again = shop.jobs.requeue(job)
            assert (again.status, again.ok) == (answer, True)
            assert shop.jobs.recorded()[-1].kind == "requeue"
            assert shop.jobs.recorded()[-1].job.attempt == 2
            assert shop.jobs.cancel(job).status == "cancelled"


@both_modes
def test_who_does_not_wait_is_told_what_it_would_be_told(any_shop: Shop) -> None:
    shop = any_shop
    with shop.app.app_context():
        number = shop.add("tea")
        shop.db.session.commit()
        assert shop.jobs.start("orders.pack", {"order": number}, wait=False).status == "launching"
        assert shop.jobs.start("orders.pack", {"order": number}, wait=2.5).status == "started"


@inline
def test_a_handler_that_fails_fails_its_job_and_not_the_view(shop: Shop) -> None:
    with shop.app.app_context():
        number = shop.add("tea")
    answer = post(shop, f"/orders/{number}/start/orders.fail")

    assert (answer["status"], answer["ok"], answer["name"]) == ("started", True, "tea")
    with shop.app.app_context():
        seen = shop.jobs.status(answer["job"])
        assert seen.error == {
            "class": "ValueError",
            "reason_code": "handler_raised",
            "message": "no such shelf",
        }
        lines = [line.message for line in seen.logs]
        assert "about to fail" in lines
        assert any("no such shelf" in line for line in lines)
        again = shop.jobs.requeue(answer["job"])
        assert (again.status, again.job and again.job.status) == ("started", "failed")
    assert shop.names() == ["tea"]


@inline
def test_a_job_can_cancel_itself_and_start_others(shop: Shop) -> None:
    with shop.app.app_context():
        number = shop.add("tea")
        assert shop.jobs.start("orders.stop").job.status == "cancelled"
        chained = shop.jobs.enqueue("orders.chain", {"order": number}).job.uuid
        assert shop.jobs.status(chained).result == "tea, packed"
        assert [one.job_type for one in shop.jobs.recorded()] == [
            "orders.stop",
            "orders.chain",
            "orders.pack",
        ]
        again = shop.jobs.requeue(shop.jobs.recorded()[0].job.uuid)
        assert again.job is not None
        assert (again.status, again.job.status) == ("started", "cancelled")


@inline
def test_a_pulled_job_runs_at_once_whenever_it_may_begin(any_shop: Shop) -> None:
    shop = any_shop
    later = datetime.now(UTC) + timedelta(days=1)
    with shop.app.app_context():
        number = shop.add("tea")
        made = shop.jobs.enqueue("orders.pack", {"order": number}, not_before=later)
        assert (made.status, made.job.status, made.job.not_before) == ("queued", "succeeded", later)


@inline
@pytest.mark.parametrize("call", ["start", "enqueue", "run_inline"])
def test_a_handler_sees_no_request(any_shop: Shop, call: str) -> None:
    shop = any_shop
    with shop.app.test_request_context():
        g.view = "test"
        job = getattr(shop.jobs, call)("orders.look").job.uuid
        assert shop.jobs.status(job).result == [False, False, True]
        assert (g.view, shop.jobs.url_for(job)) == ("test", f"http://localhost/jobs/{job}")


@inline
def test_run_inline_starts_no_thread_either(any_shop: Shop) -> None:
    shop = any_shop
    with shop.app.app_context():
        number = shop.add("tea")
        result = shop.jobs.run_inline("orders.pack", {"order": number})
        assert (result.status, result.result) == ("succeeded", "tea, packed")


@inline
def test_signals_are_sent_in_the_order_of_a_job_s_life(any_shop: Shop) -> None:
    shop = any_shop
    heard: list[str] = []

    def created(app: Any, job: Any) -> None:
        heard.append(f"created {job.status}")

    def finished(app: Any, job: Any) -> None:
        heard.append(f"finished {job.status}")

    with (
        job_created.connected_to(created, shop.app),
        job_finished.connected_to(finished, shop.app),
        shop.app.app_context(),
    ):
        shop.jobs.start("orders.fail")

    assert heard == ["created queued", "finished failed"]


@both_modes
def test_the_pages_show_what_was_started(shop: Shop, mode: str) -> None:
    with shop.app.app_context():
        number = shop.add("tea")
    job = post(shop, f"/orders/{number}/start/orders.pack")["job"]
    client = shop.app.test_client()

    assert "Pack" in client.get("/jobs/").text
    page = client.get(f"/jobs/{job}")
    assert page.status_code == 200
    assert ("packing" in page.text) == (mode == "inline")


@pytest.mark.parametrize("mode", ["process"])
def test_process_mode_refuses_what_no_other_process_sees(shared_shop: Shop) -> None:
    with shared_shop.app.app_context():
        assert shared_shop.db.session is not None
        shared_shop.db.session.execute(shared_shop.db.select(1))
        for ask in (shared_shop.jobs.start, shared_shop.jobs.enqueue):
            with pytest.raises(ConfigError, match=r'MODE is "process".*app\.config\["JOBRUNNER_M'):
                ask("orders.fail")
        with pytest.raises(ConfigError, match="nothing is recorded"):
            shared_shop.jobs.recorded()


@inline
def test_a_job_that_was_cancelled_as_it_was_created_does_not_run(any_shop: Shop) -> None:
    shop = any_shop

    def cancel(app: Any, job: Any) -> None:
        shop.jobs.cancel(job.uuid)

    with job_created.connected_to(cancel, shop.app), shop.app.app_context():
        started = shop.jobs.start("orders.fail")
        assert (started.status, started.reason_code) == ("launch_failed", "cancelled")
        queued = shop.jobs.enqueue("orders.fail")
        assert (queued.status, queued.job.status) == ("queued", "cancelled")


@inline
def test_a_job_that_was_closed_while_it_ran_is_told_as_it_is(
    any_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = any_shop

    @shop.jobs.handler("orders.lost")
    def lost(ctx: JobContext) -> None:
        jobs = shop.runtime.database.tables.jobs
        gone = jobs.update().where(jobs.c.id == ctx.job_id).values(worker_token="another's")
        shop.runtime.database.run(lambda connection: connection.execute(gone))

    with shop.app.app_context():
        started = shop.jobs.start("orders.lost")
        assert (started.status, started.job.status) == ("started", "running")
        queued = shop.jobs.enqueue("orders.lost")
        assert (queued.status, queued.job.status) == ("queued", "running")
