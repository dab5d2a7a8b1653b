"""What all who act have in common: the databases, what they know of jobs, and what must hold.

Fences, credentials, candidates and records that were seen stay in use for ever: whether they still
count, the rows decide. A refusal must write nothing, and what is done must have been allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine

from flask_jobrunner.model.records import Fence
from flask_jobrunner.model.statuses import OWNED
from tests.helpers.stores import Store
from tests.lockstep.stepping import Lockstep, job_id

SECOND = 1_000_000
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
BESIDE = st.sampled_from([0, 0, 0, -1, 1])
"""Whether somebody means the attempt of now, or an earlier or later one."""

jobs: Bundle[Any] = Bundle("jobs")
credentials: Bundle[Any] = Bundle("credentials")
owners: Bundle[Any] = Bundle("owners")
sights: Bundle[Any] = Bundle("sights")
ends: Bundle[Any] = Bundle("ends")
candidates: Bundle[Any] = Bundle("candidates")
removable: Bundle[Any] = Bundle("removable")


@dataclass
class Credential:
    """What opens one attempt of one job."""

    uuid: str
    attempt: int
    secret: str
    mode: Any


@dataclass
class Owner:
    """Who claimed, or says so: alive or stale."""

    uuid: str
    attempt: int
    token: str
    seq: int = 0
    """The last line that it knows to be written; `sent_after` is where it began its last ones."""
    sent_after: int = 0

    def fence(self, store: Store) -> Fence:
        return Fence(job_id=job_id(store, self.uuid), attempt=self.attempt, token=self.token)


class Ground(RuleBasedStateMachine):
    """`steps` is set by the test, which knows the databases."""

    steps: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.all: Lockstep = self.steps()
        self.made = 0
        self.secrets: dict[tuple[str, int], Credential] = {}
        """Of pushed jobs, which attempts have one from the start."""

    def moved(self, deed: str, call: Any, before: Any, from_status: str, attempt: int) -> bool:
        """A move of somebody without a fence: it names status and attempt."""
        done, changed = self.all.changed_by(deed, call)
        assert bool(done) == changed
        if done:
            assert before is not None
            assert (before["status"], before["attempt"]) == (from_status, attempt), (
                "it was another attempt"
            )
        return bool(done)

    def owned(self, deed: str, owner: Owner, call: Any) -> Any:
        """A stale owner changes nothing. None where nothing was written."""
        before = self.all.row(owner.uuid)
        answer, changed = self.all.changed_by(deed, call)
        if changed:
            assert before is not None
            assert before["status"] in OWNED, "a stale owner wrote"
            assert (before["worker_token"], before["attempt"]) == (owner.token, owner.attempt), (
                "a stale owner wrote"
            )
        return answer if changed else None

    def attempt_of(self, uuid: str, beside: int) -> int:
        row = self.all.row(uuid)
        return beside + (row["attempt"] if row else 1)

    def each_its_own(self, seen: list[Any]) -> dict[int, Any]:
        """What each store answered, by that store."""
        return dict(zip(map(id, self.all.stores), seen, strict=True))

    def secret(self) -> str:
        return f"{self.next():064x}"

    def next(self) -> int:
        self.made += 1
        return self.made
