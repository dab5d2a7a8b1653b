"""What an owner's death means for its job: one function, first match wins."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

from flask_jobrunner.model.records import OwnedJob, Verdict
from flask_jobrunner.model.statuses import POISON_DEATHS, ExitCode, Reason
from flask_jobrunner.model.words import REASON_WORDS, autopsy

_CANCEL_STOPS = frozenset({"cancel", "force"})
_ASKED = frozenset({Reason.RUN_TIMEOUT, Reason.STALLED, Reason.SHUTDOWN})


def verdict(seen: OwnedJob, evidence: dict[str, Any]) -> Verdict:
    """The verdict on the dead owner of `seen`.

    `evidence` is the parent's report, or what the finder knows. The start marker divides: without
    it the handler cannot have run, and never will, since its own write would be refused.
    """
    killed = evidence.get("killed")
    if seen.job.status == "cancel_requested" or seen.job.stop_reason in _CANCEL_STOPS:
        forced = killed or seen.job.stop_reason == "force"
        reason = Reason.CANCEL_FORCED if forced else None
        return _verdict("cancelled", reason, evidence)
    if _over_budget(seen, killed):
        return _verdict("failed", Reason.RUN_TIMEOUT, evidence)
    if "stall" in (seen.job.stop_reason, killed):
        return _verdict("failed", Reason.STALLED, evidence)
    if not seen.started:
        if seen.claim_mode == "trusted":
            return _waits_again(seen, evidence)
        return _verdict("interrupted", Reason.NOT_STARTED, evidence)
    if "shutdown" in (seen.job.stop_reason, killed):
        return _verdict("interrupted", Reason.SHUTDOWN, evidence)
    seen_end = evidence.get("exit_code") is not None or evidence.get("signal") is not None
    reason = Reason.PROCESS_DIED if seen_end else Reason.OWNER_GONE
    return _verdict("interrupted", reason, evidence)


def _waits_again(seen: OwnedJob, evidence: dict[str, Any]) -> Verdict:
    """Nothing has run, so another process may; unless processes die of this job."""
    asked = seen.job.stop_reason == "shutdown"
    deaths = seen.unstarted_deaths + int(not asked and is_death(evidence))
    if deaths >= POISON_DEATHS:
        return _verdict("failed", Reason.POISON, evidence)
    return replace(_verdict("queued", Reason.NOT_STARTED, evidence), unstarted_deaths=deaths)


def is_death(evidence: dict[str, Any]) -> bool:
    """Whether a process died of itself before the handler began.

    It did not where somebody ended it, TERM included, or where it left with a code of its own.
    """
    if evidence.get("killed") or evidence.get("refused"):
        return False
    left = evidence.get("exit_code") in (ExitCode.REFUSED, ExitCode.DATABASE)
    return not left and evidence.get("signal") != signal.SIGTERM


def lost(seen: OwnedJob, unchanged_for: float) -> Verdict:
    """The verdict where nobody can look: an unchanged lease, watched for `unchanged_for` s."""
    return Verdict(
        status="lost",
        reason=Reason.OWNER_GONE,
        message=(
            f"The process on {seen.worker.host or 'another host'} has not renewed its lease for "
            f"{unchanged_for:.0f} s and cannot be seen from here."
        ),
        evidence={"watched": round(unchanged_for, 1), "lease_until": seen.lease_until},
    )


def _over_budget(seen: OwnedJob, killed: object) -> bool:
    if seen.job.stop_reason == "run_timeout" or killed == "run_timeout":
        return True
    deadline, renewed = seen.run_deadline, seen.heartbeat
    return deadline is not None and renewed is not None and renewed > deadline


def _verdict(status: Any, reason: Reason | None, evidence: dict[str, Any]) -> Verdict:
    text = autopsy(evidence, asked=reason in _ASKED or status == "cancelled")
    message = f"{text[:1].upper()}{text[1:]}."
    if reason is not None:
        message = f"{REASON_WORDS[reason]} {message}"
    return Verdict(status=status, reason=reason, message=message, evidence=evidence)
