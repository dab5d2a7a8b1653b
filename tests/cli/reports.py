"""Reports of a parent on how a child ended."""

from __future__ import annotations

from flask_jobrunner.protocol.report import EndReport, dump_report


def report_on(uuid: str, attempt: int = 1, **values: object) -> bytes:
    fields: dict[str, object] = {
        "uuid": uuid, "attempt": attempt, "token": None, "nonce": None, "booted": False,
        "claimed": False, "started": False, "refused": None, "exit_code": 7, "signal": None,
        "killed": None, "peak_rss": None, "cpu": None, "wall": 1.5, "oom": None, "stdout": "",
        "stderr": "", "stdout_dropped": 0, "stderr_dropped": 0, "fault": "", "spawn_error": None,
        "escaped": 0,
    }  # fmt: skip
    return dump_report(EndReport(**(fields | values)))  # type: ignore[arg-type]
