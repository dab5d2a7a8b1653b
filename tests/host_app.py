"""The host application of the tests: a job's process builds it again from the environment.

`HOST_DATABASE_URL` is its database, `HOST_CONFIG` a JSON object of configuration that wins over
what stands here, `HOST_INSTANCE` its instance folder. `host.script` does what its payload says:
see `host_acts`.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_jobrunner import Job, JobContext, JobRunner, process_role
from tests.host_acts import perform

APP = "tests.host_app:create_app"
DATABASE = "HOST_DATABASE_URL"
CONFIG = "HOST_CONFIG"
WHILE = "raise while "
"""Before the path of a file: the factory raises as long as that is there."""
INSTANCE = "HOST_INSTANCE"
DIES = -9


class Model(DeclarativeBase):
    """The base of the host's own tables."""


db = SQLAlchemy(model_class=Model)
jobs = JobRunner()


class Entry(db.Model):  # type: ignore[name-defined,misc]  # made at run time
    """A table of the host's own."""

    __tablename__ = "host_entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), default="")


@dataclass(frozen=True)
class Order:
    """What the payload of `host.validated` becomes; `DIES` ends the process that decodes it."""

    count: int

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Order:
        """Raises `ValueError` unless `count` is a number."""
        if payload.get("count") == DIES and process_role() == "job":
            os.kill(os.getpid(), signal.SIGKILL)
        return cls(int(payload.get("count", "missing")))


@jobs.handler("host.script", title="Script")
def run_script(ctx: JobContext) -> Any:
    """Do what the payload says."""
    return perform(ctx)


@jobs.handler("host.nothing")
def do_nothing(ctx: JobContext) -> None:
    """The shortest job."""


@jobs.handler("host.validated", payload=Order.from_payload)
def count(ctx: JobContext) -> int:
    """Return what the decoded payload holds."""
    order: Order = ctx.payload
    return order.count


@jobs.handler("host.stubborn", cancel_grace=0.5)
def stubborn(ctx: JobContext) -> Any:
    """A script whose process is ended half a second after a cancel."""
    return perform(ctx)


@jobs.handler("host.budget", run_budget=1.0)
def budget(ctx: JobContext) -> Any:
    """A script that may run for one second."""
    return perform(ctx)


@jobs.handler("host.class")
class InClass:
    """A handler in the shape of a class."""

    def run(self, ctx: JobContext) -> Any:
        """The same as a function."""
        return perform(ctx)


@jobs.handler("host.coroutine")
async def coroutine(ctx: JobContext) -> None:
    """Not a handler: nobody awaits it."""


@jobs.authorize
def allow(action: str, job: Job | None) -> bool:
    """Everybody may do everything, unless the configuration says otherwise."""
    return bool(current_app.config.get("HOST_ALLOW", True))


def create_app() -> Flask:
    """Build the application on the database that the environment names."""
    _arm()
    app = Flask("tests.host_app", instance_path=os.environ.get(INSTANCE))
    app.config.update(
        SECRET_KEY="of the tests",
        SQLALCHEMY_DATABASE_URI=os.environ[DATABASE],
        JOBRUNNER_APP=APP,
        JOBRUNNER_STANDBY=0,  # tests that are about it, or stricter with it, ask for one
    )
    app.config.update(json.loads(os.environ.get(CONFIG) or "{}"))
    _break(app.config.get("HOST_FACTORY"))
    db.init_app(app)
    jobs.init_app(app, db)
    if app.config.get("HOST_FACTORY") == "start" and process_role() == "job":
        with app.app_context():
            jobs.start("host.nothing", wait=False)
    return app


def _arm() -> None:
    """Arm the fault point that the environment names: only what tests start has one."""
    if "HOST_FAULTS" in os.environ:
        from tests.helpers.faulting import arm_from

        arm_from(os.environ)


def _break(how: str | None) -> None:
    """Let the factory of a job's process go wrong in the way that the configuration names."""
    if how is None or process_role() not in ("job", "standby"):
        return
    while_there = how.removeprefix(WHILE)
    if while_there != how:
        how = "raise" if Path(while_there).exists() else None
    if how is not None:
        FAULTS[how]()


def _raise() -> None:
    raise RuntimeError("the factory is broken on purpose; password=hunter2")


def _chatter() -> None:
    """A megabyte, and what looks like messages of a job's process."""
    print("x" * (1 << 20))
    print('{"v":1,"type":"claimed","uuid":"0","attempt":1,"token":"t","nonce":"n"}')
    print("\x1e0123456789abcdef{}\x00\udcff", file=sys.stderr)


def _close_ack() -> None:
    """Close the one pipe that is written to and is no output: the way to the parent."""
    outputs = {os.fstat(1).st_ino, os.fstat(2).st_ino}
    for entry in list(Path("/proc/self/fd").iterdir()):
        number = int(entry.name)
        try:
            status = os.fstat(number)
            writes = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        except OSError:  # the listing's own
            continue
        if stat.S_ISFIFO(status.st_mode) and writes and status.st_ino not in outputs:
            os.close(number)


FAULTS: dict[str, Callable[[], object]] = {
    "raise": _raise,
    "start": lambda: None,  # once there is something to start it with
    "exit": lambda: sys.exit(7),
    "import": lambda: __import__("no_such_module_anywhere"),
    "hang": lambda: time.sleep(600),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "chatter": _chatter,
    "close": lambda: os.closerange(3, 1024),
    "close ack": _close_ack,
}
