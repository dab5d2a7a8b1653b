"""Who is measured: each tool in its default configuration, but for what its name says.

The application, the job, the interpreter and the libraries are the same for all. A tool that does
not build a Flask application by itself has its job within `app.app_context()`, as its or Flask's
documentation advises. What runs a job:

- ours: a new process for each job, which has built the application before the job is there
  (standby), or builds it then (standby 0);
- RQ default: a fork for each job, which imports the job's module and so builds the application;
- RQ preloaded: the same, forked from a worker that has imported that module;
- RQ SpawnWorker: a new process for each job;
- Celery prefork: processes that are used again and again; or, with one task per child, a fork for
  each, prepared before the job is there, from a parent that has the application;
- Huey: one process that is used again and again, its queue on Redis or in an SQLite file;
- Procrastinate: threads of one process, used again and again, its queue in PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OURS = "benchmarks.peers.on_ours"


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One tool with one kind of worker."""

    name: str
    tool: str
    """The module of the job, and of what the web process does."""
    service: str
    """Where its queue is: sqlite, postgresql, mariadb, redis or file."""
    worker: tuple[str, ...]
    """What follows the interpreter; `{slots}` is how many jobs run at once."""
    one_each: bool = False
    """Whether one worker runs one job at a time, so that there are as many as slots."""
    environ: dict[str, str] = field(default_factory=dict, hash=False)
    notices: str = ""
    """After how long it notices the death of a whole worker, as documented."""

    @property
    def is_ours(self) -> bool:
        return self.tool == OURS

    def commands(self, slots: int) -> list[list[str]]:
        """The workers for so many jobs at once."""
        words = [word.format(slots=slots) for word in self.worker]
        return [words] * (slots if self.one_each else 1)


def ours(service: str, standby: int = 1) -> Contestant:
    """Our supervisor."""
    command = ("-m", "flask_jobrunner", "--app", f"{OURS}:create_app", "jobs", "work")
    more = () if standby else ("--standby", "0")
    return Contestant(
        name="ours" if standby else "ours, standby 0",
        tool=OURS,
        service=service,
        worker=(*command, "--slots", "{slots}", *more),
    )


def _rq(name: str, *worker: str) -> Contestant:
    return Contestant(
        name=f"RQ {name}",
        tool="benchmarks.peers.on_rq",
        service="redis",
        worker=worker,
        one_each=True,
        notices="up to 90 s until its sign of life is over, then up to 10 min until maintenance",
    )


def _celery(name: str, *options: str, notices: str, **environ: str) -> Contestant:
    app = ("-m", "celery", "--app", "benchmarks.peers.on_celery:celery", "worker")
    return Contestant(
        name=f"Celery {name}",
        tool="benchmarks.peers.on_celery",
        service="redis",
        worker=(*app, "--concurrency", "{slots}", *options),
        environ=environ,
        notices=notices,
    )


def _huey(service: str) -> Contestant:
    consumer = ("-m", "huey.bin.huey_consumer", "benchmarks.peers.on_huey.huey")
    return Contestant(
        name="Huey process worker",
        tool="benchmarks.peers.on_huey",
        service=service,
        worker=(*consumer, "-k", "process", "-w", "{slots}"),
        notices="never",
    )


RQ_COMMAND = ("-c", "from rq.cli import main; main()", "worker")
RQ_DEFAULT = _rq("default", *RQ_COMMAND)
RQ_PRELOADED = _rq("preloaded", "-m", "benchmarks.peers.rq_preloaded")
RQ_SPAWN = _rq("SpawnWorker", *RQ_COMMAND, "--worker-class", "rq.SpawnWorker")
CELERY = _celery("prefork", notices="never: it was acknowledged before it began")
CELERY_ONE = _celery("1 task per child", "--max-tasks-per-child", "1", notices=CELERY.notices)
CELERY_LATE = _celery(
    "acks_late", notices="1 h, its visibility timeout; then it runs again", PEERS_ACKS_LATE="1"
)
HUEY, HUEY_FILE = _huey("redis"), _huey("file")
PROCRASTINATE = Contestant(
    name="Procrastinate",
    tool="benchmarks.peers.on_procrastinate",
    service="postgresql",
    worker=(
        *("-m", "procrastinate", "--app", "benchmarks.peers.on_procrastinate.app"),
        *("worker", "--concurrency", "{slots}"),
    ),
    notices="never by itself: its documentation has a task to write for it",
)
PEERS = (
    RQ_DEFAULT,
    RQ_PRELOADED,
    RQ_SPAWN,
    CELERY,
    CELERY_ONE,
    HUEY,
    HUEY_FILE,
    PROCRASTINATE,
)
