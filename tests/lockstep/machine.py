"""Whatever callers, supervisors, owners and sweepers may do, in any order, each of them late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis.stateful import initialize, multiple, rule

from flask_jobrunner.model.statuses import OWNED
from tests.lockstep.callers import Callers
from tests.lockstep.ground import candidates, ends, jobs, owners, sights
from tests.lockstep.owners import Owners
from tests.lockstep.supervisors import Supervisors
from tests.lockstep.upkeep import FATES, Upkeep


class Machine(Callers, Supervisors, Owners, Upkeep):
    """Besides, what by chance is too rarely gone to its end."""

    def __init__(self) -> None:
        super().__init__()
        me: Any = self  # what a rule returns, Hypothesis types as more
        uuid = self.submit(pulled=False, key="a")
        first = me.hire(uuid)
        me.beat(first.values[0], ["begun"], "own", 0)
        self.first_end = me.give_up(uuid, {}, "unseen")
        second = me.hire(uuid)
        me.beat(second.values[0], ["begun"], "own", 0)
        self.first_owners = (*first.values, *second.values)
        self.first_sight = me.see(uuid)
        self.first_jobs = (uuid, self.submit(pulled=True, key=None))
        self.first_candidates = me.look_out()

    # A walk begins where something can happen at once: one job is in its second attempt, and the
    # owner of the first one, who was taken for dead, lives; another job waits.

    @initialize(target=jobs)
    def with_jobs(self) -> Any:
        return multiple(*self.first_jobs)

    @initialize(target=owners)
    def with_owners(self) -> Any:
        return multiple(*self.first_owners)

    @initialize(target=ends)
    def with_an_end(self) -> Any:
        return self.first_end

    @initialize(target=sights)
    def with_a_sweeper(self) -> Any:
        return self.first_sight

    @initialize(target=candidates)
    def with_a_supervisor(self) -> Any:
        return self.first_candidates

    @rule(target=owners, uuid=jobs)
    def hire(self, uuid: str) -> Any:
        """The usual way to an owner; and somebody who is right about all but the token."""
        me: Any = self
        row = self.all.row(uuid)
        if row is None or row["status"] in OWNED:
            return multiple()
        if row["status"] != "queued":
            me.requeue(me.see(uuid), None)
        if row["claim_mode"] == "trusted":
            found = [one for one in me.look_out().values if one[0].uuid == uuid]
            opens = me.reserve(found[0]) if found else None
        else:
            attempt = self.attempt_of(uuid, 0)
            opens = self.secrets.get((uuid, attempt)) or me.mint(uuid, 0)
        if opens is None:
            return multiple()
        owner = me.claim(opens)
        return multiple(owner, replace(owner, token="nobody's"))

    @rule(target=owners, uuid=jobs, fate=FATES)
    def take_over(self, uuid: str, fate: str) -> Any:
        """The owner is paused and taken for dead: when it wakes up, another one has its job."""
        me: Any = self
        me.give_up(uuid, {"signal": 9}, fate)
        return me.hire(uuid)
