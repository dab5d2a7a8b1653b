"""What a database error means for the unit that met it: try again, reconnect, or give up.

By SQLSTATE, error number or SQLite's own name, never by exception class: one class stands for a
full disk and for a lost connection. Numbers: PostgreSQL appendix A, MySQL and MariaDB error
references, sqlite.org/rescode.html.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy.exc import DBAPIError, IntegrityError, PendingRollbackError

Fault = Literal["retry", "reconnect", "full", "conflict", "fatal"]

# Deadlock, serialisation, lock timeout, and a statement that took too long: 57014, 1969, 3024.
_RETRY_STATES = frozenset({"40001", "40P01", "55P03", "57014"})
_RETRY_NUMBERS = frozenset({1213, 1205, 1020, 1969, 3024})
# Shut down, session ended for idling, too many connections, or a server that has become a replica.
_RECONNECT_STATES = frozenset(
    {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300", "25006"}
)
_RECONNECT_NUMBERS = frozenset(
    {2002, 2003, 2006, 2013, 2055, 1040, 1053, 1203, 1290, 1836, 1927, 4031}
)
_RETRY_NAMES = ("SQLITE_BUSY", "SQLITE_LOCKED")
# A disk without room, or a file that became read-only: mended by people, while nothing is wrong
# with what was to be written, which must not be given up for it.
_FULL_NAMES = ("SQLITE_FULL", "SQLITE_READONLY")
_FULL_STATES = frozenset({"53100"})
_FULL_NUMBERS = frozenset({1021, 1114})
# A handler that closes every descriptor leaves SQLite with one that answers with these.
_RECONNECT_NAMES = ("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL")


def classify(error: Exception) -> Fault:
    """`retry` the unit, `reconnect` and read back, `full`, a unique `conflict`, or `fatal`."""
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


def untranslatable(error: BaseException) -> bool:
    """Whether the database's own encoding has no such character, as LATIN1 has no emoji."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return isinstance(error, UnicodeEncodeError) or state == "22P05"


def _by_code(original: Any) -> Fault:
    name = getattr(original, "sqlite_errorname", None)
    if isinstance(name, str):
        return _pick(
            again=name.startswith(_RETRY_NAMES),
            away=name.startswith(_RECONNECT_NAMES),
            full=name.startswith(_FULL_NAMES),
        )
    # Before the SQLSTATE, which some versions of PyMySQL have as well: there it is a coarse one.
    number = original.args[0] if getattr(original, "args", None) else None
    if isinstance(number, int):
        return _pick(
            again=number in _RETRY_NUMBERS,
            away=number in _RECONNECT_NUMBERS,
            full=number in _FULL_NUMBERS,
        )
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if isinstance(state, str):
        away = state in _RECONNECT_STATES or state.startswith("08")
        return _pick(again=state in _RETRY_STATES, away=away, full=state in _FULL_STATES)
    return _pick(again=False, away=_is_lost_connection(original))


def _is_lost_connection(original: Any) -> bool:
    # psycopg has no code for a connection that could not be made or broke underneath. Elsewhere
    # the class says nothing: sqlite3 has the same one for text that it cannot decode.
    if not type(original).__module__.startswith("psycopg"):
        return False
    kinds = {kind.__name__ for kind in type(original).__mro__}
    return bool(kinds & {"OperationalError", "InterfaceError"})


def _pick(*, again: bool, away: bool, full: bool = False) -> Fault:
    return "retry" if again else "reconnect" if away else "full" if full else "fatal"
