"""Reports as a shim would write them, and receivers that remember what they heard."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from flask_jobrunner import cancel_requested, job_created, job_finished, job_started
from flask_jobrunner.model.records import Claim, Job
from flask_jobrunner.protocol.identity import uuid7
from flask_jobrunner.protocol.report import EndReport

SIGNALS = {
    "created": job_created,
    "started": job_started,
    "finished": job_finished,
    "cancel_requested": cancel_requested,
}


def report(job: Job | Claim | None = None, **values: Any) -> EndReport:
    """How a child was killed by signal 9; of a claim, one that had claimed and started."""
    claimed = isinstance(job, Claim)
    row = job.owned.job if isinstance(job, Claim) else job
    defaults: dict[str, Any] = {
        "uuid": row.uuid if row else uuid7(),
        "attempt": row.attempt if row else 1,
        "token": job.fence.token if isinstance(job, Claim) else None,
        "nonce": None,
        "booted": claimed,
        "claimed": claimed,
        "started": claimed,
        "refused": None,
        "exit_code": None,
        "signal": 9,
        "killed": None,
        "peak_rss": 12_000_000,
        "cpu": 0.5,
        "wall": 1.5,
        "oom": None,
        "stdout": "",
        "stderr": "",
        "stdout_dropped": 0,
        "stderr_dropped": 0,
        "fault": "",
        "spawn_error": None,
        "escaped": 0,
    }
    return EndReport(**defaults | values)


def printed(text: str | bytes) -> str:
    """Output as a report carries it."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@contextmanager
def heard(app: Any) -> Iterator[list[tuple[str, str, str]]]:
    """(signal, job's uuid, its status) of every signal of `app`, in order."""
    told: list[tuple[str, str, str]] = []
    with ExitStack() as connected:
        for name, signal in SIGNALS.items():

            def receive(sender: Any, job: Job, name: str = name) -> None:
                assert sender is app
                told.append((name, job.uuid, job.status))

            connected.enter_context(signal.connected_to(receive, app))
        yield told
