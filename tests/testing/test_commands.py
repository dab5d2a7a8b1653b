"""The commands of a host whose JOBRUNNER_MODE is `record` or `inline`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import Result
from flask.cli import ScriptInfo

from flask_jobrunner.cli import jobs as commands
from tests.testing.hosts import Shop, in_memory
from tests.testing.spy import nothing_starts


@pytest.fixture
def shop(mode: str) -> Iterator[Shop]:
    """The host with its database in memory: commands have nothing to do with how it is reached."""
    with in_memory("", mode) as made, nothing_starts():
        yield made


def run(shop: Shop, *arguments: str, code: int = 0) -> Result:
    """What a command says; it must exit with `code`."""
    info = ScriptInfo(create_app=lambda: shop.app)
    result = shop.app.test_cli_runner().invoke(commands, arguments, obj=info)
    assert result.exit_code == code, result.output
    return result


def answer(shop: Shop, *arguments: str) -> Any:
    """What a command says with `--json`."""
    return json.loads(run(shop, *arguments, "--json").stdout)


@pytest.mark.parametrize("mode", ["record"])
def test_a_job_s_life_by_commands(shop: Shop) -> None:
    job = answer(shop, "start", "orders.stop", "--lock-key", "k")["job"]["uuid"]
    assert (
        "holds this lock key"
        in run(shop, "enqueue", "orders.stop", "--lock-key", "k", code=5).output
    )
    assert answer(shop, "show", job)["job"]["status"] == "queued"
    assert job in run(shop, "list", "--json").output
    run(shop, "cancel", job)
    run(shop, "requeue", job)
    with shop.app.app_context():
        assert [one.kind for one in shop.jobs.recorded()] == ["start", "requeue"]


@pytest.mark.parametrize("mode", ["inline"])
def test_a_job_that_was_waited_for_has_its_exit_code(shop: Shop) -> None:
    for call in ("start", "enqueue"):
        assert "about to fail" in run(shop, call, "orders.fail", "--wait", "5", code=1).output
        run(shop, call, "orders.stop", "--wait", "5", code=0)
