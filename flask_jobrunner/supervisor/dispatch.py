"""The next job: found, reserved for this supervisor, ready to be handed to a process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from flask_jobrunner.protocol.envelope import (
    Envelope,
    dump_envelope,
    hash_credential,
    new_credential,
)
from flask_jobrunner.repositories.dispatch import Candidate, Wanted
from flask_jobrunner.runtime import Runtime

from .slots import orphans


@dataclass(frozen=True, kw_only=True)
class Handed:
    """A job that is reserved for one process of ours; `envelope` opens it."""

    id: int
    uuid: str
    attempt: int
    job_type: str
    credential_hash: str
    envelope: bytes

    def __repr__(self) -> str:
        return f"<Handed {self.uuid} attempt {self.attempt}>"


class Dispatcher:
    """Finds and reserves; several of them, on one host or many, never take one job twice."""

    def __init__(self, runtime: Runtime, wanted: Wanted, supervisor: str) -> None:
        self._runtime = runtime
        self._wanted = wanted
        self._supervisor = supervisor

    def take_unpinned_only(self) -> bool:
        """From now on only take what is made for no revision. False: so it is already."""
        before, self._wanted = self._wanted, replace(self._wanted, revision=None)
        return before != self._wanted

    def next(self, free: int) -> Handed | Literal["nothing", "full"]:
        """Reserve the next job. `free` is how many slots our own children leave."""
        if orphans(self._runtime) >= free:
            return "full"
        for candidate in self._runtime.dispatch.candidates(self._wanted):
            credential = new_credential()
            handed = self._handed(candidate, credential)
            reserved = self._runtime.dispatch.reserve(
                candidate,
                supervisor=self._supervisor,
                credential_hash=handed.credential_hash,
                claim_window=self._runtime.config.claim_window,
            )
            if reserved:
                return handed
        return "nothing"

    def _handed(self, candidate: Candidate, credential: str) -> Handed:
        config = self._runtime.config
        envelope = Envelope(
            job_id=candidate.id,
            job_uuid=candidate.uuid,
            attempt=candidate.attempt,
            claim_mode="trusted",
            credential=credential,
            revision=candidate.revision,
            config_digest=config.digest,
            fingerprint=self._runtime.meta.ensure().fingerprint,
            claim_window=config.claim_window,
            lease=config.lease,
        )
        return Handed(
            id=candidate.id,
            uuid=candidate.uuid,
            attempt=candidate.attempt,
            job_type=candidate.job_type,
            credential_hash=hash_credential(credential),
            envelope=dump_envelope(envelope),
        )
