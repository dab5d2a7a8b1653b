"""Looking at jobs through the public calls: what they name, what they show, what they refuse."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from flask_jobrunner import JobNotFound
from flask_jobrunner.caller import inspect
from flask_jobrunner.model.errors import ConfigError, InvalidPayload
from flask_jobrunner.model.records import Outcome
from flask_jobrunner.protocol.identity import this_process
from flask_jobrunner.runtime import Runtime
from tests.helpers.stores import (
    change,
    claim,
    everything,
    lines,
    owned,
    queue,
    start,
)
from tests.host_app import jobs

UNKNOWN = "01890000-0000-7000-8000-000000000000"
DEAD = replace(this_process(), pid=2**22 - 1, ticks=1)


def running(runtime: Runtime, count: int = 0) -> Any:
    won = start(runtime)
    if count:
        sent = lines(*(str(number) for number in range(1, count + 1)))
        runtime.ownership.beat(won.fence, lines=sent, last_seq=0)
    return won


# -- naming a job -----------------------------------------------------------------------------


def test_a_job_is_named_by_uuid_id_or_its_record(runtime: Runtime) -> None:
    job = queue(runtime)
    for ref in (job.uuid, job.uuid.upper(), job.id, job):
        found = jobs.get(ref)  # type: ignore[arg-type]
        assert found is not None
        assert found.uuid == job.uuid


@pytest.mark.parametrize(
    "ref",
    [
        *(0, -1, 2**31, 2**63 - 1, 2**63, 10**40, -(2**70)),
        *("", " ", "1", "x", UNKNOWN, UNKNOWN[:-1], f"{UNKNOWN}0", f" {UNKNOWN}", f"{UNKNOWN}\n"),
        *("\0", "\ud800", "'; DROP TABLE jobrun_jobs; --", "x" * 100_000, "\u0661"),
    ],
)
def test_what_names_no_job_is_simply_not_found(runtime: Runtime, ref: Any) -> None:
    queue(runtime)
    assert jobs.get(ref) is None
    assert jobs.status(ref).status == "not_found"
    assert jobs.cancel(ref).status == "not_found"
    assert jobs.get_many([ref]) == {}
    with pytest.raises(JobNotFound):
        jobs.wait(ref, 0)
    with pytest.raises(JobNotFound):
        jobs.url_for(ref)


@pytest.mark.parametrize("ref", [None, True, 1.0, b"x", [], uuid.UUID(UNKNOWN)])
def test_what_can_name_no_job_is_a_mistake(runtime: Runtime, ref: Any) -> None:
    with pytest.raises(InvalidPayload, match="named by its uuid or id"):
        jobs.get(ref)
    with pytest.raises(InvalidPayload, match="named by its uuid or id"):
        jobs.get_many([ref])


def test_many_at_once(runtime: Runtime) -> None:
    made = [queue(runtime) for _ in range(3)]
    found = jobs.get_many([made[0].uuid.upper(), made[1].id, UNKNOWN, 10**9])
    assert {key: job.id for key, job in found.items()} == {
        made[0].uuid: made[0].id,
        made[1].uuid: made[1].id,
    }
    assert jobs.get_many(iter(())) == {}


# -- status with a slice of the log -----------------------------------------------------------


def test_not_found(runtime: Runtime) -> None:
    result = jobs.status(UNKNOWN, after_seq=5)
    assert (result.status, result.ok, result.job) == ("not_found", False, None)
    assert (result.logs, result.last_log_seq, result.result, result.error) == ([], 0, None, None)


def test_none_gives_the_newest_and_a_number_the_lines_after_it(runtime: Runtime) -> None:
    won = running(runtime, 10)
    ref = won.fence.job_id

    def seqs(**values: Any) -> tuple[list[int], int]:
        result = jobs.status(ref, **values)
        assert result.ok
        return [line.seq for line in result.logs], result.last_log_seq

    assert seqs() == (list(range(1, 11)), 10)
    assert seqs(limit=3) == ([8, 9, 10], 10)
    assert seqs(after_seq=0, limit=3) == ([1, 2, 3], 3)
    assert seqs(after_seq=3, limit=100) == ([4, 5, 6, 7, 8, 9, 10], 10)
    assert seqs(after_seq=10) == ([], 10)
    assert seqs(after_seq=99) == ([], 99)
    assert seqs(after_seq=10**30) == ([], 10**30)
    assert seqs(limit=10**9)[1] == 10


def test_the_cursor_passed_back_unchanged_skips_and_repeats_nothing(runtime: Runtime) -> None:
    won = running(runtime)
    read: list[int] = []
    cursor = jobs.status(won.fence.job_id, after_seq=0).last_log_seq
    assert cursor == 0
    for number in range(6):
        sent = lines(*(str(n) for n in range(number)))
        last = owned(runtime, won.fence.job_id).log_seq
        runtime.ownership.beat(won.fence, lines=sent, last_seq=last)
        result = jobs.status(won.fence.job_id, after_seq=cursor, limit=2)
        read += [line.seq for line in result.logs]
        cursor = result.last_log_seq
    while logs := jobs.status(won.fence.job_id, after_seq=cursor, limit=2).logs:
        read += [line.seq for line in logs]
        cursor = logs[-1].seq
    assert read == list(range(1, 16))


def test_a_job_without_lines(runtime: Runtime) -> None:
    job = queue(runtime)
    for after in (None, 0, 7):
        result = jobs.status(job.id, after_seq=after)
        assert (result.logs, result.last_log_seq) == ([], after or 0)


@pytest.mark.parametrize("values", [{"after_seq": -1}, {"limit": 0}, {"limit": -5}])
def test_a_slice_that_cannot_be(runtime: Runtime, values: dict[str, int]) -> None:
    with pytest.raises(InvalidPayload):
        jobs.status(queue(runtime).id, **values)


def test_result_and_error(runtime: Runtime) -> None:
    good, bad = start(runtime), start(runtime)
    runtime.endings.finish(good.fence, Outcome(status="succeeded", result_json='{"a":[1]}'))
    failure = Outcome(
        status="failed", reason="handler_raised", error_class="ValueError", error_message="no"
    )
    runtime.endings.finish(bad.fence, failure)
    assert jobs.status(good.fence.job_id).result == {"a": [1]}
    assert jobs.status(good.fence.job_id).error is None
    told = jobs.status(bad.fence.job_id)
    assert told.result is None
    assert told.error == {
        "class": "ValueError",
        "reason_code": "handler_raised",
        "message": "no",
    }
    json.dumps(told.to_dict())


def test_what_is_shown_is_settled_first(runtime: Runtime) -> None:
    dead = start(runtime, worker=DEAD)
    assert jobs.status(dead.fence.job_id).job.status == "interrupted"  # type: ignore[union-attr]
    late = queue(runtime)
    change(runtime, late.id, claim_deadline=1)
    found = jobs.get(late.id)
    assert found is not None
    assert found.error_reason_code == "launch_timeout"


def test_nothing_shown_tells_a_secret(runtime: Runtime) -> None:
    job = queue(runtime)
    won = claim(runtime, job, token="the worker's token")
    shown = json.dumps(jobs.status(job.id).to_dict()) + repr(jobs.get(job.id))
    for secret in (won.fence.token, "worker_token", "credential", "hash", "lease_until"):
        assert secret not in shown


# -- lists ------------------------------------------------------------------------------------


def test_find_narrows_and_pages(runtime: Runtime) -> None:
    made = [queue(runtime, owner="ann") for _ in range(3)]
    runtime.jobs.cancel_queued(made[0].id, 1, None)
    page = jobs.find(owner="ann", limit=2)
    assert [job.id for job in page.jobs] == [made[2].id, made[1].id]
    assert [job.id for job in jobs.find(owner="ann", cursor=page.next_cursor).jobs] == [made[0].id]
    assert [job.id for job in jobs.find(status="cancelled").jobs] == [made[0].id]
    assert len(jobs.find(status=["queued", "cancelled"]).jobs) == 3
    json.dumps(page.to_dict())


def test_find_refuses_what_is_no_status_or_cursor(runtime: Runtime) -> None:
    for status in ("done", "QUEUED", ["queued", "x"], ""):
        with pytest.raises(InvalidPayload, match="is not a status"):
            jobs.find(status=status)
    with pytest.raises(InvalidPayload, match="cursor"):
        jobs.find(cursor="x")


@pytest.mark.parametrize("name", ["owner", "reference", "actor", "job_type", "lock_key"])
@pytest.mark.parametrize("value", ["a\0b", "\ud800", "%", "_", "' OR 1=1 --", "x" * 10_000])
def test_find_takes_any_text(runtime: Runtime, name: str, value: str) -> None:
    queue(runtime, owner="a", reference="a", actor="a", lock_key="a")
    assert jobs.find(**{name: value}).jobs == []  # type: ignore[arg-type]


def test_find_settles_nothing(runtime: Runtime) -> None:
    start(runtime, worker=DEAD)
    dump = everything(runtime)
    assert jobs.find().jobs[0].status == "running"
    assert everything(runtime) == dump


# -- waiting ----------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now, self.pauses = 100.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)


def test_wait_ends_with_the_job_or_with_the_time(runtime: Runtime) -> None:
    won, clock = running(runtime), Clock()

    def ends_soon(seconds: float) -> None:
        clock.pause(seconds)
        if len(clock.pauses) == 5:
            runtime.endings.finish(won.fence, Outcome(status="succeeded"))

    job = inspect.wait_for(runtime, won.fence.job_id, 60.0, monotonic=clock, pause=ends_soon)
    assert (job.status, len(clock.pauses)) == ("succeeded", 5)

    waiting, clock = queue(runtime), Clock()
    job = inspect.wait_for(runtime, waiting.id, 7.3, monotonic=clock, pause=clock.pause)
    assert job.status == "queued"
    assert sum(clock.pauses) == pytest.approx(7.3)
    assert max(clock.pauses) <= 1.0
    assert clock.pauses[0] <= 0.05


def test_wait_for_no_time_looks_once(runtime: Runtime) -> None:
    clock = Clock()
    for timeout in (0, -5, float("nan")):
        job = inspect.wait_for(
            runtime, queue(runtime).id, timeout, monotonic=clock, pause=clock.pause
        )
        assert job.is_active
    assert clock.pauses == []


# -- links ------------------------------------------------------------------------------------


def test_links_lead_to_where_it_was_started(runtime: Runtime) -> None:
    job = queue(runtime, base_url="https://shop.test/app")
    page = f"https://shop.test/app/jobs/{job.uuid}"
    assert jobs.url_for(job.uuid) == jobs.url_for(job) == page  # type: ignore[arg-type]
    assert jobs.url_for(job.id, tab="log", n=1, none=None) == f"{page}?tab=log&n=1"
    assert jobs.url_for(job.id, q="a b&c", _anchor="line-3") == f"{page}?q=a+b%26c#line-3"


def test_links_without_a_base_take_the_request_s_or_say_so(runtime: Runtime) -> None:
    job = queue(runtime)
    with pytest.raises(ConfigError, match="JOBRUNNER_BASE_URL"):
        jobs.url_for(job.uuid)
    with runtime.app.test_request_context(base_url="https://now.test/"):
        assert jobs.url_for(job.uuid) == f"https://now.test/jobs/{job.uuid}"


@pytest.mark.parametrize(
    "runtime_config",
    [{"JOBRUNNER_BASE_URL": "https://set.test/", "JOBRUNNER_URL_PREFIX": "/ops/jobs/"}],
)
def test_links_go_by_the_settings(runtime: Runtime) -> None:
    job = queue(runtime, base_url="https://shop.test")
    assert jobs.url_for(job.uuid) == f"https://set.test/ops/jobs/{job.uuid}"


@pytest.mark.parametrize("runtime_config", [{"JOBRUNNER_URL_PREFIX": None}])
def test_without_a_dashboard_there_are_no_links(runtime: Runtime) -> None:
    with pytest.raises(ConfigError, match="no dashboard"):
        jobs.url_for(queue(runtime).uuid)
