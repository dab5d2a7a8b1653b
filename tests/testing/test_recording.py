"""`job_mode` and the list that it gives; what is imported, and what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from flask import Flask

from flask_jobrunner import ConfigError
from flask_jobrunner.testing import assert_no_secrets, job_mode
from tests.testing.hosts import Shop, in_memory, make_shop


@pytest.fixture
def shop() -> Shop:
    """A host whose tests say nothing about jobs: JOBRUNNER_MODE is `process`."""
    shop = make_shop("sqlite:///:memory:")
    with shop.app.app_context():
        shop.db.create_all()
    return shop


def test_a_mode_lasts_for_its_block_and_starts_with_nothing(shop: Shop) -> None:
    with shop.app.app_context():
        for _ in (1, 2):
            with job_mode(shop.app, "record") as recorded:
                assert len(recorded) == 0
                shop.jobs.start("orders.fail")
                assert [one.job_type for one in recorded] == ["orders.fail"]
                assert recorded[0] == recorded.only() == shop.jobs.recorded()[0]
        with job_mode(shop.app, "inline") as recorded:
            assert shop.jobs.start("orders.stop").job.status == "cancelled"
            assert recorded.only().job.status == "queued"
        with pytest.raises(ConfigError, match="nothing is recorded"):
            shop.jobs.recorded()
        with pytest.raises(ConfigError, match="in memory"):
            shop.jobs.start("orders.fail")


def test_the_list_says_what_there_is_when_it_is_not_what_was_wanted(shop: Shop) -> None:
    with shop.app.app_context(), job_mode(shop.app, "record") as recorded:
        with pytest.raises(AssertionError, match=r"Not one job, but 0, was recorded among: \[\]"):
            recorded.only()
        shop.jobs.start("orders.pack", {"order": 1})
        shop.jobs.enqueue("orders.fail")
        with pytest.raises(AssertionError, match=r"start orders.pack \{'order': 1\}, enqueue"):
            recorded.only()
        with pytest.raises(AssertionError, match=r"job of type orders.stop, but 0"):
            recorded.only("orders.stop")
        assert recorded.only("orders.fail").kind == "enqueue"
        assert recorded.of("orders.pack") == recorded[:1]
        recorded.clear()
        assert list(recorded) == []


def test_a_mode_of_the_configuration_comes_back(shop: Shop) -> None:
    with in_memory("", "record") as configured, configured.app.app_context():
        with job_mode(configured.app, "inline"):
            assert configured.jobs.start("orders.stop").job.status == "cancelled"
        assert configured.jobs.start("orders.stop").job.status == "queued"
        assert len(configured.jobs.recorded()) == 1


def test_an_application_without_jobs_is_told_so() -> None:
    with pytest.raises(ConfigError, match="not set up"), job_mode(Flask("bare"), "record"):
        pass


def test_a_secret_is_found_and_not_said() -> None:
    assert_no_secrets("nothing here", "hunter22", "swordfish")
    with pytest.raises(AssertionError) as failed:
        assert_no_secrets("url?p=swordfish", "hunter22", "swordfish")
    assert str(failed.value) == "The text gives away secret 1 (plain) at character 6."


def test_only_the_fixtures_need_pytest() -> None:
    code = "import sys, flask_jobrunner, flask_jobrunner.testing; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    code = "import sys, flask_jobrunner; print('flask_jobrunner.testing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
