"""What a job was given and what it left behind: the rows, which outlive the bytes."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Select, select, update

from flask_jobrunner.model.files import FileKind, NewFile, StoredFile
from flask_jobrunner.model.records import Fence

from .database import MISSING
from .fenced import FencedRows
from .new_files import add_file, file_values, to_stored
from .rows import add_event

REASON_CHARS = 120


class FileRepository(FencedRows):
    """Files of one job. Inputs belong to its first attempt, and every attempt reads them."""

    def of(self, job_id: int, kind: FileKind | None = None) -> list[StoredFile]:
        """All files of a job: inputs first, then by attempt and name."""
        files = self._database.tables.files
        statement = self._of(job_id, kind)
        order = (files.c.kind, files.c.attempt, files.c.name)
        return [to_stored(row) for row in self._database.rows(statement.order_by(*order))]

    def find(
        self, job_id: int, kind: FileKind, name: str, attempt: int | None = None
    ) -> StoredFile | None:
        """The file of that name; without `attempt`, of the newest attempt that left one."""
        files = self._database.tables.files
        statement = self._of(job_id, kind).where(files.c.name == name)
        if attempt is not None:
            statement = statement.where(files.c.attempt == attempt)
        rows = self._database.rows(statement.order_by(files.c.attempt.desc()).limit(1))
        return to_stored(rows[0]) if rows else None

    def publish(self, fence: Fence, new: NewFile) -> tuple[bool, str | None]:
        """Add an output, or put it in the place of one that this attempt left before.

        Whether that was done, and where bytes are that no row names any more. Not done: the job
        belongs to somebody else by now.
        """
        files = self._database.tables.files

        def unit(connection: Connection) -> tuple[bool, str | None]:
            # The row's version moves: pages that show the job are drawn again.
            if not self._write(connection, fence, {}):
                return False, None
            where = [
                files.c.job_id == fence.job_id,
                files.c.attempt == fence.attempt,
                files.c.kind == new.kind,
                files.c.name == new.name,
            ]
            before = connection.execute(select(files.c.path).where(*where)).first()
            if before is None:
                add_file(connection, self._database, fence.job_id, fence.attempt, new)
                return True, None
            values = file_values(self._database, new)
            connection.execute(update(files).where(*where).values(**values))
            return True, before[0]

        def read_back(connection: Connection) -> object:
            mine = select(files.c.id).where(
                files.c.job_id == fence.job_id, files.c.path == new.path
            )
            return (True, None) if connection.execute(mine).first() else MISSING

        return self._database.run(unit, read_back=read_back)

    def note_download(self, job_id: int, stored: StoredFile, actor: str | None) -> None:
        """Keep in the job's history that this actor has had this file; once for each."""
        file, events = stored.file, self._database.tables.events
        evidence = {"kind": file.kind, "name": file.name, "attempt": file.attempt}
        known = select(events.c.id).where(
            events.c.job_id == job_id,
            events.c.action == "download",
            events.c.actor.is_(None) if actor is None else events.c.actor == actor,
            events.c.evidence_json == json.dumps(evidence),
        )
        if self._database.rows(known.limit(1)):
            return

        def unit(connection: Connection) -> None:
            add_event(
                connection,
                self._database,
                job_id=job_id,
                action="download",
                attempt=file.attempt,
                actor=actor,
                reason=file.name[:REASON_CHARS],
                evidence=evidence,
            )

        self._database.run(unit)

    def _of(self, job_id: int, kind: FileKind | None) -> Select[Any]:
        files = self._database.tables.files
        statement = select(files).where(files.c.job_id == job_id)
        return statement if kind is None else statement.where(files.c.kind == kind)
