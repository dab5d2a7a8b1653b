"""Every end is recorded: by the launcher, by a command, or in a file for the sweeper."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from flask_jobrunner.shim import deliver
from tests.helpers.processes import is_running
from tests.helpers.shims import UUID, Launch, fake_child, noted
from tests.helpers.waiting import eventually

CLAIMS = "claim(); sys.exit(3)"


def test_a_receipt_ends_the_shim(launch: Launch, tmp_path: Path) -> None:
    shim = launch(fake_child(tmp_path, CLAIMS))
    shim.report()
    shim.receive()

    assert shim.join() == 0
    assert noted(tmp_path, "settles") == []
    assert not (tmp_path / "spool").exists()


def test_without_a_launcher_the_command_records_the_report(launch: Launch, tmp_path: Path) -> None:
    body = "claim()\nwhile not os.path.exists(os.path.join(HERE, 'go')): time.sleep(0.01)"
    shim = launch(fake_child(tmp_path, body))
    shim.message("claimed")
    shim.hang_up()
    (tmp_path / "go").touch()
    shim.join()
    (settled,) = noted(tmp_path, "settles")

    assert settled["argv"] == ["jobs", "settle", UUID]
    assert settled["pipes"] == ""
    assert settled["stdin"].startswith('{"v":1,"type":"report"')
    assert settled["stdin"].endswith("}\n")
    assert not (tmp_path / "spool").exists()


def test_the_command_is_given_the_very_report(launch_here: Launch, tmp_path: Path) -> None:
    shim = launch_here(fake_child(tmp_path, CLAIMS))
    report = shim.report()
    shim.join()
    (settled,) = noted(tmp_path, "settles")

    assert settled["stdin"].encode() == shim.lines[-1]
    assert report.token == "t" * 32


def test_a_receipt_that_does_not_come_is_waited_for(
    launch_here: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "RECEIPT_WAIT", 0.6)
    shim = launch_here(fake_child(tmp_path, CLAIMS))
    shim.report()
    started = time.monotonic()
    shim.join()

    assert time.monotonic() - started >= 0.5
    assert len(noted(tmp_path, "settles")) == 1


def test_what_was_sent_before_the_report_is_no_receipt(launch_here: Launch, tmp_path: Path) -> None:
    shim = launch_here(fake_child(tmp_path, "claim(); time.sleep(0.3)"))
    shim.message("claimed")
    shim.receive()
    shim.join()

    assert len(noted(tmp_path, "settles")) == 1


def test_a_failing_command_is_tried_again(launch_here: Launch, tmp_path: Path) -> None:
    settle = "if len(open(os.path.join(HERE, 'settles')).readlines()) < 3: sys.exit(69)"
    shim = launch_here(fake_child(tmp_path, CLAIMS, settle))

    assert shim.join() == 0
    assert len(noted(tmp_path, "settles")) == 3
    assert not (tmp_path / "spool").exists()


def test_after_three_failures_the_report_is_kept_in_a_private_file(
    launch_here: Launch, tmp_path: Path
) -> None:
    umask = os.umask(0o777)
    try:
        os.umask(0o022)
        command = fake_child(tmp_path, CLAIMS, "sys.exit(69)")
        os.umask(0o777)
        shim = launch_here(command)
        shim.report()
        code = shim.join()
    finally:
        os.umask(umask)
    file = tmp_path / "spool" / f"{UUID}.1.json"

    assert code == 0
    assert file.read_bytes() == shim.lines[-1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_all_of_it_with_a_real_process(launch_process: Launch, tmp_path: Path) -> None:
    shim = launch_process(fake_child(tmp_path, "claim()\ntime.sleep(0.2)", "sys.exit(1)"))
    shim.message("claimed")
    shim.hang_up()

    assert shim.join(20) == 0
    assert len(noted(tmp_path, "settles")) == 3
    assert (tmp_path / "spool" / f"{UUID}.1.json").exists()


def test_a_command_that_hangs_is_ended(
    launch_here: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "SETTLE_TIMEOUT", 0.4)
    monkeypatch.setattr(deliver, "SETTLE_PAUSES", (0.0,))
    shim = launch_here(fake_child(tmp_path, CLAIMS, "forever()"))

    assert shim.join() == 0
    assert (tmp_path / "spool" / f"{UUID}.1.json").exists()
    assert not any(is_running(pid) for pid, _ in noted(tmp_path, "pids"))


def test_a_command_that_is_missing_by_now_leads_to_the_file(
    launch_here: Launch, tmp_path: Path
) -> None:
    shim = launch_here(["/nowhere/flask"])

    assert shim.join() == 0
    assert b"/nowhere/flask" in (tmp_path / "spool" / f"{UUID}.1.json").read_bytes()


def test_a_report_that_nothing_takes_is_not_called_delivered(
    launch_here: Launch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    command = fake_child(tmp_path, CLAIMS, "sys.exit(1)")
    shim = launch_here(command, spool=tmp_path / "file" / "spool")

    assert shim.join() == 1


def test_a_launcher_that_dies_while_the_shim_waits_is_noticed(
    launch_process: Launch, tmp_path: Path
) -> None:
    shim = launch_process(fake_child(tmp_path, CLAIMS))
    shim.report()
    shim.hang_up()

    # Well before the ten seconds of a launcher that lives.
    eventually(lambda: noted(tmp_path, "settles"), timeout=60)
    assert shim.join() == 0


def test_a_report_larger_than_the_pipe_arrives_whole(launch: Launch, tmp_path: Path) -> None:
    body = "claim()\nos.write(1, b'x' * 65_000)\nos.write(2, b'y' * 65_000)"
    shim = launch(fake_child(tmp_path, body))
    report = shim.report()

    assert [len(data) for data in report.output()] == [65_000, 65_000]
    assert len(shim.lines[-1]) > 170_000


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["{}"],
        ["{", "--", "true"],
        ["[]", "--", "true"],
        ['{"uuid": "u", "attempt": 1, "claim_window": 1, "spool": "/x"}', "true"],
        ['{"uuid": "u", "attempt": 1, "claim_window": 1, "spool": "/x"}', "true", "--"],
        ['{"uuid": "u", "attempt": 1, "claim_window": 1, "spool": "/x"}', "--"],
        ['{"uuid": "u", "attempt": "x", "claim_window": 1, "spool": "/x"}', "--", "true"],
    ],
)
def test_wrong_arguments_are_a_usage_error(argv: list[str]) -> None:
    from flask_jobrunner.shim import __main__ as shim_main

    assert shim_main.main(argv, {}) == 2
