"""What a database error means for the unit that met it: try again, reconnect, or give up.

By SQLSTATE, error number or SQLite's own name, never by exception class: one class stands for a
full disk and for a lost connection. Numbers: PostgreSQL appendix A, MySQL and MariaDB error
references, sqlite.org/rescode.html.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy.exc import DBAPIError, IntegrityError, PendingRollbackError

Fault = Literal["retry", "reconnect", "conflict", "fatal"]

_RETRY_STATES = frozenset({"40001", "40P01", "55P03"})
_RECONNECT_STATES = frozenset({"57P01", "57P02", "57P03", "25P03", "25P04", "53300"})
_RETRY_NUMBERS = frozenset({1213, 1205, 1020})
_RECONNECT_NUMBERS = frozenset({2002, 2003, 2006, 2013, 2055, 1040, 1053, 1927})
_RETRY_NAMES = ("SQLITE_BUSY", "SQLITE_LOCKED")
# A handler that closes every descriptor leaves SQLite with one that answers with these.
_RECONNECT_NAMES = ("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL")


def classify(error: Exception) -> Fault:
    """`retry` the unit, `reconnect` and read back, a unique `conflict`, or `fatal`."""
    if isinstance(error, PendingRollbackError):
        return "reconnect"
    if not isinstance(error, DBAPIError):
        return "fatal"
    original: Any = error.orig
    fault = _by_code(original)
    if fault != "fatal":
        return fault
    if error.connection_invalidated:
        return "reconnect"
    return "conflict" if isinstance(error, IntegrityError) else "fatal"


def missing_table(error: Exception) -> bool:
    """Whether the database says that a table of ours is not there."""
    original: Any = getattr(error, "orig", None)
    number = original.args[0] if getattr(original, "args", None) else None
    return (
        getattr(original, "sqlstate", None) == "42P01"
        or number == 1146
        or "no such table" in str(original)
    )


def _by_code(original: Any) -> Fault:
    name = getattr(original, "sqlite_errorname", None)
    if isinstance(name, str):
        return _pick(again=name.startswith(_RETRY_NAMES), away=name.startswith(_RECONNECT_NAMES))
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if isinstance(state, str):
        away = state in _RECONNECT_STATES or state.startswith("08")
        return _pick(again=state in _RETRY_STATES, away=away)
    number = original.args[0] if getattr(original, "args", None) else None
    if isinstance(number, int):
        return _pick(again=number in _RETRY_NUMBERS, away=number in _RECONNECT_NUMBERS)
    # psycopg has no code for a connection that could not be made or broke underneath.
    kind = type(original).__name__
    return _pick(again=False, away=kind in {"OperationalError", "InterfaceError"})


def _pick(*, again: bool, away: bool) -> Fault:
    return "retry" if again else "reconnect" if away else "fatal"
