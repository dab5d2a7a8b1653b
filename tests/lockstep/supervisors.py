"""Supervisors: they look for pulled jobs, reserve them and give them back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.repositories.dispatch import Wanted
from tests.lockstep.ground import Credential, Ground, candidates, credentials
from tests.lockstep.stepping import job_id


class Supervisors(Ground):
    @rule(target=candidates)
    def look_out(self) -> Any:
        found = self.all.do("candidates", lambda store: list(store.dispatch.candidates(Wanted())))
        # One by one, each as all stores see it.
        return multiple(*zip(*found, strict=True))

    @rule(target=credentials, found=candidates)
    def reserve(self, found: tuple[Any, ...]) -> Credential:
        secret, own, one = self.secret(), self.each_its_own(list(found)), found[0]
        before = self.all.row(one.uuid)
        done, changed = self.all.changed_by(
            "reserve",
            lambda store: store.dispatch.reserve(
                own[id(store)],
                supervisor="s1",
                credential_hash=hash_credential(secret),
                claim_window=10.0,
            ),
        )
        assert done == changed
        if done:
            assert before is not None
            assert (before["status"], before["attempt"]) == ("queued", one.attempt)
            until = before["dispatch_until"]
            assert until is None or until <= self.all.at, "it was somebody else's"
        return Credential(one.uuid, one.attempt, secret, "trusted")

    @rule(credential=credentials, died=st.booleans())
    def give_back(self, credential: Credential, *, died: bool) -> None:
        before, hashed = self.all.row(credential.uuid), hash_credential(credential.secret)
        answer, changed = self.all.changed_by(
            "give back",
            lambda store: store.dispatch.give_back(
                job_id(store, credential.uuid),
                credential.attempt,
                hashed,
                died=died,
                message="It died.",
            ),
        )
        assert (answer is not None) == changed
        assert not changed or (before is not None and before["worker_token_hash"] == hashed)
