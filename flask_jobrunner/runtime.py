"""What one application's jobs need, in one object; and which process this is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from flask import Flask, current_app

from .model.errors import ConfigError
from .protocol.command import default_command
from .protocol.encoding import clean_text, clip_bytes
from .repositories.attempts import AttemptRepository
from .repositories.database import Database
from .repositories.dispatch import DispatchRepository
from .repositories.endings import EndingRepository
from .repositories.files import FileRepository
from .repositories.history import HistoryRepository
from .repositories.host_session import Uncommitted, uncommitted, watch
from .repositories.jobs import JobRepository
from .repositories.listing import ListingRepository
from .repositories.logs import EventRepository, LogRepository
from .repositories.old_files import OldFileRepository
from .repositories.ownership import OwnershipRepository
from .repositories.retention import RetentionRepository
from .repositories.schema import MetaRepository
from .repositories.supervisors import SupervisorRepository

if TYPE_CHECKING:
    from .config import Config
    from .handlers import Handler, HandlerRegistry
    from .model.recorded import RecordedJob

Budget = Literal["run_budget", "queue_budget", "stall_budget", "cancel_grace"]
ProcessRole = Literal["web", "supervisor", "standby", "job"]
EXTENSION = "jobrunner"
ACTOR_MAX_BYTES = 191

_role: ProcessRole = "web"


def process_role() -> ProcessRole:
    """What this process is for; readable before the application's factory runs.

    `job` in a process that runs one job or records its end, so that a factory can leave out what
    jobs do not need.
    """
    return _role


def set_process_role(role: ProcessRole) -> None:
    """Say what this process is for; called by the command before it builds the application."""
    global _role  # noqa: PLW0603 - it is a fact about the process, and there is one process
    _role = role


@lru_cache(maxsize=1)
def package_version() -> str:
    """The installed version, or a word where the package runs from a checkout."""
    try:
        return version("flask-jobrunner")
    except PackageNotFoundError:
        return "(checkout)"


_building = False


@contextlib.contextmanager
def building() -> Iterator[None]:
    """While the application is built for a job's sake: for one to run, or to record its end."""
    global _building  # noqa: PLW0603 - the same
    _building = True
    try:
        yield
    finally:
        _building = False


def is_building() -> bool:
    """Whether what is called now is called by the building of the application for a job."""
    return _building


class Hooks:
    """The host's answers: who may do what, who acts, and whose jobs are seen."""

    def __init__(self) -> None:
        self.authorize: Callable[[str, Any], Any] | None = None
        self.actor: Callable[[], str | None] | None = None
        self.scope: Callable[[], str | None] | None = None

    def current_actor(self) -> str | None:
        """Who acts now: the host's `@jobs.actor`, else Flask-Login's user inside a request."""
        actor = self.actor() if self.actor is not None else _login_user()
        # Whatever a host answers is stored beside rows: it must not keep one from being written.
        return None if actor is None else clip_bytes(clean_text(str(actor)), ACTOR_MAX_BYTES)

    def current_scope(self) -> str | None:
        """The owner to whom reads are restricted now; None restricts nothing."""
        scope = self.scope() if self.scope is not None else None
        # As text that can be compared with a column: an id of a user may be a number.
        return None if scope is None else clean_text(str(scope))


def _login_user() -> str | None:
    from flask import has_request_context

    if not has_request_context() or not hasattr(current_app, "login_manager"):
        return None
    from flask_login import current_user

    if not current_user or not current_user.is_authenticated:
        return None
    return str(current_user.get_id())


