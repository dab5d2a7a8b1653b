"""One file of a job, as an attachment: no browser opens it in the application's name."""

from __future__ import annotations

import logging
from typing import NoReturn
from uuid import UUID

from flask import Response, request, send_file
from werkzeug.exceptions import Gone

from flask_jobrunner.files.shelf import Shelf, is_file
from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.files import FileKind, StoredFile, name_fault
from flask_jobrunner.model.records import Job

from . import query
from .access import NoSuchFile, Viewer, viewer

log = logging.getLogger("flask_jobrunner")
POLICY = "sandbox; default-src 'none'"


def artifact(uuid: UUID, name: str) -> Response:
    """An output of the newest attempt that made it, or of `attempt`; with `kind=input` an input."""
    who = viewer()
    owned = who.find(str(uuid))
    who.demand("download", owned)
    kind: FileKind = "input" if query.word("kind", ("input", "output")) == "input" else "output"
    attempt = query.number("attempt", low=1, high=query.ATTEMPT_MAX)

    def find() -> StoredFile | None:
        return who.runtime.files.find(owned.job.id, kind, name, attempt)

    stored = find() if name_fault(name) is None else None
    if stored is None:
        raise NoSuchFile(description="This job has no such file.")
    try:
        return _sent(who, owned.job, stored)
    except (OSError, ConfigError):
        # Between the two looks it may have been replaced, or its time may have been over.
        again = find()
        if again is None or again.path == stored.path:
            _missing(owned.job, stored)
    try:
        return _sent(who, owned.job, again)
    except (OSError, ConfigError):
        _missing(owned.job, again)


def _sent(who: Viewer, job: Job, stored: StoredFile) -> Response:
    file = stored.file
    if file.expired_at is not None:
        raise Gone(description="This file was removed, because its time was over.")
    path = Shelf(who.runtime.files_dir()).find(job.uuid, stored.path)
    if path is None or not is_file(path) or path.stat().st_size != file.size:
        raise FileNotFoundError
    response = send_file(
        path,
        mimetype=file.content_type,
        as_attachment=True,
        download_name=file.name,
        etag=file.sha256,
        max_age=0,
    )
    if request.method == "GET":
        who.runtime.files.note_download(job.id, stored, who.actor())
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Cache-Control"] = "no-store"
    return response


def _missing(job: Job, stored: StoredFile) -> NoReturn:
    log.error(
        "The bytes of %r of job %s are not in JOBRUNNER_FILES_DIR as they were stored.",
        stored.file.name,
        job.uuid,
    )
    raise NoSuchFile(description="This file is not where it was stored; the log says more.")
