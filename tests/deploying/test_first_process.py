"""`flask jobs work` as process 1, as in a container without an init."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from tests.deploying import served
from tests.helpers.hosts import HostEnvironment
from tests.helpers.processes import children_of, descendants_of, look_at
from tests.helpers.supervising import PATIENCE, Supervisors, Working, ended, supervisors
from tests.helpers.waiting import eventually
from tests.host_acts import script

# Seen from inside it is process 1, and when it ends the kernel ends all that is left there.
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
# Its own parent ends at once, so that it belongs to process 1 when it ends.
ORPHAN = "setsid sh -c 'echo $$ > {0}; while [ ! -e {0}.go ]; do sleep 0.05; done' >&- 2>&- &"


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.skipif(not _can_unshare(), reason="this user may not make a PID namespace"),
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),
]


@pytest.fixture
def container(
    host_app: Flask, host_environment: HostEnvironment, tmp_path: Path
) -> Iterator[Supervisors]:
    """Starts supervisors."""
    with supervisors(host_app, host_environment, tmp_path) as found:
        yield found


def start(container: Supervisors, *, ready: bool = True) -> tuple[Working, int]:
    """A supervisor in a PID namespace, and its process 1 as it is seen from here."""
    environment = container.environment
    command = [
        environment.command()[0],
        "-m",
        "flask_jobrunner",
        "--app",
        served.APP,
        "jobs",
        "work",
    ]
    working = container.work(argv=[*NAMESPACE, *command], ready=ready)
    (first,) = eventually(lambda: children_of(working.pid), timeout=PATIENCE)
    return working, first.pid


def test_it_reaps_orphans_and_heeds_signals(
    container: Supervisors, host_jobs: JobRunner, tmp_path: Path
) -> None:
    note = tmp_path / "orphan"
    orphan = ("program", "sh", "-c", ORPHAN.format(note))
    job = host_jobs.enqueue("host.script", script(orphan, ("wait_for_file", f"{note}.over"))).job
    working, first = start(container)
    eventually(note.exists, timeout=PATIENCE)
    adopted = eventually(
        lambda: [one for one in children_of(first) if "orphan" in one.command], timeout=PATIENCE
    )
    Path(f"{note}.go").touch()
    eventually(lambda: not [one for one in adopted if look_at(one.pid)], message=str(adopted))
    Path(f"{note}.over").touch()
    (done,) = ended(host_jobs, job)
    assert done.status == "succeeded"
    eventually(lambda: not [one for one in descendants_of(first) if one.is_zombie])

    # The parent that stands in the row is the supervisor, not "nobody".
    (attempt,) = container.runtime.attempts.of(job.id)
    assert attempt.parent.pid == working.tells("ready")["pid"]

    os.kill(first, signal.SIGTERM)
    assert working.exit_code() == 0
    assert working.told("stopped")


def test_jobs_are_drained(container: Supervisors, host_jobs: JobRunner) -> None:
    job = host_jobs.enqueue("host.script", script(("wait_for_cancel",), ("return", "left"))).job
    working, first = start(container)
    working.tells("started")

    os.kill(first, signal.SIGTERM)
    working.tells("stopping")
    os.kill(first, signal.SIGTERM)  # a second one hurries
    (done,) = ended(host_jobs, job)

    assert working.exit_code() == 0
    assert (done.status, host_jobs.status(done.uuid).result) == ("succeeded", "left")


def test_term_ends_it_while_it_still_builds_the_application(
    gate: Path, container: Supervisors
) -> None:
    working, first = start(container, ready=False)
    eventually(Path(f"{gate}.waits").exists, timeout=PATIENCE)
    os.kill(first, signal.SIGTERM)

    assert working.exit_code(timeout=10) == 128 + signal.SIGTERM
