"""What a supervisor was told when it was started."""

from __future__ import annotations

from dataclasses import dataclass

from flask_jobrunner.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Durations are seconds."""

    slots: int
    standby: int = 0
    """How many processes wait for jobs, already built."""
    types: tuple[str, ...] = ()
    """Patterns of job types; none: all."""
    burst: bool = False
    """Whether it ends when nothing is left that could be taken now."""
    drain_timeout: float
    version: str

    def words(self, runtime: Runtime) -> str:
        """What it takes, for people."""
        kinds = f"jobs of {', '.join(self.types)}" if self.types else "jobs of every type"
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        revision = runtime.config.revision
        return f"{kinds}, {slots}" + (f", revision {revision}" if revision else "")
