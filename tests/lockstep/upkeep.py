"""Sweepers, retention and readers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from flask_jobrunner.model.statuses import OWNED
from flask_jobrunner.recovery.verdict import lost, verdict
from flask_jobrunner.repositories.listing import JobFilter
from tests.helpers.stores import Store, lines
from tests.lockstep.ground import SECOND, TEXT, Ground, ends, jobs, removable, sights
from tests.lockstep.stepping import job_id, retention

EVIDENCE = st.sampled_from(
    [{"exit_code": 0}, {"signal": 11}, {"signal": 15}, {"killed": "shutdown"}, {"killed": "force"}]
)
FATES = st.sampled_from(["dead", "unseen", "closed"])
"""Known to be dead, not seen any more, or that and closed by somebody after it was seen as lost."""


class Upkeep(Ground):
    @rule(target=sights, uuid=jobs)
    def see(self, uuid: str) -> Any:
        seen = self.all.do("see", lambda store: store.jobs.owned(uuid))
        # Nothing is seen of a job that was refused or removed.
        return seen if seen[0] is not None else multiple()

    @rule(sight=sights, evidence=EVIDENCE, unseen=st.booleans(), text=TEXT)
    def sweep(self, sight: list[Any], evidence: dict[str, Any], unseen: bool, text: str) -> None:
        """Write what was concluded from what was seen, however long ago."""
        seen = sight[0]
        before = self.all.row(seen.job.uuid)
        if seen.job.status not in OWNED:
            return
        own = self.each_its_own(sight)
        judged = lost(seen, 18.0) if unseen else verdict(seen, evidence)
        done, changed = self.all.changed_by(
            "sweep",
            lambda store: store.endings.end_dead(own[id(store)], judged, lines=lines(text)),
        )
        assert done == changed
        if done:
            assert before is not None
            assert (before["row_version"], before["lease_until"], before["worker_token"]) == (
                seen.row_version,
                seen.lease_until,
                seen.worker_token,
            ), "it was ended on old news"

    @rule(target=ends, uuid=jobs, evidence=EVIDENCE, fate=FATES)
    def give_up(self, uuid: str, evidence: dict[str, Any], fate: str) -> Any:
        """Look and sweep at once: the owner may live, and does not know of it."""
        me: Any = self  # what a rule returns, Hypothesis types as more
        row = self.all.row(uuid)
        if row is None or row["status"] not in OWNED:
            return multiple()
        me.sweep(me.see(uuid), evidence, fate != "dead", "")
        end = me.see(uuid)
        if fate == "closed":
            me.close(end)
        return end

    @rule(target=removable, age=st.sampled_from([0.0, 10.0]))
    def find_old(self, age: float) -> Any:
        found = self.all.do("find old", lambda store: retention(store).find("jobs", age))
        return multiple(*zip(*found, strict=True))

    @rule(found=removable, whole=st.booleans(), limit=st.sampled_from([1, 100]))
    def remove(self, found: tuple[Any, ...], whole: bool, limit: int) -> None:
        own, before = self.each_its_own(list(found)), self.all.row(found[0].uuid)

        def call(store: Store) -> Any:
            old = own[id(store)]
            if whole:
                return retention(store).remove_job(old)
            return retention(store).remove_lines(old, limit)

        answer, changed = self.all.changed_by("remove", call)
        assert not changed or (
            before is not None and before["finished_at"] == found[0].finished_at
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