class Runtime:
    """Config, handlers, hooks and repositories of one application.

    The database is reached at first use: the host may set up SQLAlchemy after us.
    """

    def __init__(
        self,
        app: Flask,
        config: Config,
        handlers: HandlerRegistry,
        hooks: Hooks,
        *,
        open_database: Callable[[bool], Database],
        db: Callable[[], Any],
    ) -> None:
        self.app = app
        self._configure(config)
        self.handlers = handlers
        self.hooks = hooks
        self._open_database = open_database
        self.recorded: list[RecordedJob] = []
        """What was started and enqueued, in the modes for tests."""
        self.db = db
        """Gives the host's Flask-SQLAlchemy object."""
        self.told_closed = False
        """Whether the log has been told that nobody may see the dashboard."""
        # Now, while `flask …` builds the application: the threads of `flask run` do not see it.
        self._command_path = _context_path()

    @cached_property
    def database(self) -> Database:
        """Our connections. Raises `ConfigError` when the host's database cannot be used."""
        # A process that runs jobs has connections of its own, whatever its application is set to.
        return self._open_database(self.is_tested and process_role() == "web")

    @property
    def is_tested(self) -> bool:
        """Whether JOBRUNNER_MODE is one of those in which no process is started."""
        return self.config.mode != "process"

    @contextlib.contextmanager
    def in_mode(self, mode: str) -> Iterator[None]:
        """Have another JOBRUNNER_MODE for a while: a fixture's, for one test."""
        before = self.config
        self._configure(replace(before, mode=mode))
        try:
            yield
        finally:
            self._configure(before)

    def _configure(self, config: Config) -> None:
        self.config = config
        if self.is_tested:
            watch(savepoints=True)
        for name in [
            name for name, value in vars(type(self)).items() if isinstance(value, cached_property)
        ]:
            self.__dict__.pop(name, None)

    @cached_property
    def jobs(self) -> JobRepository:
        """The moves that callers make."""
        return JobRepository(self.database)

    @cached_property
    def ownership(self) -> OwnershipRepository:
        """What an owner writes."""
        return OwnershipRepository(self.database, self.config.lease)

    @cached_property
    def endings(self) -> EndingRepository:
        """How attempts end."""
        return EndingRepository(self.database)

    @cached_property
    def dispatch(self) -> DispatchRepository:
        """Handing out what waits."""
        return DispatchRepository(self.database)

    @cached_property
    def retention(self) -> RetentionRepository:
        """What is old enough to be removed."""
        return RetentionRepository(self.database)

    @cached_property
    def supervisors(self) -> SupervisorRepository:
        """Who runs `flask jobs work`."""
        return SupervisorRepository(self.database)

    @cached_property
    def listing(self) -> ListingRepository:
        """Pages and counts."""
        return ListingRepository(self.database)

    @cached_property
    def history(self) -> HistoryRepository:
        """How the newest runs went."""
        return HistoryRepository(self.database)

    @cached_property
    def logs(self) -> LogRepository:
        """Log lines."""
        return LogRepository(self.database)

    @cached_property
    def events(self) -> EventRepository:
        """What happened."""
        return EventRepository(self.database)

    @cached_property
    def attempts(self) -> AttemptRepository:
        """Attempts and reports."""
        return AttemptRepository(self.database)

    @cached_property
    def files(self) -> FileRepository:
        """What jobs were given and what they left behind."""
        return FileRepository(self.database)

    @cached_property
    def old_files(self) -> OldFileRepository:
        """Files whose time is over."""
        return OldFileRepository(self.database)

    @cached_property
    def meta(self) -> MetaRepository:
        """Schema version and fingerprint."""
        return MetaRepository(self.database)

    def budget(self, handler: Handler, name: Budget) -> float | None:
        """Seconds that apply to this handler: its own value goes before the setting."""
        own: float | None = getattr(handler, name)
        setting: float | None = getattr(self.config, name)
        return setting if own is None else own

    @property
    def supervisor_silence(self) -> float:
        """Seconds without a sign of life after which a supervisor counts as gone."""
        return self.config.lease + self.config.margin

    def uncommitted(self) -> Uncommitted | None:
        """What `db.session` holds in this context that is not committed."""
        return uncommitted(self.db().session)

    def command(self) -> list[str]:
        """The argv to which `jobs …` is appended. Raises `ConfigError` when it is not known."""
        if self.config.command:
            return list(self.config.command)
        return default_command(self.app_path())

    def app_path(self) -> str:
        """What `flask --app` takes to build this application in another process."""
        path = self.config.app or self._command_path or os.environ.get("FLASK_APP")
        if path:
            return path
        raise ConfigError(
            "A job runs in a process that builds the application anew, and nothing says how. Add "
            'a line such as app.config["JOBRUNNER_APP"] = "shop:create_app" (what `flask --app` '
            "takes), or set FLASK_APP."
        )

    def likeness(self) -> str:
        """The same in two processes that were built from the same application and settings."""
        meta = self.meta.ensure()
        parts = [
            self.config.digest,
            list(self.config.command or [self.app_path()]),
            meta.schema_version,
            meta.fingerprint,
            package_version(),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def let_go(self) -> None:
        """Close every connection, the host's as well; they are made anew when they are needed."""
        with self.app.app_context():
            self.db().session.remove()
            for engine in self.db().engines.values():
                engine.dispose()
        self.database.engine.dispose()

    def files_dir(self) -> Path:
        """Where the bytes of files are: JOBRUNNER_FILES_DIR. Raises `ConfigError` without it."""
        if self.config.files_dir is None:
            raise ConfigError(
                "Files of jobs need a folder: set JOBRUNNER_FILES_DIR to one that web servers, "
                "supervisors and jobs share."
            )
        return Path(self.app.instance_path, self.config.files_dir)

    def spool_dir(self) -> Path:
        """Where reports wait that could not be recorded: JOBRUNNER_SPOOL_DIR, private to us."""
        return Path(self.app.instance_path, self.config.spool_dir or "jobrunner/spool")

    def spool_dirs(self) -> list[Path]:
        """Where reports may wait by now: see `make_spool_dir`."""
        spare = _spare_spool_dir()
        return [self.spool_dir(), *([spare] if _is_private(spare) else [])]

    def make_spool_dir(self) -> Path:
        """The spool directory, made if need be; a temporary one when that cannot be.

        A read-only instance folder must not keep a job from starting. Raises `ConfigError` where
        there is none that nobody else can write to.
        """
        folder = self.spool_dir()
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
        spare = _spare_spool_dir()
        with contextlib.suppress(OSError):
            spare.mkdir(mode=0o700, exist_ok=True)
        if _is_private(spare):
            return spare
        raise ConfigError(
            f"Neither {folder} nor {spare} can be used by this user alone: set JOBRUNNER_SPOOL_DIR "
            "to a folder that can."
        )


def _spare_spool_dir() -> Path:
    return Path(tempfile.gettempdir()) / f"jobrunner-spool-{_uid()}"


def _uid() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_private(folder: Path) -> bool:
    """Whether a folder whose name anybody can guess is ours: what lies there is believed."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == _uid()
    return ours and not found.st_mode & 0o077


def _context_path() -> str | None:
    """The import path that this `flask …` command was given."""
    import click
    from flask.cli import ScriptInfo

    context = click.get_current_context(silent=True)
    info = context.find_object(ScriptInfo) if context is not None else None
    return info.app_import_path if info is not None else None


def current_runtime() -> Runtime:
    """The runtime of `current_app`; raises `ConfigError` when jobs were not set up on it."""
    runtime = current_app.extensions.get(EXTENSION)
    if runtime is None:
        raise ConfigError(
            "JobRunner is not set up on this application: call jobs.init_app(app, db) in its "
            "factory."
        )
    return cast(Runtime, runtime)
