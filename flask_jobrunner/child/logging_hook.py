"""Every logging record once, with its level, whatever the application made of `logging`.

No handler is added: `basicConfig` in a handler's module would do nothing then, and a `dictConfig`
would throw ours away. Instead every record that reaches the root is taken where loggers hand
records on, and handlers that would print to the console are kept from printing it again.
"""

from __future__ import annotations

import logging
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Take = Callable[[str, str, str], None]
"""Given level, message and the logger's name."""

_TAKEN = "_jobrunner_taken"
_traceback = logging.Formatter()


def level_of(number: int) -> str:
    """The level that is stored for a level of `logging`."""
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number > logging.DEBUG else "debug"


def text_of(record: logging.LogRecord) -> str:
    """Message, traceback and stack; never raises."""
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001 - a wrong %-format is a fault of the call only
        text = f"{record.msg!s} {record.args!r} (cannot be formatted: {error})"
    try:
        if record.exc_info and not record.exc_text:
            record.exc_text = _traceback.formatException(record.exc_info)
    except Exception:  # noqa: BLE001 - an exception whose text raises
        record.exc_text = "(the traceback cannot be formatted)"
    parts = [text, record.exc_text, record.stack_info]
    return "\n".join(part for part in parts if part).rstrip("\n")


class LoggingHook:
    """Class-wide for this process, as long as it is installed."""

    def __init__(self, take: Take, is_console: Callable[[int], bool]) -> None:
        self._take = take
        self._is_console = is_console
        self._quiet: set[int] = set()
        self._call_handlers = logging.Logger.callHandlers
        self._emit = logging.StreamHandler.emit

    def install(self) -> None:
        """Begin; logging that nobody has configured shows level info from now on."""
        hook = self

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            if _reaches_root(logger):
                hook.take(record)
            hook._call_handlers(logger, record)

        def emit(handler: logging.StreamHandler[Any], record: logging.LogRecord) -> None:
            if hook.prints(handler):
                hook.take(record)
            else:
                hook._emit(handler, record)

        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign,assignment]
        logging.StreamHandler.emit = emit  # type: ignore[method-assign,assignment]
        logging.captureWarnings(capture=True)
        root = logging.getLogger()
        if not root.handlers and root.level == logging.WARNING:
            root.setLevel(logging.INFO)

    def uninstall(self) -> None:
        """Leave logging as it was."""
        logging.Logger.callHandlers = self._call_handlers  # type: ignore[method-assign]
        logging.StreamHandler.emit = self._emit  # type: ignore[method-assign]
        logging.captureWarnings(capture=False)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """No records of this thread: what our own writing logs would have to be written, too."""
        ident = get_ident()
        self._quiet.add(ident)
        try:
            yield
        finally:
            self._quiet.discard(ident)

    def take(self, record: logging.LogRecord) -> None:
        """Hand a record on unless it was before; a copy of it knows."""
        if getattr(record, _TAKEN, False):
            return
        setattr(record, _TAKEN, True)
        if get_ident() in self._quiet:
            return
        with suppress(Exception):  # a log call never fails the handler
            self._take(level_of(record.levelno), text_of(record), record.name)

    def prints(self, handler: logging.StreamHandler[Any]) -> bool:
        """Whether the handler writes to the console that is captured anyway."""
        stream = getattr(handler, "stream", None)
        # Flask's default handler holds a proxy for the error stream of the moment.
        current = getattr(stream, "_get_current_object", None)
        try:
            stream = current() if current is not None else stream
            if stream is sys.__stdout__ or stream is sys.__stderr__:
                return True
            return stream is not None and self._is_console(stream.fileno())
        except Exception:  # noqa: BLE001 - a stream without a descriptor, or a broken one
            return False


def _reaches_root(logger: logging.Logger) -> bool:
    current: logging.Logger | None = logger
    while current is not None and current.parent is not None:
        if not current.propagate:
            return False
        current = current.parent
    return True
