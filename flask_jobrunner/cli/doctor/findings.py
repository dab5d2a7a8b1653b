"""What the doctor finds: one line each, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line. A problem keeps jobs from working, a warning may one day."""

    check: str
    level: Level
    message: str
    advice: str | None = None
    configuration: bool = False
    """Whether it is the configuration that has to change before jobs can work at all."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready values."""
        values = asdict(self)
        del values["configuration"]
        return values


def fine(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check=check, level="ok", message=message)


def warning(check: str, message: str, advice: str) -> Finding:
    """It works, and may not always."""
    return Finding(check=check, level="warning", message=message, advice=advice)


def problem(
    check: str, message: str, advice: str | None = None, *, configuration: bool = False
) -> Finding:
    """Jobs do not work like this."""
    return Finding(
        check=check,
        level="problem",
        message=message,
        advice=advice,
        configuration=configuration,
    )
