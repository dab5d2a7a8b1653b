"""The handler registry: job type -> the host's function, and what may be said about it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from .model.errors import ConfigError, HandlerError, UnknownJobType
from .model.statuses import Reason
from .protocol.checks import SECONDS_MAX, is_budget, is_short
from .protocol.encoding import safe_repr

JOB_TYPE_MAX_BYTES = 128
RESTARTS_MAX = 100


@dataclass(frozen=True, kw_only=True)
class Handler:
    """One registered handler. `path` is set while the function is still to be imported."""

    job_type: str
    function: Callable[..., Any] | None
    path: str | None = None
    title: str | None = None
    payload: Callable[[Any], Any] | None = None
    run_budget: float | None = None
    queue_budget: float | None = None
    stall_budget: float | None = None
    cancel_grace: float | None = None
    restart_interrupted: int = 0
    manual: bool = False
    """Whether people may start it from the dashboard."""

    def call(self, context: Any) -> Any:
        """Run it: a function of the context, or a class with `run(context)`.

        Raises `HandlerError` where it is neither.
        """
        function = self.function
        if inspect.isclass(function):
            return _runner(self.job_type, function)(context)
        if not callable(function):
            raise HandlerError(
                f"The handler of {self.job_type} is {safe_repr(function, 200)}, which cannot be "
                "called.",
                Reason.HANDLER_CONTRACT_MISMATCH,
            )
        return function(context)


def _runner(job_type: str, handler: type) -> Callable[[Any], Any]:
    if not callable(getattr(handler, "run", None)):
        raise HandlerError(
            f"The handler class {handler.__qualname__} of {job_type} has no run(ctx) method.",
            Reason.HANDLER_CONTRACT_MISMATCH,
        )
    try:
        run: Callable[[Any], Any] = handler().run
    except TypeError as error:
        raise HandlerError(
            f"The handler class {handler.__qualname__} of {job_type} must be made without "
            f"arguments: {error}.",
            Reason.HANDLER_CONTRACT_MISMATCH,
        ) from error
    return run


def check_job_type(job_type: object) -> str:
    """`job_type` as it is stored; raises `ConfigError` with the rule it breaks."""
    if callable(job_type):
        raise ConfigError(
            "The decorator needs a job type: @jobs.handler('reports.build'), not @jobs.handler "
            f"over {getattr(job_type, '__qualname__', 'it')}."
        )
    if not isinstance(job_type, str) or not job_type.strip():
        raise ConfigError(f"A job type is a non-empty string; it is {safe_repr(job_type, 80)}.")
    if job_type != job_type.strip() or not job_type.isprintable():
        raise ConfigError(f"The job type {job_type!r} has blanks around it or control characters.")
    if len(job_type.encode()) > JOB_TYPE_MAX_BYTES or "/" in job_type:
        raise ConfigError(
            f"The job type {job_type[:140]!r} must be at most {JOB_TYPE_MAX_BYTES} bytes and "
            "without '/'; a namespaced one such as 'reports.build' reads best."
        )
    if job_type in (".", ".."):
        # Browsers take these for steps in a path: the page of such a type has no address.
        raise ConfigError(f"{job_type!r} cannot be a job type: its page could not be addressed.")
    return job_type


def describe(
    job_type: str,
    *,
    title: str | None,
    payload: Callable[[Any], Any] | None,
    run_budget: float | None,
    queue_budget: float | None,
    stall_budget: float | None,
    cancel_grace: float | None,
    restart_interrupted: int,
    manual: bool = False,
) -> Handler:
    """A handler whose function is still to come. Raises `ConfigError` for what is not possible."""
    if payload is not None and not callable(payload):
        raise ConfigError(f"payload= is what makes ctx.payload; {payload!r:.80} is no callable.")
    return Handler(
        job_type=check_job_type(job_type),
        function=None,
        title=_title(title),
        payload=payload,
        run_budget=_budget("run_budget", run_budget),
        queue_budget=_budget("queue_budget", queue_budget),
        stall_budget=_budget("stall_budget", stall_budget),
        cancel_grace=_budget("cancel_grace", cancel_grace),
        restart_interrupted=_restarts(restart_interrupted),
        manual=_yes_or_no("manual", manual),
    )


def _budget(name: str, seconds: object) -> float | None:
    if seconds is None:
        return None
    if not is_budget(seconds):
        raise ConfigError(
            f"{name} must be None or a number of seconds above 0, at most {SECONDS_MAX:,}; it is "
            f"{seconds!r}."
        )
    return float(cast("float", seconds))


def _restarts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= RESTARTS_MAX:
        raise ConfigError(
            f"restart_interrupted= must be a whole number from 0 to {RESTARTS_MAX}; it is "
            f"{value!r:.80}."
        )
    return value


def _yes_or_no(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name}= must be True or False; it is {value!r:.80}.")
    return value


def _title(title: str | None) -> str | None:
    if title is not None and not is_short(title):
        raise ConfigError(f"A title is text of at most 255 characters; it is {title!r:.80}.")
    return title


class HandlerRegistry:
    """Handlers by job type. Filled while modules are imported, then read.

    An extension object has one for what is decorated, and each of its applications one of its
    own over that, for the paths of its configuration: one application's say nothing of another's.
    """

    def __init__(self, shared: HandlerRegistry | None = None) -> None:
        self._handlers: dict[str, Handler] = {}
        self._shared = shared

    def add(self, handler: Handler) -> None:
        """Register; the same function again replaces itself, another one is a `ConfigError`."""
        known = self._handlers.get(check_job_type(handler.job_type))
        if known is not None and _name(known) != _name(handler):
            raise _taken(known, handler)
        self._handlers[handler.job_type] = handler

    def add_path(self, job_type: str, path: str) -> None:
        """Register a dotted path, imported only in the child."""
        if not path:
            return
        handler = Handler(job_type=check_job_type(job_type), function=None, path=path)
        known = self._handlers.get(job_type)
        if known is not None and known.path and known.path != path:
            raise _taken(known, handler)
        if known is None:
            self._handlers[job_type] = handler

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._handlers, *(self._shared or ())}))

    def find(self, job_type: str) -> Handler:
        """The handler as registered, not imported. Raises `UnknownJobType`, naming the known."""
        handler = self.get(job_type)
        if handler is None:
            known = ", ".join(self) or "none"
            raise UnknownJobType(
                f"No handler is registered for the job type {safe_repr(job_type, 140)}. "
                f"Known: {known}."
            )
        return handler

    def resolve(self, job_type: str) -> Handler:
        """The handler with its function; imports a dotted path.

        Raises `UnknownJobType`, or `HandlerError` when the path cannot be imported.
        """
        handler = self.find(job_type)
        if handler.path is None:
            return handler
        module_name, _, attribute = handler.path.partition(":")
        try:
            target: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                target = getattr(target, part)
        except Exception as error:
            raise HandlerError(
                f"The handler of {job_type}, {handler.path}, cannot be imported: "
                f"{type(error).__name__}: {error}.",
                Reason.HANDLER_NOT_IMPORTABLE,
            ) from error
        # The module may hold a decorated function: then it has registered itself, with options.
        registered = self.find(job_type)
        return registered if registered.path is None else replace(handler, function=target)

    def get(self, job_type: str) -> Handler | None:
        """The handler, or None. Raises `ConfigError` when a path names another than a decorator."""
        own = self._handlers.get(job_type)
        decorated = None if self._shared is None else self._shared.get(job_type)
        if own is not None and decorated is not None and _name(own) != _name(decorated):
            raise _taken(decorated, own)
        return decorated or own


def _taken(known: Handler, handler: Handler) -> ConfigError:
    return ConfigError(
        f"The job type {handler.job_type!r} already has the handler {_name(known)}; "
        f"{_name(handler)} needs a job type of its own."
    )


def _name(handler: Handler) -> str:
    if handler.function is None:
        return str(handler.path)
    module = getattr(handler.function, "__module__", "?")
    return f"{module}:{getattr(handler.function, '__qualname__', '?')}"
