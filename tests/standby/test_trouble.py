"""A process that stands by and is killed, stopped, stuck or talked to wrongly costs no job."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.processes import children_of, is_running
from tests.helpers.supervising import QUICK, Supervisors, Working, ended
from tests.helpers.waiting import eventually
from tests.host_acts import script

NOBODY_LOOKS = """
from flask_jobrunner.supervisor.standby import Standby
Standby.can_answer = lambda self: True
Standby.has_ended = lambda self: False
Standby.is_deaf = property(lambda self: False, lambda self, value: None)
"""
GARBAGE = """
import os
from flask_jobrunner.supervisor import children
real = children.Starter.hand
def hand(self, standby, handed, hear):
    os.write(standby.ends.control_w, {garbage!r})
    return real(self, standby, handed, hear)
children.Starter.hand = hand
"""


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def host_config() -> dict[str, object]:
    return {
        **QUICK,
        "JOBRUNNER_CLAIM_WINDOW": 600,  # what ends before that has another reason
        "JOBRUNNER_HANDLERS": {"stuck": "tests.standby.stuck:handle"},
    }


def runs_once(jobs: JobRunner, working: Working, ledger: Path, *, stood_by: bool) -> None:
    """The next job of this supervisor, to its end."""
    made = jobs.enqueue("host.script", script(("return", 1), ledger=ledger)).job
    (job,) = ended(jobs, made)
    assert (job.status, job.attempt) == ("succeeded", 1)
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == ["start", "end"]
    assert working.tells("started")["stood_by"] is stood_by
    assert working.told("backing_off") == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
@pytest.mark.parametrize("patch", ["", NOBODY_LOOKS], ids=["seen", "handed"])
def test_one_that_is_gone_or_stands_still_delays_nothing(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path, number: signal.Signals, patch: str
) -> None:
    working = pull.work_patched(patch, "--standby", 1, "--types", "host.*")
    pid = working.tells("standing_by")["pid"]
    os.kill(pid, number)
    runs_once(host_jobs, working, tmp_path / "ledger", stood_by=False)

    assert "tood by" in working.tells("standby_discarded")["message"]
    eventually(lambda: not is_running(pid))
    working.tells("standing_by", 2)
    working.stop()


@pytest.mark.parametrize("garbage", [b"\xff\x00garbage\n", b"{}\n", b"x" * 5000])
def test_one_that_is_given_garbage_first_refuses(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path, garbage: bytes
) -> None:
    working = pull.work_patched(GARBAGE.format(garbage=garbage), "--standby", 1)
    working.tells("standing_by")
    runs_once(host_jobs, working, tmp_path / "ledger", stood_by=False)


def test_one_that_is_stuck_in_an_import_is_not_waited_for_and_ends_with_its_supervisor(
    host_jobs: JobRunner, pull: Supervisors, tmp_path: Path
) -> None:
    sign = tmp_path / "stuck"
    working = pull.work("--standby", 1, STUCK=str(sign))
    eventually(sign.exists, timeout=90)
    pid = int(sign.read_text())
    runs_once(host_jobs, working, tmp_path / "ledger", stood_by=False)

    assert working.told("standing_by") == []
    assert is_running(pid)
    working.kill()
    eventually(lambda: not is_running(pid), timeout=60)


def test_those_that_wait_end_with_their_supervisor(pull: Supervisors) -> None:
    ends = (Working.kill, Working.stop)
    for end in ends:
        working = pull.work("--standby", 2)
        pids = [working.tells("standing_by", number)["pid"] for number in (1, 2)]
        assert {seen.pid for seen in children_of(working.pid)} == set(pids)
        end(working)
        eventually(partial(none_runs, pids), timeout=60)
        assert working.told("standby_discarded") == []


def none_runs(pids: list[int]) -> bool:
    """Whether all of them are gone."""
    return not any(map(is_running, pids))
