"""A child started by hand, with pipes as its parent makes them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Flask

from flask_jobrunner.model.records import NewJob
from flask_jobrunner.protocol.envelope import (
    Envelope,
    dump_envelope,
    hash_credential,
    new_credential,
)
from flask_jobrunner.protocol.identity import uuid7
from flask_jobrunner.protocol.messages import parse_message
from flask_jobrunner.runtime import Runtime
from tests.helpers.hosts import HostEnvironment


@dataclass
class Child:
    """The running process and this side of its pipes."""

    process: subprocess.Popen[bytes]
    control: int
    ack: int

    def send(self, data: bytes) -> None:
        """Write to its standard input and close it."""
        try:
            os.write(self.control, data)
        except BrokenPipeError:
            pass
        finally:
            os.close(self.control)

    def messages(self) -> list[dict[str, Any]]:
        """Everything it told, once it has ended."""
        data = b""
        while piece := os.read(self.ack, 65536):
            data += piece
        os.close(self.ack)
        told = [parse_message(line) for line in data.splitlines(keepends=True)]
        assert None not in told, data
        return [message for message in told if message is not None]

    def end(self, timeout: float = 60) -> tuple[int, str, str]:
        """Exit code, output and error output that it did not store itself."""
        # Reading while it runs would take from the child what it is to store.
        try:
            self.process.wait(timeout)
        finally:
            if self.process.returncode is None:
                self.process.kill()
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out.decode("utf-8", "replace"), err.decode()


def start_child(
    environment: HostEnvironment,
    uuid: str,
    *,
    wrapper: Sequence[str] = (),
    with_pipes: bool = True,
    changes: Mapping[str, str] | None = None,
) -> Child:
    """Start `… jobs run UUID`; `wrapper` goes before its command."""
    control_r, control_w = os.pipe()
    ack_r, ack_w = os.pipe()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    fault = os.memfd_create("fault")
    shared = (ack_w, out_r, err_r, fault)
    environ = dict(environment.environ) | dict(changes or {})
    if with_pipes:
        environ["JOBRUNNER_PIPES"] = ",".join(map(str, shared))
    process = subprocess.Popen(
        [*wrapper, *environment.command("jobs", "run", uuid)],
        stdin=control_r,
        stdout=out_w,
        stderr=err_w,
        pass_fds=shared if with_pipes else (),
        env=environ,
        start_new_session=True,
    )
    process.stdout, process.stderr = os.fdopen(out_r, "rb"), os.fdopen(err_r, "rb")
    for fd in (control_r, ack_w, out_w, err_w, fault):
        os.close(fd)
    return Child(process, control_w, ack_r)


def a_row(app: Flask, job_type: str, payload: Any = None, **values: Any) -> tuple[Envelope, int]:
    """A queued job and the envelope that opens it."""
    runtime: Runtime = app.extensions["jobrunner"]
    credential = new_credential()
    row: dict[str, Any] = {
        "uuid": uuid7(),
        "job_type": job_type,
        "credential_hash": hash_credential(credential),
        "claim_window": 60.0,
        "payload_json": None if payload is None else json.dumps(payload),
    }
    job = runtime.jobs.add(NewJob(**(row | values)))
    assert job is not None
    return envelope_of(app, job.id, job.uuid, credential, values.get("revision")), job.id


def envelope_of(
    app: Flask, job_id: int, uuid: str, credential: str, revision: str | None = None
) -> Envelope:
    """The envelope as a launcher makes it."""
    runtime: Runtime = app.extensions["jobrunner"]
    return Envelope(
        job_id=job_id,
        job_uuid=uuid,
        attempt=1,
        claim_mode="token",
        credential=credential,
        revision=revision,
        config_digest=runtime.config.digest,
        fingerprint=runtime.meta.ensure().fingerprint,
        claim_window=5.0,
        lease=runtime.config.lease,
    )


def line_of(envelope: Envelope) -> bytes:
    """The envelope as it is sent."""
    return dump_envelope(envelope)
