"""Files of a job: what it was given, and what it left behind."""

from __future__ import annotations

import mimetypes
import os
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from .records import plain

FileKind = Literal["input", "output"]
NAME_MAX_BYTES = 191
UNKNOWN_TYPE = "application/octet-stream"

# The last ones turn the direction of a text: a name would end in other letters than it shows.
_BAD_NAME = re.compile(
    r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; *[\w-]{1,40}=[\w.-]{1,80})?", re.ASCII)


class Readable(Protocol):
    """Anything to read bytes from: an open file, an upload."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; none at the end."""


FileSource = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable
"""What `files=` takes for one file: a path, its bytes, or an object with `read`."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One file, as anybody may see it. After `expired_at` its bytes are gone."""

    name: str
    kind: FileKind
    size: int
    content_type: str
    sha256: str
    attempt: int
    created_at: datetime
    expires_at: datetime | None
    """From then on its bytes may be removed; None: they are kept as long as the job."""
    expired_at: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        result: dict[str, Any] = plain(self)
        return result


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file and where its bytes are. Never shown."""

    file: File
    path: str | None
    """Below JOBRUNNER_FILES_DIR; None once they are gone."""


@dataclass(frozen=True, kw_only=True)
class NewFile:
    """What a row is made from: the bytes are in their place already."""

    name: str
    kind: FileKind
    path: str
    size: int
    content_type: str
    sha256: str
    keep: float | None = None
    """Seconds; None: as long as the job."""


def name_fault(name: object) -> str | None:
    """What is wrong with the name of a file, as the rest of a sentence."""
    if not isinstance(name, str):
        return f"must be a string, not a {type(name).__name__}"
    if not name or name != name.strip() or name in (".", ".."):
        return "must be a name, without blanks around it"
    if _BAD_NAME.search(name):
        return "must have no slashes and no control characters"
    if len(name.encode()) > NAME_MAX_BYTES:
        return f"must be at most {NAME_MAX_BYTES} bytes"
    return None


def is_content_type(text: object) -> bool:
    """Whether this is a media type such as `text/csv`."""
    return isinstance(text, str) and _TYPE.fullmatch(text) is not None


def guess_type(name: str) -> str:
    """The media type that a name suggests."""
    found, packed = mimetypes.guess_type(name)
    return UNKNOWN_TYPE if found is None or packed else found
