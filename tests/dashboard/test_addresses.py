"""Whatever stands in an address, the answer is no error of the server; on each database."""

from __future__ import annotations

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import Runtime

BIG = 2**63 - 1


@pytest.fixture
def uuid(host_app: Flask, host_jobs: JobRunner, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job with one line, which everybody may see."""
    runtime: Runtime = host_app.extensions["jobrunner"]
    monkeypatch.setattr(runtime.hooks, "authorize", lambda _action, _job: True)
    job, tables = host_jobs.enqueue("host.nothing").job, runtime.database.tables
    line = {"seq": 1, "attempt": 1, "created_at": 1, "level": "info", "stream": "", "message": "x"}
    runtime.database.run(lambda c: c.execute(tables.logs.insert().values(job_id=job.id, **line)))
    runtime.database.run(lambda c: c.execute(tables.jobs.update().values(log_seq=1)))
    return job.uuid


@pytest.mark.parametrize(
    "path",
    [
        f"/{{uuid}}/log?attempt={BIG}",
        f"/{{uuid}}/log?before={BIG}",
        f"/{{uuid}}/log?after={BIG}",
        f"/{{uuid}}/log?line={BIG}",
        f"/{{uuid}}/log?find=next&q=x&from={BIG}",
        f"/{{uuid}}/log.ndjson?after_seq={BIG}",
        f"/{{uuid}}.json?after_seq={BIG}",
        f"/{{uuid}}/_live?c={BIG}&e={BIG}&w={BIG}&v={BIG}&q={BIG}",
        f"/{{uuid}}/_lines?before={BIG}",
        f"/{{uuid}}/embed?c={BIG}&v={BIG}&q={BIG}",
        f"/{{uuid}}/artifacts/x?attempt={BIG}",
        "/{uuid}/artifacts/%00",
        f"/?cursor=n{BIG}",
        f"/index.json?after={BIG}",
        f"/_list?n={BIG}",
        f"/_mine?n={BIG}",
        "/?q=%00&type=%00&owner=%00&reference=%00&lock=%00&error=%00",
        "/?q=%F0%9F%98%80&owner=%F0%9F%98%80",
        "/types/%00",
        "/types/%F0%9F%98%80",
        "/types/%00/run",
        "/supervisors/%00/drain",
    ],
)
def test_it_is_answered(host_app: Flask, uuid: str, path: str) -> None:
    address = "/jobs" + path.format(uuid=uuid)

    answer = host_app.test_client().get(address, headers={"HX-Request": "true"})

    assert answer.status_code in (200, 204, 404)
