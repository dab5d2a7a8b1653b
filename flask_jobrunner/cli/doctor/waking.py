"""How supervisors hear of new jobs."""

from __future__ import annotations

from collections.abc import Iterator

from flask_jobrunner.model.errors import JobRunnerError
from flask_jobrunner.model.words import duration
from flask_jobrunner.repositories.waking import ListenerLost, Unheard
from flask_jobrunner.runtime import Runtime

from .findings import Finding, fine, warning

ECHO_WITHIN = 2.0
ASKED = "Supervisors ask for new jobs several times a second instead."


def examine(runtime: Runtime) -> Iterator[Finding]:
    """Listens as a supervisor does, and waits for its own echo."""
    try:
        yield _examine(runtime)
    except ListenerLost as error:
        yield warning(
            "Waking", f"Supervisors would not hear of new jobs: {error}. {ASKED}",
            "Jobs start a little later, and nothing is lost.",
        )  # fmt: skip
    except JobRunnerError:
        return  # the database has its own findings


def _examine(runtime: Runtime) -> Finding:
    try:
        listener = runtime.waking.listen_proven(ECHO_WITHIN)
    except Unheard:
        return warning(
            "Waking",
            f"LISTEN is accepted, and within {duration(ECHO_WITHIN)} nothing is heard, as behind a "
            f"pooler in transaction mode. {ASKED}",
            "Nothing is lost. For jobs that start at once, let supervisors connect past the "
            "pooler.",
        )
    if listener is None:
        return fine("Waking", "This database tells nobody of new jobs: supervisors ask for them.")
    listener.close()
    return fine("Waking", f"Supervisors hear of new jobs {listener.how}.")
