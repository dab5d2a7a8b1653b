"""Whatever callers, supervisors, owners and sweepers may do, in any order, each of them late too.

Fences, credentials, candidates and records that were seen stay in use for ever: whether they still
count, the rows decide. A refusal must write nothing, and what is done must have been allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from flask_jobrunner.model.records import NOBODY, Fence, Outcome, Progress
from flask_jobrunner.model.statuses import OWNED
from flask_jobrunner.protocol.envelope import hash_credential
from flask_jobrunner.recovery.verdict import lost, verdict
from flask_jobrunner.repositories.dispatch import Wanted
from flask_jobrunner.repositories.listing import JobFilter
from tests.helpers.stores import ELSEWHERE, Store, envelope, lines, new_job
from tests.lockstep.stepping import Lockstep, job_id, retention

SECOND = 1_000_000
KEYS = st.sampled_from([None, "a", "A", "a "])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
EVIDENCE = st.sampled_from(
    [{"exit_code": 0}, {"signal": 11}, {"signal": 15}, {"killed": "shutdown"}, {"killed": "force"}]
)


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

    def fence(self, store: Store) -> Fence:
        return Fence(job_id=job_id(store, self.uuid), attempt=self.attempt, token=self.token)


class Machine(RuleBasedStateMachine):
    """`steps` is set by the test, which knows the databases."""

    steps: Any = None

    jobs = Bundle("jobs")
    credentials = Bundle("credentials")
    owners = Bundle("owners")
    sights = Bundle("sights")
    candidates = Bundle("candidates")
    removable = Bundle("removable")

    def __init__(self) -> None:
        super().__init__()
        self.all: Lockstep = self.steps()
        self.made = 0
        self.secrets: dict[tuple[str, int], Credential] = {}
        """Of pushed jobs, which attempts have one from the start."""

    # -- callers ------------------------------------------------------------------------------

    @initialize(target=jobs, pulled=st.booleans())
    def first(self, *, pulled: bool) -> str:
        made: Any = self.add(pulled=pulled, key="a", minted=True, budget=None, ahead=False)
        return str(made)

    @rule(
        target=jobs,
        pulled=st.booleans(),
        key=KEYS,
        minted=st.booleans(),
        budget=st.sampled_from([None, 20.0]),
        ahead=st.booleans(),
    )
    def add(
        self, *, pulled: bool, key: str | None, minted: bool, budget: float | None, ahead: bool
    ) -> str:
        """Pushed with a credential, pushed and not yet minted, or pulled."""
        uuid = f"{self._next():036d}"
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

    @rule(target=credentials, uuid=jobs, attempt=st.integers(1, 2))
    def mint(self, uuid: str, attempt: int) -> Credential:
        secret, row = self._secret(), self.all.row(uuid)
        done, changed = self.all.changed_by(
            "mint",
            lambda store: store.jobs.mint(
                job_id(store, uuid), attempt, hash_credential(secret), 30.0
            ),
        )
        assert done == changed
        assert not done or (row is not None and row["worker_token_hash"] is None)
        return Credential(uuid, attempt, secret, "token")

    @rule(
        uuid=jobs,
        attempt=st.integers(1, 3),
        deed=st.sampled_from(["queued", "running", "force", "force again", "close"]),
    )
    def stop(self, uuid: str, attempt: int, deed: str) -> None:
        before = self.all.row(uuid)
        from_status: Any = {
            "queued": "queued",
            "close": "lost",
            "force again": "cancel_requested",
        }.get(deed, "running")

        def call(store: Store) -> bool:
            number, jobs = job_id(store, uuid), store.jobs
            if deed.startswith("force"):
                return jobs.force_stop(number, attempt, from_status, "ann")
            way = {"queued": jobs.cancel_queued, "running": jobs.request_cancel}
            return way.get(deed, jobs.close_lost)(number, attempt, "ann")

        self._moved("stop", call, before, from_status, attempt)

    @rule(uuid=jobs, attempt=st.integers(1, 3), deadline=st.sampled_from([None, "claim", "queue"]))
    def fail(self, uuid: str, attempt: int, deadline: str | None) -> None:
        """The launch failed, or a deadline passed."""
        column = None if deadline is None else f"{deadline}_deadline"
        before = self.all.row(uuid)
        done = self._moved(
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

    @rule(target=credentials, sight=sights, delay=st.sampled_from([None, 5.0]))
    def requeue(self, sight: list[Any], delay: float | None) -> Credential:
        """As somebody saw it: also what was lost, whose end that somebody has confirmed."""
        seen, secret = sight[0], self._secret()
        uuid, pulled = seen.job.uuid, seen.claim_mode == "trusted"
        seen_by = dict(zip(map(id, self.all.stores), sight, strict=True))
        before = self.all.row(uuid)

        def call(store: Store) -> bool | None:
            return store.jobs.requeue(
                seen_by[id(store)].job,
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
        if before is not None and self._moved(
            "requeue", call, before, seen.job.status, seen.job.attempt
        ):
            self.secrets[uuid, credential.attempt] = credential
        return credential

    # -- supervisors --------------------------------------------------------------------------

    @rule(target=candidates)
    def look_out(self) -> list[list[Any]]:
        return self.all.do("candidates", lambda store: list(store.dispatch.candidates(Wanted())))

    @rule(target=credentials, found=candidates, place=st.integers(0, 2))
    def reserve(self, found: list[list[Any]], place: int) -> Credential:
        if not found[0]:
            return Credential("none", 1, "none", "trusted")
        secret, by = self._secret(), dict(zip(map(id, self.all.stores), found, strict=True))
        one = found[0][place % len(found[0])]
        before = self.all.row(one.uuid)
        if before is not None:
            done, changed = self.all.changed_by(
                "reserve",
                lambda store: store.dispatch.reserve(
                    by[id(store)][place % len(found[0])],
                    supervisor="s1",
                    credential_hash=hash_credential(secret),
                    claim_window=10.0,
                ),
            )
            assert done == changed
            until = before["dispatch_until"]
            assert not done or until is None or until <= self.all.at, "it was somebody else's"
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

    # -- owners -------------------------------------------------------------------------------

    @rule(target=owners, uuid=jobs)
    def hire(self, uuid: str) -> Any:
        """The usual way to an owner, by chance too rarely gone to its end."""
        me: Any = self  # what a rule returns, Hypothesis types as more
        row = self.all.row(uuid)
        if row is None or row["status"] in OWNED:
            return me.impostor(uuid)
        if row["status"] != "queued":
            me.requeue(me.see(uuid), None)
        if row["claim_mode"] == "trusted":
            found = me.look_out()
            place = [one.uuid for one in found[0]]
            return me.claim(me.reserve(found, place.index(uuid) if uuid in place else 0))
        known = (uuid, self.all.row(uuid)["attempt"])  # type: ignore[index]  # it is there
        return me.claim(self.secrets.get(known) or me.mint(*known))

    @rule(target=owners, credential=credentials)
    def claim(self, credential: Credential) -> Owner:
        uuid, token = credential.uuid, f"token {self._next()}"
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
        if won is not None:
            assert before is not None
            assert (before["worker_token_hash"], before["attempt"]) == (hashed, credential.attempt)
            until = before["claim_deadline"] or before["dispatch_until"]
            assert until > self.all.at, "it was too late"
        return Owner(uuid, credential.attempt, token, 0 if won is None else won.owned.log_seq)

    @rule(target=owners, uuid=jobs)
    def impostor(self, uuid: str) -> Owner:
        """Who is right about everything but the token."""
        row = self.all.row(uuid)
        return Owner(uuid, row["attempt"] if row else 1, "nobody's", row["log_seq"] if row else 0)

    @rule(owner=owners, budget=st.sampled_from([None, 10.0]))
    def mark_started(self, owner: Owner, budget: float | None) -> None:
        self._owned(
            "mark", owner, lambda store: store.ownership.mark_started(owner.fence(store), budget)
        )

    @rule(owner=owners, texts=st.lists(TEXT, max_size=3), own=st.booleans(), done=st.integers(0, 9))
    def beat(self, owner: Owner, texts: list[str], own: bool, done: int) -> None:
        """Renew, with lines after its own number or, in doubt, after the row's."""
        seq = self._seq(owner, own=own)
        answer = self._owned(
            "beat",
            owner,
            lambda store: store.ownership.beat(
                owner.fence(store),
                lines=lines(*texts, level="warning"),
                last_seq=seq,
                progress=Progress(done=done, total=9),
            ),
        )
        if answer:
            owner.seq = seq + len(texts)

    @rule(owner=owners, reason=st.sampled_from(["shutdown", "stall", "run_timeout"]))
    def stop_itself(self, owner: Owner, reason: Any) -> None:
        self._owned(
            "stop itself",
            owner,
            lambda store: store.ownership.set_stop_reason(owner.fence(store), reason),
        )

    @rule(
        owner=owners,
        status=st.sampled_from(["succeeded", "failed", "interrupted", "cancelled"]),
        own=st.booleans(),
        text=TEXT,
    )
    def finish(self, owner: Owner, status: Any, own: bool, text: str) -> None:
        outcome, seq = Outcome(status=status, result_json='"x"'), self._seq(owner, own=own)
        self._owned(
            "finish",
            owner,
            lambda store: store.endings.finish(
                owner.fence(store), outcome, lines=lines(text), last_seq=seq
            ),
        )

    # -- sweepers -----------------------------------------------------------------------------

    @rule(target=sights, uuid=jobs)
    def see(self, uuid: str) -> list[Any]:
        seen = self.all.do("see", lambda store: store.jobs.owned(uuid))
        return seen if seen[0] is not None else self.nothing()

    def nothing(self) -> list[Any]:
        """What stands for a job that was refused or is gone: the sight of another one."""
        uuid: Any = self.all.content["jobs"][0]["job_uuid"] if self.all.content["jobs"] else None
        if uuid is None:
            uuid = self.add(pulled=False, key=None, minted=True, budget=None, ahead=False)
        return self.all.do("see", lambda store: store.jobs.owned(uuid))

    @rule(sight=sights, evidence=EVIDENCE, unseen=st.booleans(), text=TEXT)
    def sweep(self, sight: list[Any], evidence: dict[str, Any], unseen: bool, text: str) -> None:
        """Write what was concluded from what was seen, however long ago."""
        seen = sight[0]
        before = self.all.row(seen.job.uuid)
        if seen.job.status not in OWNED:
            return
        by = dict(zip(map(id, self.all.stores), sight, strict=True))
        judged = lost(seen, 18.0) if unseen else verdict(seen, evidence)
        done, changed = self.all.changed_by(
            "sweep",
            lambda store: store.endings.end_dead(by[id(store)], judged, lines=lines(text)),
        )
        assert done == changed
        if done:
            assert before is not None
            assert (before["row_version"], before["lease_until"], before["worker_token"]) == (
                seen.row_version,
                seen.lease_until,
                seen.worker_token,
            ), "it was ended on old news"

    # -- retention and reading ----------------------------------------------------------------

    @rule(target=removable, age=st.sampled_from([0.0, 10.0]))
    def find_old(self, age: float) -> list[list[Any]]:
        return self.all.do("find old", lambda store: retention(store).find("jobs", age))

    @rule(found=removable, whole=st.booleans(), limit=st.sampled_from([1, 100]))
    def remove(self, found: list[list[Any]], whole: bool, limit: int) -> None:
        if not found[0] or self.all.row(found[0][0].uuid) is None:
            return
        by = {id(store): old[0] for store, old in zip(self.all.stores, found, strict=True)}
        before = self.all.row(found[0][0].uuid)

        def call(store: Store) -> Any:
            old = by[id(store)]
            return (
                retention(store).remove_job(old)
                if whole
                else retention(store).remove_lines(old, limit)
            )

        answer, changed = self.all.changed_by("remove", call)
        assert not changed or (
            before is not None and before["finished_at"] == found[0][0].finished_at
        ), "it had moved on"
        assert not whole or answer == changed

    @rule(uuid=jobs)
    def read(self, uuid: str) -> None:
        """Reading is alike, and writes nothing."""

        def call(store: Store) -> list[Any]:
            number = job_id(store, uuid)
            return [
                store.listing.find(JobFilter()).jobs,
                store.jobs.holder("a"),
                store.logs.newest(number, 2),
                store.events.of(number),
                store.attempts.of(number),
                store.supervisors.waiting(),
                store.supervisors.running(["s1"]),
                retention(store).amount("lines", 0.0),
            ]

        _, changed = self.all.changed_by("read", call)
        assert not changed

    @rule(seconds=st.sampled_from([0.5, 11, 31]))
    def pass_time(self, seconds: float) -> None:
        self.all.at += int(seconds * SECOND)

    # -- what they have in common -------------------------------------------------------------

    def _moved(self, deed: str, call: Any, before: Any, from_status: str, attempt: int) -> bool:
        """A move of somebody without a fence: it names status and attempt."""
        done, changed = self.all.changed_by(deed, call)
        assert bool(done) == changed
        if done:
            assert before is not None
            assert (before["status"], before["attempt"]) == (from_status, attempt), (
                "it was another attempt"
            )
        return bool(done)

    def _owned(self, deed: str, owner: Owner, call: Any) -> Any:
        """A stale owner changes nothing."""
        before = self.all.row(owner.uuid)
        answer, changed = self.all.changed_by(deed, call)
        if changed:
            assert before is not None
            assert before["status"] in OWNED, "a stale owner wrote"
            assert (before["worker_token"], before["attempt"]) == (owner.token, owner.attempt), (
                "a stale owner wrote"
            )
        return answer if changed else None

    def _seq(self, owner: Owner, *, own: bool) -> int:
        row = self.all.row(owner.uuid)
        return owner.seq if own or row is None else int(row["log_seq"])

    def _secret(self) -> str:
        return f"{self._next():064x}"

    def _next(self) -> int:
        self.made += 1
        return self.made
