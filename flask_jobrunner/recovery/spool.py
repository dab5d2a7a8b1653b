"""Reports that a parent could not have recorded, as files until a sweep or a reader finds them."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from flask_jobrunner.protocol.report import REPORT_MAX_BYTES, EndReport, ReportError, parse_report
from flask_jobrunner.runtime import Runtime

log = logging.getLogger("flask_jobrunner")
_NAME = re.compile(r"([0-9a-f-]{36})\.([0-9]{1,9})\.json\Z")
_BAD_NAME = re.compile(r"[0-9a-f-]{36}\.[0-9]{1,9}\.bad\Z")
BATCH = 1000


def find(runtime: Runtime, uuid: str, attempt: int) -> EndReport | None:
    """The spooled report of one attempt."""
    paths = (folder / f"{uuid}.{attempt}.json" for folder in runtime.spool_dirs())
    return next((found for path in paths if (found := read(path)) is not None), None)


def waiting(runtime: Runtime) -> Iterator[tuple[Path, EndReport]]:
    """The spooled reports of this host, a bounded number at a time."""
    for path in _files(runtime)[:BATCH]:
        report = read(path)
        if report is not None:
            yield path, report


def _files(runtime: Runtime) -> list[Path]:
    found = list[Path]()
    for folder in runtime.spool_dirs():
        with contextlib.suppress(OSError):
            found += [path for path in folder.iterdir() if _NAME.match(path.name)]
    return sorted(found)


def put_aside(runtime: Runtime) -> Iterator[Path]:
    """The files of ours that could not be read."""
    for folder in runtime.spool_dirs():
        with contextlib.suppress(OSError):
            yield from sorted(path for path in folder.iterdir() if _BAD_NAME.match(path.name))


def read(path: Path) -> EndReport | None:
    """The report in a file; None where there is none.

    What is not one of ours is put aside under another name, so that it is read once only.
    """
    try:
        with path.open("rb") as file:
            return parse_report(file.read(REPORT_MAX_BYTES + 1))
    except OSError:
        return None
    except ReportError as error:
        log.warning("The spooled report %s cannot be read (%s); it is put aside.", path, error)
        with contextlib.suppress(OSError):
            path.rename(path.with_suffix(".bad"))
        return None
