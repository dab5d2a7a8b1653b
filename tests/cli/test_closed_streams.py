"""Commands of a timer or a supervisor that gives them no streams do their work all the same."""

from __future__ import annotations

import pytest

from flask_jobrunner import JobRunner
from tests.helpers.commands import Commands


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_start_without_output_is_no_failure(
    commands: Commands, host_jobs: JobRunner, closed: str
) -> None:
    answer = commands.process("start", "host.nothing", "--wait", closed=closed)
    (job,) = host_jobs.find().jobs

    assert answer.exit_code == 0, answer.err
    assert job.status == "succeeded"


@pytest.mark.parametrize("command", [("list",), ("show", 1), ("logs", 1), ("doctor",)])
def test_readers_without_output_say_nothing(
    commands: Commands, host_jobs: JobRunner, command: tuple[object, ...]
) -> None:
    host_jobs.run_inline("host.nothing")
    answer = commands.process(*command, closed=">&-")

    assert (answer.exit_code, "Traceback" in answer.err) == (0, False), answer.err


def test_a_payload_from_a_closed_input_is_no_json(commands: Commands) -> None:
    answer = commands.process("start", "host.nothing", "--payload", "-", closed="<&-")

    assert answer.exit_code == 2
    assert "not JSON" in answer.err
