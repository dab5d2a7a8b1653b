"""The files of a job as its page lists them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flask import url_for

from flask_jobrunner.model import words
from flask_jobrunner.model.files import File, FileKind
from flask_jobrunner.model.records import OwnedJob

from .access import Viewer
from .format import visible
from .mount import endpoint

KIND_WORDS = {"input": "Given", "output": "Made"}


@dataclass(frozen=True, kw_only=True)
class FileView:
    """One file; without `url` it cannot be had."""

    name: str
    about: str
    at: datetime
    url: str = ""
    removed_at: datetime | None = None
    kept_until: datetime | None = None


def file_views(viewer: Viewer, owned: OwnedJob) -> list[FileView]:
    """What the job was given, then what its attempts made, the newest attempt's first."""
    return _views(viewer, owned, None)


def made_views(viewer: Viewer, owned: OwnedJob) -> list[FileView]:
    """What its attempts made, for a page of the application's own."""
    return _views(viewer, owned, "output")


def _views(viewer: Viewer, owned: OwnedJob, kind: FileKind | None) -> list[FileView]:
    found = [stored.file for stored in viewer.runtime.files.of(owned.job.id, kind)]
    may = bool(found) and viewer.may("download", owned)
    found.sort(key=lambda file: (file.kind, -file.attempt, file.name))
    return [_view(file, owned, may_download=may, tell_kind=kind is None) for file in found]


def _view(file: File, owned: OwnedJob, *, may_download: bool, tell_kind: bool) -> FileView:
    about = [KIND_WORDS[file.kind]] if tell_kind else []
    if file.kind == "output" and owned.job.attempt > 1:
        about.append(f"attempt {file.attempt}")
    about += [words.size(file.size), file.content_type]
    there = file.expired_at is None
    return FileView(
        name=visible(file.name),
        about=", ".join(about),
        at=file.created_at,
        url=file_url(file, owned.job.uuid) if may_download and there else "",
        removed_at=file.expired_at,
        kept_until=file.expires_at if there else None,
    )


def file_url(file: File, uuid: str) -> str:
    """Where this very file is had."""
    place = endpoint("artifact")
    if file.kind == "input":
        return url_for(place, uuid=uuid, name=file.name, kind=file.kind)
    return url_for(place, uuid=uuid, name=file.name, attempt=file.attempt)
