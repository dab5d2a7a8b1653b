"""The first lines of a job's process: clean, envelope, application, claim.

Each step may refuse; then the parent is told one word, and the reason is on the error output,
where the parent keeps it as last words.
"""

from __future__ import annotations

import os
import select
import traceback
from collections.abc import Callable
from functools import partial

from flask import Flask

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.statuses import ClaimMode, ExitCode
from flask_jobrunner.protocol.envelope import (
    ENVELOPE_MAX_BYTES,
    Envelope,
    EnvelopeError,
    load_envelope,
)
from flask_jobrunner.runtime import EXTENSION, Runtime, building

from .claim import Refused, take
from .clean import Standing, make_clean
from .descriptors import PrivateFd
from .leave import last_word, leave
from .parent import Parent
from .process import run_claimed
from .steady import Clock, Owner

ENVELOPE_SECONDS = 10.0
USAGE = (
    "This is how a job's own process begins: it is given the right to one job on its "
    "standard input. To run a job, use `flask jobs start TYPE`; to run an ended one again, "
    "`flask jobs requeue JOB`; to run what waits in the queue, `flask jobs work`."
)


def main(load_app: Callable[[], Flask], job_ref: str, claim_mode: ClaimMode = "token") -> int:
    """Run the job whose envelope is on standard input, and end this process.

    `claim_mode` is that of the command: the two kinds of jobs are closed to each other. Returns
    only on a terminal, where it says what to use instead.
    """
    return enter(partial(_boot, load_app, (job_ref, claim_mode)))


def enter(begin: Callable[[Standing, Parent, Owner], int]) -> int:
    """Make this process clean, let it `begin`, and end it. Returns only on a terminal."""
    standing = make_clean()
    owner = Owner()
    parent = Parent(standing.ack, owner)
    if os.isatty(standing.control.number):
        last_word(USAGE)
        return ExitCode.USAGE
    try:
        code = begin(standing, parent, owner)
    except Refused as refusal:
        if refusal.code is not None:
            parent.tell("refused", code=refusal.code)
        last_word(refusal)
        code = refusal.exit_code
    except BaseException:  # noqa: BLE001 - whatever it is, it must not hang in a shutdown
        traceback.print_exc()
        code = ExitCode.FAILED
    return leave(code)


def _boot(
    load_app: Callable[[], Flask],
    wanted: tuple[str, ClaimMode],
    standing: Standing,
    parent: Parent,
    owner: Owner,
) -> int:
    envelope, rest = _envelope(standing.control, *wanted)
    runtime = build(load_app)
    return run_booted(runtime, envelope, rest, standing, parent, owner)


def run_booted(
    runtime: Runtime,
    envelope: Envelope,
    rest: bytes,
    standing: Standing,
    parent: Parent,
    owner: Owner,
) -> int:
    """Claim the job of the envelope and run it, in an application that is built; the exit code."""
    parent.tell("booted")
    taken = take(runtime, envelope)
    return run_claimed(runtime, taken, standing, rest, parent, owner)


def _envelope(control: PrivateFd, job_ref: str, claim_mode: ClaimMode) -> tuple[Envelope, bytes]:
    """The envelope, and what was read beyond it. Checked before anything is built."""
    line, rest = read_line(control, ENVELOPE_SECONDS)
    if not line:
        raise Refused(USAGE, "bad_envelope", ExitCode.USAGE)
    envelope = open_envelope(line, claim_mode)
    if job_ref not in {envelope.job_uuid, str(envelope.job_id)}:
        raise Refused("The envelope is for another job.", "bad_envelope", ExitCode.USAGE)
    return envelope, rest


def open_envelope(line: bytes, claim_mode: ClaimMode) -> Envelope:
    """The envelope in `line`. Raises `Refused` for anything else, or one of another kind."""
    try:
        envelope = load_envelope(line)
    except EnvelopeError as error:
        text = f"The envelope on standard input was refused: {error}."
        raise Refused(text, "bad_envelope", ExitCode.USAGE) from None
    if envelope.claim_mode != claim_mode:
        text = "The credential is for another kind of job than this command runs."
        raise Refused(text, "bad_credential", ExitCode.REFUSED)
    return envelope


def read_line(control: PrivateFd, seconds: float | None) -> tuple[bytes, bytes]:
    """One line of at most the envelope's size, and the bytes after it; b"" when none came.

    `seconds` None: however long it takes.
    """
    clock, data = Clock(), b""
    give_up = None if seconds is None else clock.monotonic() + seconds
    poll = select.poll()
    poll.register(control.number, select.POLLIN)
    while b"\n" not in data and len(data) <= ENVELOPE_MAX_BYTES:
        left = None if give_up is None else max(0.0, give_up - clock.monotonic()) * 1000
        if not poll.poll(left):
            break
        piece = control.read(ENVELOPE_MAX_BYTES + 1 - len(data))
        if not piece:
            break
        data += piece
    line, end, rest = data.partition(b"\n")
    return line + end, rest


def build(load_app: Callable[[], Flask]) -> Runtime:
    """The application's runtime. Raises `Refused`, with the traceback on the error output."""
    try:
        with building():
            app = load_app()
    except BaseException as error:  # noqa: BLE001 - a factory may also call sys.exit
        traceback.print_exc()
        mistake = isinstance(error, ConfigError)
        raise Refused(
            f"The application could not be built: {type(error).__name__}.",
            "app_not_built",
            ExitCode.CONFIGURATION if mistake else ExitCode.FAILED,
        ) from None
    runtime = app.extensions.get(EXTENSION)
    if not isinstance(runtime, Runtime):
        raise Refused(
            "JobRunner is not set up on the application that this process built.",
            "app_not_built",
            ExitCode.CONFIGURATION,
        )
    return runtime
