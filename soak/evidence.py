"""What is left of a soak: the history of calls, the handlers' ledger, and the rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

Row = dict[str, Any]
TABLES = ("jobs", "attempts", "events", "logs", "files")


@dataclass
class Evidence:
    """Everything that the judge looks at; a test makes one by hand."""

    history: list[Row] = field(default_factory=list)
    ledger: list[Row] = field(default_factory=list)
    jobs: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    logs: list[Row] = field(default_factory=list)
    files: list[Row] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """What processes printed, by the name of its file."""
    bystanders_gone: list[int] = field(default_factory=list)
    crowds: list[str] = field(default_factory=list)
    """Supervisors that were seen with too many children."""
    slots: int = 2

    @property
    def by_uuid(self) -> dict[str, Row]:
        """The jobs, by their uuid."""
        return {row["job_uuid"]: row for row in self.jobs}

    @property
    def uuids(self) -> dict[int, str]:
        """A job's uuid by its number."""
        return {row["id"]: row["job_uuid"] for row in self.jobs}

    def answers(self, *calls: str) -> list[Row]:
        """The calls of these kinds that were answered."""
        return [one for one in self.history if one["call"] in calls and "answer" in one]

    def noted(self, *what: str) -> list[Row]:
        """The lines of the ledger of these kinds."""
        return [one for one in self.ledger if one["what"] in what]


def per_job(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows by their job, in the order of their numbers."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["id"]):
        if row["job_id"] is not None:
            found[row["job_id"]].append(row)
    return found


def read_lines(path: Path) -> list[Row]:
    """The lines of a file; what a killed process left unfinished is none."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def gather(folder: Path, url: str, **more: Any) -> Evidence:
    """Read everything, once nothing writes any more."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        tables: dict[str, Any] = {
            name: [
                dict(row)
                for row in connection.execute(
                    sa.text(f"SELECT * FROM jobrun_{name} ORDER BY id")
                ).mappings()
            ]
            for name in TABLES
        }
    engine.dispose()
    return Evidence(
        history=read_lines(folder / "history.jsonl"),
        ledger=read_lines(folder / "ledger.jsonl"),
        texts={path.name: path.read_text(errors="replace") for path in folder.glob("*.log")},
        **tables,
        **more,
    )
