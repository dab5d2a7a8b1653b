"""A COMMIT whose answer is lost, under a whole start and under a job's process that claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event

from flask_jobrunner import JobRunner
from flask_jobrunner.model.errors import DatabaseAway
from flask_jobrunner.runtime import Runtime
from tests.child.direct import a_row, line_of, start_child
from tests.helpers.hosts import HostEnvironment
from tests.helpers.lossy import Loss, LossyProxy, proxy_before
from tests.helpers.processes import processes_with
from tests.helpers.proxy import proxy_to
from tests.helpers.stores import assert_sound, change, history, row
from tests.helpers.supervising import PATIENCE, ledger_of
from tests.host_acts import script

pytestmark = pytest.mark.slow
LOSSES: tuple[Loss, ...] = ("answer", "question")


@pytest.fixture(
    params=[
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def database_url(request: pytest.FixtureRequest) -> str:
    """The databases that have a network before them."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


class TestOfAStart:
    @pytest.fixture
    def real_url(self, database_url: str) -> str:
        return database_url

    @pytest.mark.parametrize("what", LOSSES)
    def test_it_is_looked_up_and_launched_once(
        self,
        host_app: Flask,
        host_jobs: JobRunner,
        far: LossyProxy,
        tmp_path: Path,
        what: Loss,
    ) -> None:
        runtime: Runtime = host_app.extensions["jobrunner"]
        runtime.meta.ensure()
        far.lose(what)
        acts = script(("return", 7), ledger=tmp_path / "ledger")
        started = host_jobs.start("host.script", acts, lock_key="k")

        assert (started.status, far.losses) == ("started", 1)
        assert host_jobs.wait(started.job.uuid, PATIENCE).status == "succeeded"
        assert [job.uuid for job in host_jobs.find().jobs] == [started.job.uuid]
        assert ledger_of(tmp_path / "ledger").total() == 2
        assert runtime.jobs.holder("k") is None
        assert_sound(runtime)

    @pytest.fixture
    def far(self, host_app: Flask, real_url: str) -> Iterator[LossyProxy]:
        """Between this process and the database; what it starts goes the usual way."""
        runtime: Runtime = host_app.extensions["jobrunner"]
        with proxy_before(real_url) as proxy:
            _goes_by(runtime, proxy.listener.getsockname()[1])
            yield proxy

    def test_without_an_answer_nothing_is_launched_and_the_row_ends(
        self,
        host_app: Flask,
        host_jobs: JobRunner,
        host_environment: HostEnvironment,
        real_url: str,
        tmp_path: Path,
    ) -> None:
        runtime: Runtime = host_app.extensions["jobrunner"]
        runtime.meta.ensure()
        acts = script(ledger=tmp_path / "ledger")
        with proxy_to(real_url) as proxy:
            _goes_by(runtime, proxy.port)
            proxy.cut_at_the_commit_after(b"jobrun_jobs")
            with pytest.raises(DatabaseAway):
                host_jobs.start("host.script", acts, lock_key="k")
            assert proxy.is_cut
            proxy.restore()
            assert processes_with(host_environment.mark) == []
            (job,) = host_jobs.find().jobs
            assert job.status == "queued"
            change(runtime, job.id, claim_deadline=1)
            late = host_jobs.get(job.uuid)

        assert late is not None
        assert (late.status, late.error_reason_code) == ("failed", "launch_timeout")
        assert not (tmp_path / "ledger").exists()


def _goes_by(runtime: Runtime, port: int) -> None:
    """Let this process's own connections go to another port."""

    @event.listens_for(runtime.database.engine, "do_connect")
    def elsewhere(_dialect: Any, _record: Any, _args: Any, params: dict[str, Any]) -> None:
        params["port"] = port


@pytest.mark.parametrize("what", LOSSES)
def test_a_process_that_claims_goes_on_by_its_own_token(
    host_app: Flask,
    host_environment: HostEnvironment,
    database_url: str,
    tmp_path: Path,
    what: Loss,
) -> None:
    acts = script(("return", 7), ledger=tmp_path / "ledger")
    envelope, job_id = a_row(host_app, "host.script", acts, lock_key="k")
    with proxy_before(database_url) as proxy:
        proxy.lose(what)  # its first write is the claim
        far = {"HOST_DATABASE_URL": proxy.url(database_url)}
        child = start_child(host_environment, envelope.job_uuid, changes=far)
        child.send(line_of(envelope))
        code, _, err = child.end()
        assert proxy.losses == 1
    runtime: Runtime = host_app.extensions["jobrunner"]
    assert code == 0, err
    assert row(runtime, job_id)["status"] == "succeeded"
    assert len(runtime.attempts.of(job_id)) == 1
    assert [action for action, *_ in history(runtime, job_id)] == ["start", "claim", "finish"]
    assert ledger_of(tmp_path / "ledger").total() == 2
    assert runtime.jobs.holder("k") is None
    assert_sound(runtime)
