"""Jobs that wait for a supervisor, and what a supervisor and its child do with them."""

from __future__ import annotations

from typing import Any

from flask_jobrunner.model.records import Claim, Job
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.repositories.dispatch import Candidate, Wanted
from tests.helpers.stores import CREDENTIAL, Repositories, queue, try_claim

OTHER = "cd" * 32
HASH, OTHER_HASH = hash_credential(CREDENTIAL), hash_credential(OTHER)
PULLED: dict[str, Any] = {
    "claim_mode": "trusted",
    "credential_hash": None,
    "claim_window": None,
}


def pulled(store: Repositories, **values: Any) -> Job:
    """A job that waits for a supervisor."""
    return queue(store, **PULLED | values)


def waiting(store: Repositories, **wanted: Any) -> list[int]:
    """The ids of what may be handed out, in order."""
    return [one.id for one in store.dispatch.candidates(Wanted(**wanted))]


def candidate(store: Repositories, job: Job, revision: str | None = None) -> Candidate:
    wanted = Wanted(revision=revision)
    found = [one for one in store.dispatch.candidates(wanted) if one.id == job.id]
    assert found, "the job may not be handed out"
    return found[0]


def reserve(
    store: Repositories, one: Candidate, credential_hash: str = HASH, window: float = 30.0
) -> bool:
    return store.dispatch.reserve(
        one, supervisor="s1", credential_hash=credential_hash, claim_window=window
    )


def give_back(
    store: Repositories, job: Job, credential_hash: str = HASH, *, died: bool = False
) -> str | None:
    return store.dispatch.give_back(
        job.id, job.attempt, credential_hash, died=died, message="It died.", evidence={"signal": 11}
    )


def claimed(store: Repositories, job: Job, **values: Any) -> Claim | None:
    return try_claim(store, job, claim_mode="trusted", **values)
