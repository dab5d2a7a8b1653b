"""`python -I -S …/shim SETTINGS_JSON -- COMMAND…`: reads its arguments and wires the parts.

Standard input: the envelope, later one byte as the receipt. Standard output: the child's
messages as they were, then the report. SETTINGS holds nothing secret.
"""

from __future__ import annotations

import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from flask_jobrunner.shim import backflow, channels, deliver, evidence, watch
else:
    import backflow
    import channels
    import deliver
    import evidence
    import watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USAGE = 2
NOT_DELIVERED = 1


class Settings:
    """The job, and where its report may be kept."""

    def __init__(self, text: str) -> None:
        values = json.loads(text)
        self.uuid = str(values["uuid"])
        self.attempt = int(values["attempt"])
        self.claim_window = float(values["claim_window"])
        self.spool = str(values["spool"])


def main(argv: Sequence[str], environ: Mapping[str, str], *, down: int = 0, up: int = 1) -> int:
    """Run one child from its start to the record of its end; the exit code is nobody's proof."""
    try:
        settings, command = Settings(argv[0]), list(argv[2:])
        good = argv[1] == "--" and bool(command)
    except (IndexError, KeyError, TypeError, ValueError):
        return USAGE
    if not good:
        return USAGE
    upstream = deliver.Upstream(down, up)
    envelope = upstream.first_line(settings.claim_window)
    if envelope is None:
        return USAGE
    line = run_child(settings, command, environ, envelope, upstream)
    return 0 if _deliver(line, settings, command, environ, upstream) else NOT_DELIVERED


def run_child(
    settings: Settings,
    command: list[str],
    environ: Mapping[str, str],
    envelope: bytes,
    upstream: deliver.Upstream,
) -> bytes:
    """The report on a child that has ended, and whose process group has."""
    try:
        ends = channels.Pipes()
        pid = channels.start_child([*command, "jobs", "run", settings.uuid], environ, ends)
    except (OSError, ValueError) as error:
        text = f"{command[0]}: {error}"[:1000]
        return evidence.report_line(
            uuid=settings.uuid, attempt=settings.attempt, said={}, spawn_error=text
        )
    facts = evidence.Evidence(pid)
    flow = backflow.Backflow(
        control=(ends.control_r, ends.control_w),
        out=ends.out,
        err=ends.err,
        unread=channels.unread,
        capacity=channels.capacity,
    )
    flow.send(envelope)
    child = watch.Watch(
        pid=pid,
        ack=ends.ack_r,
        uuid=settings.uuid,
        attempt=settings.attempt,
        claim_window=settings.claim_window,
        backflow=flow,
        evidence=facts,
        relay=upstream.relay,
    )
    while not child.ended:
        ready = deliver.poll(child.interest() | upstream.interest(), child.patience())
        upstream.step(ready)
        child.step(ready)
    try:
        return evidence.last_words(
            uuid=settings.uuid,
            attempt=settings.attempt,
            watch=child,
            flow=flow,
            facts=facts,
            fault=ends.fault,
        )
    finally:
        ends.close()


def _deliver(
    line: bytes,
    settings: Settings,
    command: list[str],
    environ: Mapping[str, str],
    upstream: deliver.Upstream,
) -> bool:
    argv = [*command, "jobs", "settle", settings.uuid]

    def settle() -> bool:
        report = channels.anonymous_file()
        try:
            os.write(report, line)
            return deliver.settle(argv, environ, report)
        finally:
            os.close(report)

    return deliver.deliver(
        line,
        upstream=upstream,
        settle=settle,
        spool=lambda: deliver.spool(settings.spool, f"{settings.uuid}.{settings.attempt}", line),
    )


def take_signals() -> None:
    """Outlive what is sent to the server or the terminal; know how children end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    take_signals()
    sys.exit(main(sys.argv[1:], os.environ))
