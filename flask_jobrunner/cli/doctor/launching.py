"""The command of a job's process: run for real, and asked what it sees."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.words import duration
from flask_jobrunner.protocol.command import child_environment, verified_python
from flask_jobrunner.protocol.redact import mask_text
from flask_jobrunner.runtime import Runtime

from . import probe
from .findings import Finding, fine, problem, warning
from .probe import Probe

PROBE_SECONDS = 60.0
LAST_WORDS = 1500


def examine(runtime: Runtime) -> Iterator[Finding]:
    """Whether the command runs, builds this application, and means the same database."""
    if sys.platform == "win32":
        yield problem("Command", "Jobs are started on Linux and macOS only.", configuration=True)
        return
    try:
        verified_python()
        command = runtime.command()
    except ConfigError as error:
        yield problem("Command", str(error), configuration=True)
        return
    started = time.monotonic()
    outcome = _run([*command, "jobs", "doctor", "--probe"])
    took = time.monotonic() - started
    text = mask_text(shlex.join(command))
    if isinstance(outcome, str):
        yield problem(
            "Command",
            f"{text} does not run a job's process. {outcome}",
            "Set JOBRUNNER_COMMAND or JOBRUNNER_APP so that this works in the web server's folder "
            "and environment.",
        )
        return
    yield fine("Command", f"{text} builds the application in {duration(took)}.")
    if took > runtime.config.claim_window / 3:
        yield warning(
            "Command",
            f"That is a good part of JOBRUNNER_CLAIM_WINDOW ({runtime.config.claim_window:g} s).",
            "Raise it, or build less: process_role() is 'job' in a job's process.",
        )
    yield from _compare(runtime, outcome)


def _run(argv: list[str]) -> Probe | str:
    """What the process saw, or why it saw nothing."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=child_environment(os.environ),
            timeout=PROBE_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"It did not end within {duration(PROBE_SECONDS)}."
    except OSError as error:
        return f"It cannot be started: {error.strerror}."
    seen = probe.parse(done.stdout.decode("utf-8", "replace"))
    if seen is not None and done.returncode == 0:
        return seen
    words = done.stderr.decode("utf-8", "replace").strip()[-LAST_WORDS:]
    end = f"It exited {done.returncode}"
    return f"{end}: {mask_text(words)}" if words else f"{end} without an answer."


def _compare(runtime: Runtime, seen: Probe) -> Iterator[Finding]:
    here = probe.view(runtime)
    if here.fingerprint is not None and seen.fingerprint != here.fingerprint:
        yield problem(
            "Same database",
            f"A job's process uses {seen.address}, this one {here.address}.",
            "Let the factory read the address from a place that every process reads, and write an "
            "SQLite path in full.",
        )
    if seen.digest != here.digest:
        yield problem(
            "Same settings",
            "A job's process has another JOBRUNNER_TABLE_PREFIX, _BIND_KEY, _HANDLERS or "
            "_REVISION.",
            "Set them in the factory, in a file that it reads, or in the environment.",
        )
    yield from _handlers(here, seen)


def _handlers(here: Probe, seen: Probe) -> Iterator[Finding]:
    missing = sorted(set(here.job_types) - set(seen.job_types))
    if missing:
        yield problem(
            "Handlers",
            f"Not registered in a job's process: {', '.join(missing)}.",
            "Import the modules that register them in the factory.",
        )
    for reason in seen.unusable.values():
        yield problem("Handlers", reason)
    if not seen.job_types:
        yield warning(
            "Handlers",
            "None is registered.",
            'Decorate a function with @jobs.handler("reports.build"), in a module that the '
            "factory imports.",
        )
    elif not missing and not seen.unusable:
        count = len(seen.job_types)
        yield fine("Handlers", f"{count} registered: {', '.join(seen.job_types[:8])}"
                   + (", …" if count > 8 else "."))  # fmt: skip
