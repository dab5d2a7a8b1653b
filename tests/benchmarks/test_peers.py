"""The measures beside other tools measure something: ours is driven through each of them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from benchmarks.peers import field, latency, loss, throughput
from benchmarks.peers.contestants import CELERY, ours
from benchmarks.peers.field import fielded
from benchmarks.peers.rows import Row, Target, rows
from benchmarks.peers.services import Services

pytestmark = pytest.mark.slow


def test_a_contestant_is_driven_and_leaves_no_process() -> None:
    with ExitStack() as stack:
        made = stack.enter_context(fielded(Services(stack), ours("sqlite"), pause=600))
        assert made is not None
        made.work(1)
        job = made.enqueue(7)
        began = made.mark(7, "began")
        assert made.state(job["reference"]) == "running"
        assert began.at > job["called"]
        assert began.pid in made.pids()
        assert len(made.pids()) >= 2
        made.kill()
        assert not made.pids()
        assert [one.event for one in made.marks()] == ["began"]


def test_rows_come_of_real_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(field, "QUIET_SHARE", 100)  # other tests need the machine, too
    monkeypatch.setattr(latency, "WARM_UP", 0)
    monkeypatch.setattr(loss, "KILLED_AFTER", (0.5,))
    assert latency.run(["sqlite"], 1, peers=()) == 0
    assert "ours, standby 0" in capsys.readouterr().out
    throughput.run(["sqlite"], 1, peers=(), jobs=2)
    assert "bare boots" in capsys.readouterr().out
    assert loss.run(["sqlite"], 4, peers=()) == 0, "no job of ours is lost or run twice"
    assert "\nours " in capsys.readouterr().out


def test_a_missed_target_is_said() -> None:
    def row(ratio: float) -> Row:
        return Row(
            measure="m",
            name="other",
            service="redis",
            values=[2.0],
            unit="ms",
            ratios={"sqlite": ratio},
            target=Target(times=0.5),
        )

    assert (row(0.5).missed, row(0.6).missed) == (0, 1)
    assert row(0.6).line().endswith("<= 0.5 NOT MET")


def test_a_job_that_began_before_enqueue_returned_is_not_beaten() -> None:
    found = {ours("sqlite"): [5.0], CELERY: [-1.0]}
    _, other = rows("m", "ms", found, {CELERY.name: Target(times=1.0)})
    assert other.missed == 1
