"""Reports that a parent could not have recorded, as files until a sweep or a reader finds them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

from flask_jobrunner.protocol.report import REPORT_MAX_BYTES, EndReport, ReportError, parse_report
from flask_jobrunner.runtime import Runtime

log = logging.getLogger("flask_jobrunner")
_NAME = re.compile(r"([0-9a-f-]{36})\.([0-9]{1,9})\.json\Z")
BATCH = 1000


def find(runtime: Runtime, uuid: str, attempt: int) -> EndReport | None:
    """The spooled report of one attempt."""
    return read(runtime.spool_dir() / f"{uuid}.{attempt}.json")


def waiting(runtime: Runtime) -> Iterator[tuple[Path, EndReport]]:
    """The spooled reports of this host, a bounded number at a time."""
    try:
        names = sorted(runtime.spool_dir().iterdir())[:BATCH]
    except OSError:
        return
    for path in names:
        report = read(path) if _NAME.match(path.name) else None
        if report is not None:
            yield path, report


def read(path: Path) -> EndReport | None:
    """The report in a file; None where there is none, or not one of ours (which is logged)."""
    try:
        with path.open("rb") as file:
            return parse_report(file.read(REPORT_MAX_BYTES + 1))
    except OSError:
        return None
    except ReportError as error:
        log.warning("The spooled report %s cannot be read: %s", path, error)
        return None
