"""Shares, percentiles and what is usual."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from flask_jobrunner.model.runs import Run, figures, grouped_failures, percentile, usual


def run(status: str = "succeeded", ran: float | None = 1.0, **values: Any) -> Run:
    defaults: dict[str, Any] = {
        "job_type": "a",
        "finished_at": datetime(2030, 1, 1, tzinfo=UTC),
        "waited": 0.5,
        "error_class": None,
        "error_reason_code": None,
    }
    return Run(status=status, ran=ran, **defaults | values)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([7.0], 0.5, 7.0),
        ([7.0], 0.95, 7.0),
        ([1.0, 2.0], 0.5, 1.0),
        ([1.0, 2.0, 3.0], 0.5, 2.0),
        ([float(n) for n in range(1, 101)], 0.95, 95.0),
        ([float(n) for n in range(1, 21)], 0.95, 19.0),
    ],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], share: float, expected: float | None
) -> None:
    assert percentile(values, share) == expected


def test_a_cancelled_job_is_neither_a_failure_nor_a_success() -> None:
    summed = figures([run(), run("failed"), run("lost"), run("cancelled"), run("interrupted")])

    assert (summed.runs, summed.wrong, summed.judged) == (5, 3, 4)
    assert summed.failure_rate == 0.75
    assert figures([run("cancelled")]).failure_rate is None


def test_how_long_it_takes_is_told_by_those_that_ended_by_themselves() -> None:
    summed = figures([run(ran=2.0), run("cancelled", ran=90.0), run("lost", ran=500.0)])

    assert summed.run_p95 == 2.0
    assert summed.wait_p95 == 0.5


def test_nothing_is_usual_after_two_runs() -> None:
    assert usual([run(), run()]) is None
    assert usual([run(ran=1.0), run(ran=5.0), run(ran=3.0)]) == 3.0
    assert usual([run(ran=None)] * 5) is None


def test_failures_are_grouped_by_what_they_say_the_most_frequent_first() -> None:
    found = grouped_failures(
        [
            run("failed", error_class="KeyError"),
            run("failed", error_class="ValueError"),
            run("failed", error_class="ValueError"),
            run("interrupted", error_reason_code="process_died"),
            run("cancelled", error_reason_code="cancel_forced"),
        ]
    )

    assert found[0] == ("ValueError", None, 2)
    assert sorted(found[1:], key=repr) == [("KeyError", None, 1), (None, "process_died", 1)]
