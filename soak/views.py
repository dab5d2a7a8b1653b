"""Views of the evidence that several checks share.

`LOOSE` microseconds are allowed where two clocks are compared: the database's, and that of the
process that wrote the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from soak.evidence import Evidence, Row, per_job

LOOSE = 1_000_000
Found = Iterator[tuple[str, str]]
"""The job's uuid, and what is wrong with it."""


def starts_of(seen: Evidence) -> Counter[tuple[str, int]]:
    """How often each attempt of each job has started."""
    return Counter((note["uuid"], note["attempt"]) for note in seen.noted("start"))


def attempts_of(seen: Evidence) -> dict[tuple[str, int], Row]:
    """The claimed attempts, by job and number."""
    uuids = seen.uuids
    return {(uuids.get(row["job_id"], "?"), row["attempt"]): row for row in seen.attempts}


def events_of(seen: Evidence) -> Iterator[tuple[str, list[Row]]]:
    """The events of each job, in order."""
    uuids = seen.uuids
    for job, events in per_job(seen.events).items():
        if job in uuids:
            yield uuids[job], events


def moves_of(seen: Evidence) -> Iterator[tuple[str, list[Row]]]:
    """The events that changed a status."""
    for uuid, events in events_of(seen):
        yield uuid, [event for event in events if event["to_status"] != event["from_status"]]
