"""What is expected of each fault: by point, action and mode.

Each end says what is in the row, and how often the handler began and came to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["push", "pull"]
Story = Literal["run", "crash", "cancel", "requeue", "session", "sweep", "prune", "standby"]


@dataclass(frozen=True)
class End:
    """What is there once recovery has done its part."""

    status: str
    reason: str | None = None
    attempts: int = 1
    """Claimed ones."""
    starts: int = 1
    ends: int = 1


@dataclass(frozen=True)
class Row:
    """One point: in which process, and what becomes of the job by action.

    `kill` and `raise` are (push, pull); what is stopped or cut off goes on as if nothing had been.
    """

    role: str
    kill: tuple[End | None, End | None]
    raised: tuple[End | None, End | None]
    story: Story = "run"
    modes: tuple[Mode, ...] = ("push", "pull")
    later: bool = False
    """Only once the handler runs."""


WELL = End("succeeded")
NO_ROW = None
AGAIN = End("succeeded", attempts=2)
UNBORN = End("failed", "launch_failed", 0, 0, 0)
UNLAUNCHED = End("failed", "launch_timeout", 0, 0, 0)
UNSTARTED = End("interrupted", "not_started", 1, 0, 0)
MARKED = End("interrupted", "process_died", 1, 0, 0)
DIED = End("interrupted", "process_died", 1, 1, 0)
DONE_BUT_DIED = End("interrupted", "process_died", 1, 1, 1)
CANCELLED = End("cancelled")
CRASHED = End("interrupted", "process_died", 1, 1, 0)
UNSEEN = End("interrupted", "owner_gone", 1, 1, 0)
"""The report died with the supervisor that had not recorded it."""
SWEPT = End("interrupted", "owner_gone", 1, 0, 0)
PUSH: tuple[Mode, ...] = ("push",)
PULL: tuple[Mode, ...] = ("pull",)


def both(end: End | None) -> tuple[End | None, End | None]:
    """The same in both modes."""
    return end, end


TABLE: dict[str, Row] = {
    # the process that asks
    "submit.before_commit": Row("web", both(NO_ROW), both(NO_ROW)),
    "submit.committed": Row("web", (UNLAUNCHED, WELL), (UNLAUNCHED, WELL)),
    "submit.spawned": Row("web", both(UNLAUNCHED), both(UNLAUNCHED), modes=PUSH),
    "submit.before_ack_read": Row("web", both(WELL), both(WELL), modes=PUSH),
    "mint.before": Row(
        "web", both(End("failed", "never_launched", 0, 0, 0)),
        both(End("failed", "never_launched", 0, 0, 0)), "session", PUSH,
    ),
    "mint.committed": Row("web", both(UNLAUNCHED), both(UNLAUNCHED), "session", PUSH),
    "move.before": Row("web", both(WELL), both(WELL), "cancel", later=True),
    "move.committed": Row("web", both(CANCELLED), both(CANCELLED), "cancel", later=True),
    "cancel.committed": Row("web", both(CANCELLED), both(CANCELLED), "cancel", later=True),
    # the job's process
    "claim.before": Row("job", (UNBORN, WELL), (UNBORN, WELL)),
    "claim.committed": Row("job", (UNSTARTED, AGAIN), (UNSTARTED, AGAIN)),
    "ack.written": Row("job", (UNSTARTED, AGAIN), (UNSTARTED, AGAIN)),
    "start.before": Row("job", (UNSTARTED, AGAIN), (UNSTARTED, AGAIN)),
    "start.committed": Row("job", both(MARKED), both(MARKED)),
    "log.before": Row("job", both(DIED), both(WELL), later=True),
    "log.committed": Row("job", both(DIED), both(WELL), later=True),
    "renew.before": Row("job", both(DIED), both(WELL), later=True),
    "renew.committed": Row("job", both(DIED), both(WELL), later=True),
    "finish.before_commit": Row("job", both(DONE_BUT_DIED), both(WELL)),
    "finish.committed": Row("job", both(WELL), both(WELL)),
    "finish.before_exit": Row("job", both(WELL), both(WELL)),
    # the supervisor
    "work.before": Row("supervisor", both(WELL), both(WELL), modes=PULL),
    "work.dispatched": Row("supervisor", both(WELL), both(WELL), modes=PULL),
    "work.spawned": Row("supervisor", both(WELL), both(WELL), modes=PULL),
    "work.handed": Row("supervisor", both(WELL), both(WELL), modes=PULL),
    "work.reaped": Row("supervisor", both(WELL), both(WELL), modes=PULL),
    # a process that stands by: whatever happens to it, another one runs the job
    "standby.ready": Row("standby", both(WELL), both(WELL), "standby", PULL),
    "standby.handed": Row("standby", both(WELL), both(WELL), "standby", PULL),
    "standby.given": Row("supervisor", both(WELL), both(WELL), "standby", PULL),
    # whoever hears of an end: the launcher, or the supervisor
    "report.before": Row("parent", (CRASHED, UNSEEN), both(CRASHED), "crash"),
    "report.recorded": Row("parent", both(CRASHED), both(CRASHED), "crash"),
    # whoever finds a job without its owner
    "sweep.read": Row("web", both(SWEPT), both(SWEPT), "sweep", PUSH),
    "sweep.before_commit": Row("web", both(SWEPT), both(SWEPT), "sweep", PUSH),
    "sweep.committed": Row("web", both(SWEPT), both(SWEPT), "sweep", PUSH),
    "sweep.after_n": Row("web", both(SWEPT), both(SWEPT), "sweep", PUSH),
    "retain.children": Row("web", both(NO_ROW), both(NO_ROW), "prune", PUSH),
    "retain.parent": Row("web", both(NO_ROW), both(NO_ROW), "prune", PUSH),
}  # fmt: skip

ELSEWHERE = {
    "cancel.signalled": "what a forced stop does is in tests/acceptance/test_forced.py; once the "
    "signal is sent, the death of who sent it changes nothing",
    "requeue.committed": "a requeued row is a submitted one, as in `submit.committed`; the move "
    "itself is `move.before` and `move.committed`",
}
"""Points that are not in the table, and why."""

NOT_MEANT = {
    ("disconnect", "sqlite"): "there is no connection to cut: the database is a file",
}

DURABLE = {
    "D1 row inserted": ("submit.before_commit", "submit.committed"),
    "D2 claimed": ("claim.before", "claim.committed"),
    "D3 start marker": ("start.before", "start.committed"),
    "D4 lines": ("log.before", "log.committed"),
    "D4 renewal": ("renew.before", "renew.committed"),
    "D5 cancel intent": ("move.before", "move.committed"),
    "D6 end by its owner": ("finish.before_commit", "finish.committed"),
    "D6 end by others": ("sweep.before_commit", "sweep.committed"),
}


def expected(point: str, action: str, mode: Mode) -> End | None:
    """What is there in the end; None: no row."""
    row = TABLE[point]
    number = 0 if mode == "push" else 1
    if action == "kill":
        return row.kill[number]
    if action == "raise":
        return row.raised[number]
    return {"run": WELL, "session": WELL, "crash": CRASHED, "cancel": CANCELLED,
            "requeue": WELL, "standby": WELL, "sweep": SWEPT,
            "prune": NO_ROW}[row.story]  # fmt: skip
