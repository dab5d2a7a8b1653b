"""The one writer on a database whose encoding does not have every character."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flask_jobrunner.model.records import NewLine, Progress
from tests.child.test_lease import DONE, Rig

NO_EMOJI = UnicodeEncodeError("latin-1", "😀", 0, 1, "ordinal not in range(256)")


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_characters_that_the_database_does_not_have_are_spelled_out(rig: Rig) -> None:
    """One emoji took all lines of its batch with it; in a step it stopped every renewal."""
    rig.book.add([NewLine("a"), NewLine("grün 😀")])
    rig.book.set_progress(Progress(step_key="😀", done=1))
    rig.rows.faults = [NO_EMOJI]
    rig.lease.beat()
    rig.lease.beat()
    rig.book.add([NewLine("é")])
    rig.lease.beat()
    assert rig.rows.messages == ["a", r"gr\xfcn \U0001f600", r"\xe9"]
    assert rig.rows.progress == Progress(step_key=r"\U0001f600", done=1)


@pytest.mark.parametrize("spelled", [1, 2])  # 2: a beat spells first
def test_the_end_in_characters_that_the_database_has(rig: Rig, spelled: int) -> None:
    rig.book.add([NewLine("😀")])
    rig.book.set_progress(Progress(step_label="é"))
    rig.rows.faults = [NO_EMOJI] * spelled
    if spelled == 2:
        rig.lease.beat()
    failed = replace(DONE, status="failed", error_message="é")
    assert rig.lease.finish(failed, pause=lambda _: None) is not None
    assert (rig.rows.messages, rig.rows.progress) == (["\\U0001f600"], Progress(step_label=r"\xe9"))
    assert rig.rows.outcome == replace(failed, error_message=r"\xe9")
