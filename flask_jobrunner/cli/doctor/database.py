"""The database: reached, with our tables, and one whose answers can be relied on."""

from __future__ import annotations

from collections.abc import Iterator

from flask_jobrunner.cli.output import count
from flask_jobrunner.model.errors import ConfigError, DatabaseAway, LockBusy, SchemaError
from flask_jobrunner.model.words import duration
from flask_jobrunner.repositories.health import HealthRepository, SQLiteFacts
from flask_jobrunner.repositories.place import network_filesystem
from flask_jobrunner.runtime import Runtime

from .findings import Finding, fine, problem, warning

CLOCK_TOLERANCE = 1.0
OVERDUE = 60.0
WAL_RESET_FIXED = (3, 51, 3)


def examine(runtime: Runtime) -> Iterator[Finding]:
    """Everything about the database; what depends on a broken part is left out."""
    try:
        health = HealthRepository(runtime.database)
        if runtime.database.in_memory and not runtime.is_tested:
            yield problem(
                "Database",
                "It is in memory, where no other process can see a job.",
                "Use a database file, such as sqlite:////srv/shop/app.db.",
                configuration=True,
            )
            return
        sqlite = health.sqlite()
        health.clock_difference()
    except ConfigError as error:
        yield problem("Database", str(error), configuration=True)
        return
    except (DatabaseAway, LockBusy) as error:
        yield problem("Database", str(error), "Check the address, the server and the network.")
        return
    yield fine("Database", health.address())
    if sqlite is not None:
        yield from _sqlite(sqlite)
    yield from _tables(runtime, health)


def _sqlite(facts: SQLiteFacts) -> Iterator[Finding]:
    network = network_filesystem(facts.path)
    if network is not None:
        yield problem(
            "SQLite",
            f"The file is on a network file system ({network}), whose locks SQLite cannot rely on.",
            "Move it to a local disk, or use a database server.",
        )
    if facts.journal_mode != "wal":
        yield warning(
            "SQLite",
            f"WAL mode is refused here; the journal mode is {facts.journal_mode}. Readers wait "
            "for writers.",
            "Move the file to a local disk, in a folder that may be written to.",
        )
    if facts.version < WAL_RESET_FIXED:
        yield warning(
            "SQLite",
            f"Version {_dotted(facts.version)} has a rare fault of WAL mode, mended in "
            f"{_dotted(WAL_RESET_FIXED)}, by which a file can be damaged.",
            "Update the SQLite library when you can, and keep backups.",
        )


def _tables(runtime: Runtime, health: HealthRepository) -> Iterator[Finding]:
    try:
        version = runtime.meta.ensure().schema_version
    except SchemaError as error:
        yield problem("Tables", str(error))
        return
    differences = runtime.meta.differences()
    if differences:
        yield problem(
            "Tables",
            "They are not what this version needs: " + "; ".join(differences) + ".",
            "Run `flask db migrate` and `flask db upgrade`; UPGRADING has what these do not see.",
        )
    else:
        yield fine("Tables", f"All there, version {version}.")
    if not health.unchanged_rows_count():
        yield problem(
            "Row counts",
            "An UPDATE that matches a row without changing it counts as nothing, so that no move "
            "of a job can be trusted.",
            "Remove client_flag from the engine's connect_args, or add FOUND_ROWS to it.",
        )
    yield _clock(health.clock_difference())
    overdue = health.overdue(OVERDUE)
    if overdue:
        yield warning(
            "Sweeping",
            f"{count(overdue, 'active job')} overdue, and nobody looks.",
            "Call `flask jobs sweep` from a timer, every minute or so.",
        )


def _clock(ahead: float) -> Finding:
    if abs(ahead) <= CLOCK_TOLERANCE:
        return fine("Clock", "The database's and this machine's agree.")
    way = "ahead of" if ahead > 0 else "behind"
    return warning(
        "Clock",
        f"The database's is {duration(abs(ahead))} {way} this machine's.",
        "Let NTP set both. Deadlines use the database's, log lines this machine's.",
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
