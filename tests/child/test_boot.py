"""The first lines of a child: what it refuses before it builds anything, and what it makes clean.

Each test drives the real command with pipes of its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from flask_jobrunner.model.records import Job, LogLine
from flask_jobrunner.protocol.envelope import Envelope, new_credential
from flask_jobrunner.runtime import Runtime
from tests.child.direct import a_row, line_of, start_child
from tests.helpers.hosts import HostEnvironment

Change = Callable[[Envelope], Envelope]
UUID = "01890000-0000-7000-8000-0000000000aa"


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One database is enough for what happens before a claim."""
    return sqlite_url


@pytest.fixture
def host_config() -> dict[str, object]:
    return {"JOBRUNNER_HANDLERS": {"rough.early": "tests.child.rough:logs_early"}}


def job_of(app: Flask, envelope: Envelope) -> Job:
    runtime: Runtime = app.extensions["jobrunner"]
    job = runtime.jobs.get(envelope.job_uuid)
    assert job is not None
    return job


def lines_of(app: Flask, envelope: Envelope) -> list[LogLine]:
    runtime: Runtime = app.extensions["jobrunner"]
    return list(runtime.logs.after(envelope.job_id, 0, 1000))


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-1],
        lambda line: line[: len(line) // 2],
        lambda line: b"x" * (1 << 20),
        lambda line: b"x" * 5000 + b"\n",
        lambda line: "é\n".encode(),
        lambda line: b"\xff\xfe\n",
        lambda line: b"[]\n",
        lambda line: line.replace(b'"v":1', b'"v":2'),
        lambda line: line.replace(b'"v":1', b'"v":1,"v":1'),
        lambda line: line.replace(b'"v":1', b'"v":1,"more":1'),
        lambda line: line.replace(b'"lease":', b'"lease":NaN,"x":'),
    ],
)
def test_a_bad_envelope_is_refused_before_the_application_is_built(
    host_app: Flask, host_environment: HostEnvironment, change: Callable[[bytes], bytes]
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    changes = {"HOST_CONFIG": json.dumps({"HOST_FACTORY": "raise"})}
    child = start_child(host_environment, envelope.job_uuid, changes=changes)
    child.send(change(line_of(envelope)))
    code, _, err = child.end()
    assert code == 2
    assert child.messages() == [{"v": 1, "type": "refused", "code": "bad_envelope"}]
    assert envelope.credential not in err
    assert "on purpose" not in err
    assert job_of(host_app, envelope).status == "queued"


def test_an_envelope_for_another_job_is_refused(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    child = start_child(host_environment, UUID)
    child.send(line_of(envelope))
    assert child.end()[0] == 2
    assert [message["type"] for message in child.messages()] == ["refused"]
    assert job_of(host_app, envelope).status == "queued"


def test_without_any_input_it_says_what_to_use_instead(
    host_environment: HostEnvironment,
) -> None:
    done = subprocess.run(
        host_environment.command("jobs", "run", UUID),
        env=host_environment.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"jobs start" in done.stderr


def test_on_a_terminal_it_says_what_to_use_instead(host_environment: HostEnvironment) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", _CALL_MAIN, UUID],
        env=host_environment.environ,
        stdin=theirs,
        capture_output=True,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert b"jobs start" in done.stderr


_CALL_MAIN = textwrap.dedent("""
    import sys
    from flask_jobrunner.child.boot import main
    sys.exit(main(lambda: sys.exit(9), sys.argv[1]))
""")


@pytest.mark.parametrize(
    ("config", "code", "text"),
    [
        ({"HOST_FACTORY": "raise"}, 1, "on purpose"),
        ({"HOST_FACTORY": "exit"}, 1, "SystemExit"),
        ({"JOBRUNNER_LEASE": -1}, 78, "JOBRUNNER_LEASE"),
    ],
)
def test_an_application_that_cannot_be_built(
    host_app: Flask,
    host_environment: HostEnvironment,
    config: dict[str, object],
    code: int,
    text: str,
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    child = start_child(
        host_environment, envelope.job_uuid, changes={"HOST_CONFIG": json.dumps(config)}
    )
    child.send(line_of(envelope))
    ended, _, err = child.end()
    assert ended == code
    assert text in err
    assert child.messages() == [{"v": 1, "type": "refused", "code": "app_not_built"}]


def test_another_database_is_refused_before_the_claim(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    child = start_child(host_environment, envelope.job_uuid)
    child.send(line_of(dataclasses.replace(envelope, fingerprint="another")))
    code, _, err = child.end()
    assert code == 78
    assert "another database" in err
    assert [message.get("code") for message in child.messages()] == [None, "fingerprint_mismatch"]
    assert job_of(host_app, envelope).status == "queued"


def test_tables_of_another_version_are_refused(
    host_app: Flask, host_environment: HostEnvironment, tmp_path: Path
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    empty = {"HOST_DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite'}"}
    child = start_child(host_environment, envelope.job_uuid, changes=empty)
    child.send(line_of(envelope))
    code, _, err = child.end()
    assert code == 78
    assert "tables of flask_jobrunner are missing" in err
    assert child.messages()[-1]["code"] == "schema_mismatch"


@pytest.mark.parametrize(
    "change",
    [
        lambda envelope: dataclasses.replace(envelope, credential=new_credential()),
        lambda envelope: dataclasses.replace(envelope, attempt=2),
        lambda envelope: dataclasses.replace(envelope, claim_mode="trusted"),
    ],
)
def test_a_credential_that_opens_nothing(
    host_app: Flask, host_environment: HostEnvironment, change: Change
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    child = start_child(host_environment, envelope.job_uuid)
    child.send(line_of(change(envelope)))
    assert child.end()[0] == 5
    assert child.messages()[-1]["code"] == "bad_credential"
    assert job_of(host_app, envelope).status == "queued"


def test_a_credential_opens_its_job_once(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    first, second = (start_child(host_environment, envelope.job_uuid) for _ in range(2))
    for child in (first, second):
        child.send(line_of(envelope))
    assert sorted([first.end()[0], second.end()[0]]) == [0, 5]
    told = [[message["type"] for message in child.messages()] for child in (first, second)]
    assert sorted(told) == [["booted", "claimed", "started", "returned"], ["booted", "refused"]]
    assert job_of(host_app, envelope).status == "succeeded"


def test_another_revision_fails_the_row_and_says_which(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing", revision="abc")
    child = start_child(host_environment, envelope.job_uuid)
    child.send(line_of(envelope))
    assert child.end()[0] == 5
    assert [message["type"] for message in child.messages()] == ["booted"]
    job = job_of(host_app, envelope)
    assert (job.status, job.error_reason_code) == ("failed", "revision_mismatch")
    assert "abc" in (job.error_message or "")


def test_another_revision_does_not_touch_a_row_it_holds_no_credential_for(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing", revision="abc")
    child = start_child(host_environment, envelope.job_uuid)
    child.send(line_of(dataclasses.replace(envelope, credential=new_credential())))
    assert child.end()[0] == 5
    assert job_of(host_app, envelope).status == "queued"


def test_the_claim_is_told_with_what_the_report_will_need(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    child = start_child(host_environment, str(envelope.job_id))
    child.send(line_of(envelope))
    assert child.end()[0] == 0
    booted, claimed, started, returned = child.messages()
    assert booted["type"] == "booted"
    assert (claimed["uuid"], claimed["attempt"]) == (envelope.job_uuid, 1)
    assert len(claimed["token"]) == 64
    assert len(claimed["nonce"]) == 16
    assert started["budget"] is None
    assert returned["type"] == "returned"


def test_a_parent_that_is_gone_changes_nothing(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.nothing")
    child = start_child(host_environment, envelope.job_uuid)
    os.close(child.ack)
    child.send(line_of(envelope))
    assert child.end()[0] == 0
    assert job_of(host_app, envelope).status == "succeeded"


def test_without_the_parents_pipes_it_runs_and_captures_all_the_same(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "host.script", {"do": [["print", "heard"], ["say", "info", "x"]]})
    child = start_child(host_environment, envelope.job_uuid, with_pipes=False)
    child.send(line_of(envelope))
    code, out, _ = child.end()
    assert code == 0
    assert child.messages() == []
    assert "heard" not in out
    assert [line.message for line in lines_of(host_app, envelope)][1:3] == ["heard", "x"]


_HOSTILE = textwrap.dedent("""
    import os, signal, sys
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    os.umask(0o777)
    os.environ.update(LC_ALL="POSIX", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    os.mkdir("gone-soon")
    os.chmod("gone-soon", 0o700)
    os.chdir("gone-soon")
    os.rmdir("../gone-soon")
    os.execv(sys.argv[1], sys.argv[1:])
""")


def test_what_it_inherited_is_made_clean(
    host_app: Flask,
    host_environment: HostEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    envelope, _ = a_row(host_app, "rough.early")
    child = start_child(
        host_environment, envelope.job_uuid, wrapper=[sys.executable, "-c", _HOSTILE]
    )
    child.send(line_of(envelope))
    code, _, err = child.end()
    assert code == 0, err
    lines = lines_of(host_app, envelope)
    (seen,) = [line.context for line in lines if line.message == "seen"]
    assert seen is not None
    assert "on_term" in seen["term"]
    assert "default_int_handler" in seen["interrupt"]
    assert seen["child"] == "0"
    assert seen["mask"] == []
    assert seen["umask"] == 0o022
    assert seen["encoding"] == "utf-8"
    assert seen["stdin"] == ""
    assert seen["pipes"] is None
    assert seen["cwd"] == "/"
    assert seen["inheritable"] == [0, 1, 2]
    assert seen["argv"][-3:] == ["jobs", "run", envelope.job_uuid]
    assert "ünïcode" in [line.message for line in lines]


def test_a_stricter_umask_is_a_policy_and_stays(
    host_app: Flask, host_environment: HostEnvironment
) -> None:
    envelope, _ = a_row(host_app, "rough.early")
    wrapper = ["sh", "-c", 'umask 077; exec "$@"', "sh"]
    child = start_child(host_environment, envelope.job_uuid, wrapper=wrapper)
    child.send(line_of(envelope))
    assert child.end()[0] == 0
    (seen,) = [line.context for line in lines_of(host_app, envelope) if line.message == "seen"]
    assert seen is not None
    assert seen["umask"] == 0o077


@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
def test_standard_descriptors_that_are_closed(
    host_app: Flask, host_environment: HostEnvironment, closed: str
) -> None:
    envelope, _ = a_row(host_app, "rough.early")
    closing = "; ".join(f"os.close({number})" for number in closed)
    program = f"import os, sys; {closing}; os.execv(sys.argv[1], sys.argv[1:])"
    child = start_child(
        host_environment, envelope.job_uuid, wrapper=[sys.executable, "-c", program]
    )
    child.send(line_of(envelope))
    code, _, err = child.end()
    expected = 2 if "0" in closed else 0
    assert code == expected, err
    status = job_of(host_app, envelope).status
    assert status == ("queued" if expected else "succeeded")
