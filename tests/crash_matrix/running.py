"""One case: a job, a process with a fault, and the recovery that a host has anyway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flask_jobrunner import Job
from flask_jobrunner.model.errors import JobRunnerError
from flask_jobrunner.recovery.sweep import Sweeper
from tests.helpers.faulting import Action, Fault
from tests.helpers.processes import is_running, look_at, processes_with
from tests.helpers.stores import DEAD, queue, start
from tests.helpers.supervising import Supervisors, Working
from tests.helpers.waiting import eventually
from tests.host_acts import script
from tests.host_app import jobs

from .table import TABLE, Mode

ASKER = Path(__file__).with_name("asker.py")
LOCK = "matrix"
PATIENCE = 120.0
IN_A_TRANSACTION = ("before", "before_commit", "children")


@dataclass
class Case:
    """Runs one; `pull` starts supervisors."""

    point: str
    action: Action
    mode: Mode
    pull: Supervisors
    folder: Path
    database: str
    standby: int = 0
    """How many processes stand by when the job comes; some points are only there with one."""
    _asked: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _may_age: bool = False

    @property
    def ledger(self) -> Path:
        """Where the handler tells its starts and ends."""
        return self.folder / "ledger"

    @property
    def go(self) -> Path:
        """The file for which the handler waits."""
        return self.folder / "go"

    def run(self) -> Job | None:
        """The job once all is over; None: there is no row."""
        row = TABLE[self.point]
        if not row.later:
            self.go.touch()
        parent = "web" if self.mode == "push" else "supervisor"
        fault = Fault(
            point=self.point,
            action=self.action,
            role=parent if row.role == "parent" else row.role,
            mark=str(self.folder / "mark"),
            database=self.database,
            after=str(self.ledger) if row.later else None,
        )
        try:
            STORIES.get(row.story, Case._run_one)(self, fault)
            eventually(lambda: fault.pid is not None, timeout=PATIENCE, message=self._told)
            self._see(fault.pid or 0)
            if row.story == "cancel":
                # Who was cut off asks again: a job that may end meanwhile would be quicker.
                eventually(self._has_asked, timeout=PATIENCE, message=self._told)
            self.go.touch()
            stays_so = self.action in ("kill", "raise")
            self._may_age = (
                stays_so and row.role == {"push": "web", "pull": "supervisor"}[self.mode]
            )
            eventually(self._is_over, timeout=PATIENCE, message=self._told)
            return self.job()
        finally:
            self._hang_up()

    def job(self) -> Job | None:
        """The one job."""
        found = jobs.find().jobs
        assert len(found) <= 1, found
        return found[0] if found else None

    # -- what happens ---------------------------------------------------------------------------

    def _run_one(self, fault: Fault, *acts: tuple[Any, ...]) -> None:
        payload = script(
            ("print", "hello"), ("wait_for_file", str(self.go)), *acts, ("return", 42),
            ledger=self.ledger,
        )  # fmt: skip
        what = {"push": "start", "pull": "enqueue"}[self.mode]
        if TABLE[self.point].story == "session":
            what = "session"
        if self.standby:
            self._stand_by(fault)
        asked = self._ask(fault, what, json.dumps(payload))
        if self.mode == "pull" and not self.standby:
            if fault.role != "web":
                eventually(lambda: asked.poll() is not None, timeout=PATIENCE)
            self._work(fault)

    def _stand_by(self, fault: Fault) -> None:
        """Start a supervisor, and wait for the process that waits for a job."""
        working = self.pull.work("--standby", self.standby, ready=False, **fault.environ())
        eventually(
            lambda: working.told("standing_by") or fault.pid is not None,
            timeout=PATIENCE,
            message=self._told,
        )

    def _crash(self, fault: Fault) -> None:
        self._run_one(fault, ("kill",))

    def _cancel(self, fault: Fault) -> None:
        self._run_one(replace(fault, point="none"))
        eventually(self.ledger.exists, timeout=PATIENCE, message=self._told)
        job = self.job()
        assert job is not None
        self._ask(fault, "cancel", job.uuid)

    def _sweep(self, fault: Fault) -> None:
        start(self.pull.runtime, queue(self.pull.runtime, lock_key=LOCK), worker=DEAD)
        self._command(fault, "jobs", "sweep")

    def _prune(self, fault: Fault) -> None:
        self._sweep(replace(fault, point="none"))
        eventually(lambda: self._asked[0].poll() is not None, timeout=PATIENCE, message=self._told)
        job = self.job()
        assert job is not None
        self.pull.change(job, finished_at=1)
        self._command(fault, "jobs", "prune", "--jobs", "1d")

    def _ask(self, fault: Fault, *words: str) -> subprocess.Popen[bytes]:
        return self._process(fault, [sys.executable, str(ASKER), *words])

    def _command(self, fault: Fault, *words: str) -> None:
        self._process(fault, self.pull.environment.command(*words))

    def _process(self, fault: Fault, argv: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "asked.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **fault.environ()},
                start_new_session=True,
            )
        self._asked.append(process)
        return process

    def _work(self, fault: Fault | None) -> Working:
        return self.pull.work(ready=False, **(fault.environ() if fault else {}))

    def _see(self, pid: int) -> None:
        """That it really happened; what was stopped is left alone by a sweep, and goes on."""
        if self.action == "kill":
            eventually(lambda: not is_running(pid), timeout=PATIENCE)
        if self.action != "stop":
            return
        if TABLE[self.point].role == "standby":
            # It is not waited for, and may be gone already.
            eventually(lambda: getattr(look_at(pid), "state", "T") == "T", timeout=PATIENCE)
            return
        eventually(lambda: getattr(look_at(pid), "state", None) == "T", timeout=PATIENCE)
        before = self.job()
        # Whoever is stopped inside a transaction holds its locks: others wait for it.
        if self.point.partition(".")[2] not in IN_A_TRANSACTION and "sweep" not in self.point:
            Sweeper(self.pull.runtime).sweep()
            now = self.job()
            assert (now and now.status) == (before and before.status)
        os.kill(pid, signal.SIGCONT)

    def _has_asked(self) -> bool:
        return self._asked[-1].poll() is not None

    # -- recovery -------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        job = self.job()
        pruning = TABLE[self.point].story == "prune"
        if all(one.poll() is not None for one in self._asked) or (job and not job.is_active):
            if job is None:
                return True
            if job.is_terminal and not pruning:
                return True
        if job is not None:
            self._recover(job, pruning=pruning)
        return False

    def _recover(self, job: Job, *, pruning: bool) -> None:
        """A sweep; a supervisor where none works; time, where nothing but time would help."""
        if pruning:
            if all(one.poll() is not None for one in self._asked):
                self._command(Fault(**NO_FAULT), "jobs", "prune", "--jobs", "1d")
            return
        if job.status == "queued" and self._may_age and self._nobody_comes():
            # Once: what is reserved after that is in good hands.
            self._may_age = False
            self.pull.change(job, **{self._deadline: 1})
        if self.mode == "pull" and all(one.process.poll() is not None for one in self.pull.started):
            self._work(None)
        if TABLE[self.point].story == "crash" and not self._nobody_reports():
            return  # whoever has the report says more than a sweep could
        with suppress(JobRunnerError):
            Sweeper(self.pull.runtime).sweep()

    def _nobody_reports(self) -> bool:
        """Whether no shim, settling command or supervisor is there that may know the end."""
        mark = self.pull.environment.mark
        words = ("shim", "jobs settle", "jobs work", "jobs run")
        return not any(word in seen.command for seen in processes_with(mark) for word in words)

    def _nobody_comes(self) -> bool:
        """Whether whoever could have claimed is gone, or will not: no shim, no child."""
        mark = self.pull.environment.mark
        commands = [seen.command for seen in processes_with(mark)]
        return not any("jobs run" in one or "shim" in one for one in commands)

    @property
    def _deadline(self) -> str:
        return "claim_deadline" if self.mode == "push" else "dispatch_until"

    def _hang_up(self) -> None:
        for one in self._asked:
            with suppress(OSError):
                if one.stdin is not None:
                    one.stdin.close()
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()

    def _told(self) -> str:
        logs = [path.read_text(errors="replace")[-3000:] for path in self.folder.glob("*.log")]
        return "\n".join([str(self.job()), *logs])


NO_FAULT: dict[str, Any] = {
    "point": "none", "action": "kill", "role": "none", "mark": "none", "database": "none",
}  # fmt: skip
STORIES: dict[str, Callable[[Case, Fault], None]] = {
    "crash": Case._crash,
    "cancel": Case._cancel,
    "sweep": Case._sweep,
    "prune": Case._prune,
}
