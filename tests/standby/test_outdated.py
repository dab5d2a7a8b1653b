"""What was built before a change of code, settings or revision never runs a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner import JobRunner
from flask_jobrunner.child.sources import Sources
from flask_jobrunner.child.standby import _why_not
from flask_jobrunner.protocol.messages import STANDBY_MAX_AGE
from tests.helpers.stores import envelope, new_job
from tests.helpers.supervising import PATIENT, QUICK, Supervisors, ended
from tests.helpers.waiting import eventually

MODULE = """
from pathlib import Path
HERE = Path(__file__).parent
def read(name):
    try:
        return (HERE / name).read_text()
    except FileNotFoundError:
        return None
FOUND = [{version!r}, read("settings.cfg"), read("more.cfg")]
def handle(ctx):
    return FOUND
"""
OTHER_REVISION = """
import json, os
from flask_jobrunner.supervisor import loop
real = loop.child_environment
def changed(environ):
    config = json.loads(environ["HOST_CONFIG"]) | {"JOBRUNNER_REVISION": "other"}
    return real(environ) | {"HOST_CONFIG": json.dumps(config)}
loop.child_environment = changed
"""
OLD_AT_ONCE = """
from flask_jobrunner.supervisor import reserve
reserve.STANDBY_MAX_AGE = 1.0
"""


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a handler's module and what that reads."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "standby_shop.py").write_text(MODULE.format(version="one"))
    (folder / "settings.cfg").write_text("red")
    return folder


@pytest.fixture
def host_config() -> dict[str, object]:
    return {**QUICK, "JOBRUNNER_HANDLERS": {"shop": "standby_shop:handle"}}


CHANGES: dict[str, tuple[Callable[[Path], object], list[str | None]]] = {
    "standby_shop.py": (
        lambda folder: (folder / "standby_shop.py").write_text(MODULE.format(version="number two")),
        ["number two", "red", None],
    ),
    "settings.cfg": (
        lambda folder: (folder / "settings.cfg").write_text("blue"),
        ["one", "blue", None],
    ),
    "more.cfg": (
        lambda folder: (folder / "more.cfg").write_text("new"),
        ["one", "red", "new"],
    ),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_after_a_change_of_a_file_the_next_job_runs_what_is_there_now(
    host_jobs: JobRunner,
    pull: Supervisors,
    shop: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(shop))
    path = f"{shop}:{pull.environment.environ['PYTHONPATH']}"
    working = pull.work_patched(PATIENT, "--standby", 1, PYTHONPATH=path)
    working.tells("standing_by")
    change, wanted = CHANGES[name]
    change(shop)

    for number, stood_by in ((1, False), (2, True)):
        (job,) = ended(host_jobs, host_jobs.enqueue("shop").job)
        assert host_jobs.status(job.uuid).result == wanted
        assert (job.attempt, working.tells("started", number)["stood_by"]) == (1, stood_by)
        if number == 1:
            told = working.tells("standby_discarded")
            assert name in told["message"]
            working.tells("standing_by", 2)
    assert len(working.told("standby_discarded")) == 1


def test_one_that_was_built_with_other_settings_is_not_used(
    host_jobs: JobRunner, pull: Supervisors, shop: Path
) -> None:
    working = pull.work_patched(OTHER_REVISION, "--standby", 1)
    working.tells("standing_by")
    (job,) = ended(host_jobs, host_jobs.enqueue("host.nothing").job)

    assert (job.status, job.attempt) == ("succeeded", 1)
    assert not working.tells("started")["stood_by"]
    assert "other settings" in working.tells("standby_discarded")["message"]


def test_one_that_has_waited_for_long_is_replaced(pull: Supervisors, shop: Path) -> None:
    working = pull.work_patched(OLD_AT_ONCE, "--standby", 1)
    first, second = (working.tells("standing_by", number)["pid"] for number in (1, 2))

    assert first != second
    eventually(lambda: not Path(f"/proc/{first}").exists())
    assert working.told("standby_discarded") == []


def test_it_looks_for_itself_as_well(host_app: Flask, shop: Path) -> None:
    runtime = host_app.extensions["jobrunner"]
    job = runtime.jobs.add(new_job(job_type="host.nothing"))
    assert job is not None
    sources = Sources()
    assert sources.close() is None

    def why(age: float = 1.0, **values: object) -> str | None:
        good = {"config_digest": runtime.config.digest, "fingerprint": "f"}
        return _why_not(runtime, envelope(job, **good | values), "f", age, sources)

    assert why() is None
    assert "waited" in (why(STANDBY_MAX_AGE + 1) or "")
    assert "database" in (why(fingerprint="another") or "")
    assert "settings" in (why(config_digest="another") or "")
    assert "revision" in (why(revision="another") or "")


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("red")
    sources = Sources()
    (tmp_path / "settings").read_text()
    (tmp_path / "own").write_text("a file of its own")
    (tmp_path / "own").read_text()

    assert sources.close() == str(tmp_path / "settings")
