"""Owners: they claim, mark, beat and finish, and go on doing so when the job is not theirs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from flask_jobrunner.model.records import NOBODY, Outcome, Progress
from flask_jobrunner.protocol.envelope import hash_credential
from tests.helpers.stores import ELSEWHERE, Store, envelope, lines
from tests.lockstep.ground import TEXT, Credential, Ground, Owner, credentials, owners

AFTER = st.sampled_from(["own", "row", "again"])
"""After which line an owner writes: after its own last one; after the row's, as in doubt; or what
it sent last once more."""


class Owners(Ground):
    @rule(target=owners, credential=credentials)
    def claim(self, credential: Credential) -> Owner:
        uuid, token = credential.uuid, f"token {self.next()}"
        before, hashed = self.all.row(uuid), hash_credential(credential.secret)

        def call(store: Store) -> Any:
            job = store.jobs.get(uuid)
            if job is None:
                return None
            opens = envelope(
                job,
                attempt=credential.attempt,
                claim_mode=credential.mode,
                credential=credential.secret,
            )
            return store.ownership.claim(opens, worker=ELSEWHERE, parent=NOBODY, token=token)

        won, changed = self.all.changed_by("claim", call)
        assert (won is not None) == changed
        seq = 0
        if won is not None:
            assert before is not None
            assert (before["worker_token_hash"], before["attempt"]) == (hashed, credential.attempt)
            until = before["claim_deadline"] or before["dispatch_until"]
            assert until > self.all.at, "it was too late"
            seq = won.owned.log_seq
        return Owner(uuid, credential.attempt, token, seq, seq)

    @rule(owner=owners, budget=st.sampled_from([None, 10.0]))
    def mark_started(self, owner: Owner, budget: float | None) -> None:
        before = self.all.row(owner.uuid)
        written = self.owned(
            "mark_started",
            owner,
            lambda store: store.ownership.mark_started(owner.fence(store), budget),
        )
        assert not written or (before and before["handler_started_at"] is None), "marked twice"

    @rule(owner=owners, texts=st.lists(TEXT, max_size=3), after=AFTER, done=st.integers(0, 9))
    def beat(self, owner: Owner, texts: list[str], after: str, done: int) -> None:
        """Renew, with lines or without."""
        seq = self._seq(owner, after)
        written = self.owned(
            "beat",
            owner,
            lambda store: store.ownership.beat(
                owner.fence(store),
                lines=lines(*texts, level="warning"),
                last_seq=seq,
                progress=Progress(done=done, total=9),
            ),
        )
        if written and texts:
            owner.sent_after, owner.seq = seq, seq + len(texts)

    @rule(owner=owners, reason=st.sampled_from(["shutdown", "stall", "run_timeout"]))
    def stop_itself(self, owner: Owner, reason: Any) -> None:
        self.owned(
            "stop itself",
            owner,
            lambda store: store.ownership.set_stop_reason(owner.fence(store), reason),
        )

    @rule(
        owner=owners,
        status=st.sampled_from(["succeeded", "failed", "interrupted", "cancelled"]),
        after=AFTER,
        text=TEXT,
    )
    def finish(self, owner: Owner, status: Any, after: str, text: str) -> None:
        outcome, seq = Outcome(status=status, result_json='"x"'), self._seq(owner, after)
        self.owned(
            "finish",
            owner,
            lambda store: store.endings.finish(
                owner.fence(store), outcome, lines=lines(text), last_seq=seq
            ),
        )

    def _seq(self, owner: Owner, after: str) -> int:
        row = self.all.row(owner.uuid)
        if after == "row" and row is not None:
            return int(row["log_seq"])
        return owner.seq if after == "own" else owner.sent_after
