"""A very short soak: its processes work together, and leave nothing behind."""

from __future__ import annotations

import shutil

import pytest

from soak.__main__ import summary
from soak.run import soak
from tests.helpers.processes import assert_no_process_left

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_short_soak_finds_nothing() -> None:
    report = soak("sqlite", 0.2, seed=7, submitters=2)

    assert report.violations == [], summary(report)
    assert report.seen.noted("start"), summary(report)
    assert report.seen.answers("enqueue"), summary(report)
    assert_no_process_left(str(report.folder))
    shutil.rmtree(report.folder)
