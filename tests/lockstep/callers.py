"""Callers: they add, launch, stop and requeue jobs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from flask_jobrunner.protocol.envelope import hash_credential
from tests.helpers.stores import Store, new_job
from tests.lockstep.ground import (
    BESIDE,
    SECOND,
    Credential,
    Ground,
    credentials,
    ends,
    jobs,
    sights,
)
from tests.lockstep.stepping import job_id

KEYS = st.sampled_from([None, "a", "A", "a "])


class Callers(Ground):
    @rule(
        target=jobs,
        pulled=st.booleans(),
        key=KEYS,
        minted=st.booleans(),
        budget=st.sampled_from([None, 20.0]),
        ahead=st.booleans(),
    )
    def add(self, **values: Any) -> str:
        return self.submit(**values)

    def submit(
        self,
        *,
        pulled: bool,
        key: str | None,
        minted: bool = True,
        budget: float | None = None,
        ahead: bool = False,
    ) -> str:
        """Pushed with a credential, pushed and not yet minted, or pulled."""
        uuid = f"{self.next():036d}"
        new = new_job(
            uuid=uuid,
            lock_key=key,
            claim_mode="trusted" if pulled else "token",
            credential_hash=hash_credential(uuid) if minted and not pulled else None,
            claim_window=None if pulled else 30.0,
            queue_budget=budget if pulled else None,
            not_before=self.all.at + 5 * SECOND if pulled and ahead else None,
        )
        made, changed = self.all.changed_by("add", lambda store: store.jobs.add(new))
        assert (made is not None) == changed
        if minted and not pulled:
            self.secrets[uuid, 1] = Credential(uuid, 1, uuid, "token")
        return uuid

    @rule(target=credentials, uuid=jobs)
    def known(self, uuid: str) -> Credential:
        """What the caller of a pushed job put into the envelope."""
        return Credential(uuid, 1, uuid, "token")

    @rule(target=credentials, uuid=jobs, beside=BESIDE)
    def mint(self, uuid: str, beside: int) -> Credential:
        secret, row, attempt = self.secret(), self.all.row(uuid), self.attempt_of(uuid, beside)
        done, changed = self.all.changed_by(
            "mint",
            lambda store: store.jobs.mint(
                job_id(store, uuid), attempt, hash_credential(secret), 30.0
            ),
        )
        assert done == changed
        assert not done or (
            row is not None
            and (row["worker_token_hash"], row["attempt"], row["status"])
            == (None, attempt, "queued")
        )
        return Credential(uuid, attempt, secret, "token")

    @rule(
        uuid=jobs,
        beside=BESIDE,
        deed=st.sampled_from(["queued", "running", "force", "force again"]),
    )
    def stop(self, uuid: str, beside: int, deed: str) -> None:
        before, attempt = self.all.row(uuid), self.attempt_of(uuid, beside)
        from_status: Any = {"queued": "queued", "force again": "cancel_requested"}.get(
            deed, "running"
        )

        def call(store: Store) -> bool:
            number, jobs = job_id(store, uuid), store.jobs
            if deed.startswith("force"):
                return jobs.force_stop(number, attempt, from_status, "ann")
            way = jobs.cancel_queued if deed == "queued" else jobs.request_cancel
            return way(number, attempt, "ann")

        self.moved("stop", call, before, from_status, attempt)

    @rule(sight=ends)
    def close(self, sight: list[Any]) -> None:
        """What was seen as lost does not run any more."""
        uuid, attempt = sight[0].job.uuid, sight[0].job.attempt
        self.moved(
            "close",
            lambda store: store.jobs.close_lost(job_id(store, uuid), attempt, "ann"),
            self.all.row(uuid),
            "lost",
            attempt,
        )

    @rule(uuid=jobs, beside=BESIDE, deadline=st.sampled_from([None, "claim", "queue"]))
    def fail(self, uuid: str, beside: int, deadline: str | None) -> None:
        """The launch failed, or a deadline passed."""
        column = None if deadline is None else f"{deadline}_deadline"
        before, attempt = self.all.row(uuid), self.attempt_of(uuid, beside)
        done = self.moved(
            "fail",
            lambda store: store.jobs.fail_queued(
                job_id(store, uuid), attempt, "launch_failed", message="No.", deadline=column
            ),
            before,
            "queued",
            attempt,
        )
        if done and column is not None:
            assert before is not None
            assert before[column] <= self.all.at

    @rule(target=credentials, sight=st.one_of(sights, ends), delay=st.sampled_from([None, 5.0]))
    def requeue(self, sight: list[Any], delay: float | None) -> Credential:
        """As somebody saw it: also what was lost, whose end that somebody has confirmed."""
        seen, secret = sight[0], self.secret()
        uuid, pulled = seen.job.uuid, seen.claim_mode == "trusted"
        own, before = self.each_its_own(sight), self.all.row(uuid)

        def call(store: Store) -> bool | None:
            return store.jobs.requeue(
                own[id(store)].job,
                credential_hash=None if pulled else hash_credential(secret),
                claim_window=None if pulled else 30.0,
                queue_budget=None,
                revision=None,
                config_digest="",
                actor="ann",
                claim_mode=seen.claim_mode,
                delay=delay if pulled else None,
            )

        credential = Credential(uuid, seen.job.attempt + 1, secret, seen.claim_mode)
        if self.moved("requeue", call, before, seen.job.status, seen.job.attempt):
            self.secrets[uuid, credential.attempt] = credential
        return credential
