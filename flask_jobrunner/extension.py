"""`JobRunner`: wires everything to an application, and delegates every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from .caller import cancel, enqueue, inspect, links, requeue, start, tested
from .caller.handover import Wait
from .config import Config, load_config
from .files.inputs import Files
from .handlers import HandlerRegistry, describe
from .model.errors import ConfigError
from .model.recorded import RecordedJob
from .model.records import Job, Page
from .model.results import (
    CancelResult,
    EnqueueResult,
    InlineResult,
    RequeueResult,
    StartResult,
    StatusResult,
)
from .repositories.host_session import watch
from .repositories.opening import metadata_of, open_database
from .repositories.tables import build_tables
from .runtime import EXTENSION, Hooks, Runtime, current_runtime, process_role
from .signals import log

F = TypeVar("F", bound=Callable[..., Any])
Hook = TypeVar("Hook", bound=Callable[..., Any])


class JobRunner:
    """Runs long jobs from the application's own database.

    Made once beside `db` and set up on each application with `init_app`; state hangs on the
    application, so several may share one `JobRunner`.
    """

    def __init__(self, app: Flask | None = None, db: SQLAlchemy | None = None) -> None:
        self._db = db
        self._handlers = HandlerRegistry()
        self._hooks = Hooks()
        if app is not None:
            self.init_app(app, db)

    def init_app(self, app: Flask, db: SQLAlchemy | None = None) -> None:
        """Set up on `app`, before or after `db.init_app`. Raises `ConfigError` for what is wrong.

        Reads the `JOBRUNNER_…` settings once: later changes have no effect. Our tables join db's
        metadata, so the application's migrations see them.
        """
        if EXTENSION in app.extensions:
            raise ConfigError(
                "JobRunner is already set up on this application; import that one instead of "
                "calling init_app again."
            )
        config, warnings = load_config(app.config)
        for warning in warnings:
            log.warning(warning)
        database = db or self._db or _registered_db(app)
        tables = build_tables(metadata_of(database, config.bind_key), config.table_prefix)
        handlers = HandlerRegistry(self._handlers)
        for job_type, path in config.handlers.items():
            handlers.add_path(job_type, path)
        app.extensions[EXTENSION] = Runtime(
            app,
            config,
            handlers,
            self._hooks,
            open_database=lambda shared: open_database(
                app,
                database,
                tables,
                bind_key=config.bind_key,
                keep=process_role() != "web",
                shared=shared,
            ),
            db=lambda: database,
        )
        watch()
        if config.url_prefix is not None:
            from .dashboard import register

            register(app, config.url_prefix)
        _import_handler_modules(config)

    # -- registering ----------------------------------------------------------------------

    def handler(
        self,
        job_type: str,
        *,
        title: str | None = None,
        payload: Callable[[Any], Any] | None = None,
        run_budget: float | None = None,
        queue_budget: float | None = None,
        stall_budget: float | None = None,
        cancel_grace: float | None = None,
        restart_interrupted: int = 0,
        manual: bool = False,
    ) -> Callable[[F], F]:
        """Register a function of the context, or a class with `run(ctx)`, under `job_type`.

        `payload` turns the mapping into what `ctx.payload` shall be, before a row exists and again
        in the child. Budgets are seconds: `run_budget` from the handler's start, `queue_budget`
        from the start call, `stall_budget` without any progress or output, `cancel_grace` from a
        cancel request to the end of the process.
        `restart_interrupted` is how often a job made by `enqueue` runs again by itself after its
        process died or was shut down: only for what may safely be done twice. A supervisor or a
        sweep does it.
        With `manual` people may start it from the dashboard, such as again with an earlier job's
        payload: whoever the `authorize` hook grants `start`.
        """

        # Now: `@jobs.handler` without brackets gives the function, and would register nothing.
        described = describe(
            job_type,
            title=title,
            payload=payload,
            run_budget=run_budget,
            queue_budget=queue_budget,
            stall_budget=stall_budget,
            cancel_grace=cancel_grace,
            restart_interrupted=restart_interrupted,
            manual=manual,
        )

        def register(function: F) -> F:
            self._handlers.add(replace(described, function=function))
            return function

        return register

    def authorize(self, function: Hook) -> Hook:
        """Register who may see and do what: `(action, job) -> bool | Response`."""
        self._hooks.authorize = function
        return function

    def actor(self, function: Hook) -> Hook:
        """Register who acts: `() -> str | None`. Default: Flask-Login's user."""
        self._hooks.actor = function
        return function

    def scope(self, function: Hook) -> Hook:
        """Register whose jobs are seen: `() -> owner | None`; None restricts nothing."""
        self._hooks.scope = function
        return function

    # -- calls ----------------------------------------------------------------------------

    def start(
        self,
        job_type: str,
        payload: dict[str, Any] | None = None,
        *,
        lock_key: str | None = None,
        title: str | None = None,
        owner: str | None = None,
        reference: str | None = None,
        actor: str | None = None,
        files: Files | None = None,
        wait: Wait = True,
        session: Any = None,
    ) -> StartResult:
        """Commit a job and launch a process for it.

        Result statuses: `started` (its process has claimed it), `launching` (not known yet),
        `already_active` (`.job` holds the lock key), `launch_failed`. `wait` is True for
        JOBRUNNER_ACK_TIMEOUT, seconds, or False. With `session` the row joins that session's
        transaction and is launched after its commit. `files` maps names to paths, bytes or open
        files, which are copied; the handler reads them with `ctx.file(name)`.

        Raises `UnknownJobType`, `InvalidPayload`, `UncommittedChanges`, `ConfigError` before a
        row exists, and `LaunchUnknown` when the database went away after one did.
        """
        return start.start(
            current_runtime(),
            job_type,
            payload,
            lock_key=lock_key,
            title=title,
            owner=owner,
            reference=reference,
            actor=actor,
            files=files,
            wait=wait,
            session=session,
        )

    def enqueue(
        self,
        job_type: str,
        payload: dict[str, Any] | None = None,
        *,
        lock_key: str | None = None,
        title: str | None = None,
        owner: str | None = None,
        reference: str | None = None,
        actor: str | None = None,
        files: Files | None = None,
        priority: int = 0,
        not_before: datetime | None = None,
        session: Any = None,
    ) -> EnqueueResult:
        """Commit a job that waits for a supervisor, `flask jobs work`.

        Result statuses: `queued`, `already_active` (`.job` holds the lock key). The highest
        `priority` goes first; `not_before` is a datetime with a time zone. With `session` the row
        joins that session's transaction.

        Raises `UnknownJobType`, `InvalidPayload`, `UncommittedChanges`, `ConfigError` before a
        row exists.
        """
        return enqueue.enqueue(
            current_runtime(),
            job_type,
            payload,
            lock_key=lock_key,
            title=title,
            owner=owner,
            reference=reference,
            actor=actor,
            files=files,
            priority=priority,
            not_before=not_before,
            session=session,
        )

    def run_inline(
        self,
        job_type: str,
        payload: dict[str, Any] | None = None,
        *,
        lock_key: str | None = None,
        title: str | None = None,
        owner: str | None = None,
        reference: str | None = None,
        actor: str | None = None,
        files: Files | None = None,
    ) -> InlineResult:
        """Run a job in this process, with the same row and handler: for tests and short work.

        Blocks; captures context calls and logging only; nothing can end a handler that hangs.
        """
        from .caller import inline

        return inline.run_inline(
            current_runtime(),
            job_type,
            payload,
            lock_key=lock_key,
            title=title,
            owner=owner,
            reference=reference,
            actor=actor,
            files=files,
        )

    def recorded(self, job_type: str | None = None) -> list[RecordedJob]:
        """What was started, enqueued and requeued in this process, in order; in tests of a host.

        `job_type` leaves out the others. Only what was committed: not what found its lock key
        held, and not what joined a transaction that was rolled back. Raises `ConfigError` unless
        JOBRUNNER_MODE is `record` or `inline`.
        """
        return tested.recorded(current_runtime(), job_type)

    def status(
        self, job: int | str, after_seq: int | None = None, limit: int = 200
    ) -> StatusResult:
        """A job with a slice of its log: `found` or `not_found`.

        `after_seq` None gives the newest lines, a number the lines after it; both oldest first.
        `last_log_seq` passed back unchanged never skips or repeats a line. `limit` ends at 1000.
        """
        return inspect.status(current_runtime(), _ref(job), after_seq, limit)

    def get(self, job: int | str) -> Job | None:
        """The job, or None."""
        return inspect.get(current_runtime(), _ref(job))

    def get_many(self, ids: Iterable[int | str]) -> dict[str, Job]:
        """The jobs there are among these uuids and ids, by uuid."""
        return inspect.get_many(current_runtime(), (_ref(job) for job in ids))

    def find(
        self,
        *,
        status: str | Sequence[str] | None = None,
        job_type: str | None = None,
        owner: str | None = None,
        reference: str | None = None,
        actor: str | None = None,
        lock_key: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """A page of jobs, newest first; `limit` ends at 200. `lock_key`: who holds it now."""
        return inspect.find(
            current_runtime(),
            status=status,
            job_type=job_type,
            owner=owner,
            reference=reference,
            actor=actor,
            lock_key=lock_key,
            cursor=cursor,
            limit=limit,
        )

    def wait(self, job: int | str, timeout: float) -> Job:
        """Wait for the end, at most `timeout` seconds: the job, terminal or not by then.

        Raises `JobNotFound`.
        """
        return inspect.wait_for(current_runtime(), _ref(job), timeout)

    def cancel(
        self, job: int | str, *, actor: str | None = None, force: bool = False
    ) -> CancelResult:
        """Cancel a queued job, or ask a running one to stop.

        With `force` its process is ended some seconds later, whatever the handler does, and a lost
        job is closed: its lock is free again. This call itself ends no process.
        Result statuses: `cancelled`, `cancel_requested`, `already_cancel_requested`,
        `already_terminal`, `not_found`.
        """
        return cancel.cancel(current_runtime(), _ref(job), actor=actor, force=force)

    def requeue(
        self,
        job: int | str,
        *,
        actor: str | None = None,
        delay: float | timedelta | None = None,
        confirm_lost: bool = False,
        wait: Wait = True,
    ) -> RequeueResult:
        """Run an ended job again as the next attempt of the same row.

        Result statuses: those of `start`, `queued` for a job made by `enqueue`,
        `not_requeueable`, `not_found`. A lost job may still be running somewhere, so it wants
        `confirm_lost`. `delay` is for jobs made by `enqueue`: seconds before it may begin.

        A job that waits for supervisors of another revision is admitted under this one.
        """
        return requeue.requeue(
            current_runtime(),
            _ref(job),
            actor=actor,
            delay=delay,
            confirm_lost=confirm_lost,
            wait=wait,
        )

    def url_for(self, job: int | str, **values: Any) -> str:
        """The absolute address of the job's page, from the base URL kept at its start.

        Works without a request, also in a child. Raises `JobNotFound`, or `ConfigError` when no
        base URL is known.
        """
        return links.url_for(current_runtime(), _ref(job), **values)


def _ref(job: int | str | Job) -> int | str:
    if isinstance(job, Job):
        return job.id
    return inspect.check_ref(job)


def _registered_db(app: Flask) -> SQLAlchemy:
    db = app.extensions.get("sqlalchemy")
    if db is None:
        raise ConfigError(
            "JobRunner needs the application's Flask-SQLAlchemy object: call "
            "jobs.init_app(app, db), or db.init_app(app) first."
        )
    found: SQLAlchemy = db
    return found


def _import_handler_modules(config: Config) -> None:
    import importlib

    for module, path in config.handlers.items():
        if not path:
            importlib.import_module(module)
