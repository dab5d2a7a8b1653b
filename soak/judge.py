"""The judge: each invariant of a job's life, held against what a soak left.

Every check yields what is wrong, with the job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask_jobrunner.model.statuses import ACTIVE
from soak import judge_processes as ran
from soak import judge_records as recorded
from soak.evidence import Evidence
from soak.views import Found

ELSEWHERE = {
    "I1-I5, I8-I12": "in every order of steps: tests/model_check",
    "I13": "arguments, environments and answers: tests/acceptance/test_secrecy.py",
    "I21": "with I11 here, as far as a history shows it; at each step: tests/acceptance",
    "I22": "not here: a soak has one database; tests run on all three",
}


@dataclass(frozen=True)
class Violation:
    """One thing that must never happen, and did."""

    invariant: str
    job: str
    text: str


CHECKS: dict[str, Callable[[Evidence], Found]] = {
    "I1": ran.handler_starts_once,
    "I2": recorded.accepted_is_there,
    "I3": recorded.terminal_stays,
    "I4": ran.stale_owner_writes_nothing,
    "I5": ran.refused_never_runs,
    "I6": recorded.lock_follows_status,
    "I7": recorded.lines_without_gap,
    "I8": ran.nothing_starts_ended,
    "I9": ran.process_owns_its_attempt,
    "I10": ran.living_owner_is_left_alone,
    "I11": recorded.history_is_whole,
    "I12": recorded.nothing_stays_active,
    "I13": recorded.secrets_stay_secret,
    "I14": ran.bystanders_live,
    "I15": ran.success_means_returned,
    "I16": ran.attempts_grow,
    "I17": recorded.versions_count,
    "I18": recorded.cancel_is_kept,
    "I19": ran.slots_are_kept,
    "I20": recorded.no_orphans,
    "I23": recorded.everything_is_bounded,
    "I24": recorded.changes_say_who,
    "I25": recorded.end_is_the_last_write,
}


def judge(seen: Evidence) -> list[Violation]:
    """Everything that is wrong."""
    return [
        Violation(name, uuid, text) for name, check in CHECKS.items() for uuid, text in check(seen)
    ]


def judge_pruned(before: Evidence, after: Evidence) -> list[Violation]:
    """I20: retention took only what had ended and was not lost, and nothing of it is left."""
    kept = after.by_uuid
    taken = [row for row in before.jobs if row["job_uuid"] not in kept]
    wrong = [row for row in taken if row["status"] in {*ACTIVE, "lost"}]
    found = [Violation("I20", row["job_uuid"], f"removed while {row['status']}") for row in wrong]
    return found + [Violation("I20", uuid, text) for uuid, text in recorded.no_orphans(after)]
