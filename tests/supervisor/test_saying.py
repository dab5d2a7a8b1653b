"""What a supervisor says: its log, and to a service manager."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path

from flask_jobrunner.model.errors import DatabaseAway, LockBusy
from flask_jobrunner.supervisor.contact import Contact
from flask_jobrunner.supervisor.log import Log
from flask_jobrunner.supervisor.notify import Notifier


def test_lines_for_people() -> None:
    out = io.StringIO()
    said = Log(out, as_json=False)
    said.info("started", "shop job 1 started, process 7.", job="u")
    said.warning("ended", "shop job 1 failed.")
    said.error("backing_off", "No.")

    lines = out.getvalue().splitlines()
    assert [line[8:] for line in lines] == [
        "   shop job 1 started, process 7.",
        " ! shop job 1 failed.",
        " E No.",
    ]
    assert lines[0][2] == lines[0][5] == ":"


def test_a_terminal_is_told_nothing_to_act_upon() -> None:
    out = io.StringIO()
    Log(out, as_json=False).error("backing_off", "last words:\n\x1b]0;title\x07\ttab\x9b1m")

    assert out.getvalue()[9:] == "E last words:\n?]0;title?\ttab?1m\n"


def test_json_for_programs() -> None:
    out = io.StringIO()
    Log(out, as_json=True).info("ended", "It “ended”.\n2", job="u", attempt=2, path=Path("a"))

    (line,) = out.getvalue().splitlines()
    told = json.loads(line)
    assert line.isascii()
    assert told.pop("ts").endswith("Z")
    assert told == {
        "level": "info",
        "event": "ended",
        "message": "It “ended”.\n2",
        "job": "u",
        "attempt": 2,
        "path": "a",
    }


def test_a_closed_terminal_ends_nobody() -> None:
    out = io.StringIO()
    out.close()
    Log(out, as_json=False).info("ready", "x")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        Log(full, as_json=False).info("ready", "x")
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_an_outage_is_told_when_it_begins_and_when_it_ends() -> None:
    out, now = io.StringIO(), [0.0]
    contact = Contact(Log(out, as_json=True), lambda: now[0])
    contact.made()
    assert (contact.left, contact.is_lost, out.getvalue()) == (0.0, False, "")
    for _ in range(20):
        contact.lost(DatabaseAway("The database could not be reached (X)."))
        assert contact.is_lost
        now[0] += contact.left
    assert contact.left <= 18.0
    contact.lost(LockBusy("Busy."))
    contact.lost(ValueError("a bug"))
    contact.made()
    contact.made()

    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["event"] for one in told] == [
        "database_away",
        "database_busy",
        "error",
        "database_back",
    ]
    assert "Running jobs go on" in told[0]["message"]
    assert "ValueError: a bug" in told[2]["message"]


def test_a_service_manager_hears_of_changes_and_signs_of_life(tmp_path: Path) -> None:
    now = [100.0]
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(0.2)
        environ = {
            "NOTIFY_SOCKET": address,
            "WATCHDOG_USEC": "10000000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        notifier = Notifier(environ, lambda: now[0])
        notifier.tell("READY=1")
        notifier.step("working, 0 of 2 slots used")
        assert [manager.recv(100) for _ in range(3)] == [
            b"READY=1",
            b"STATUS=working, 0 of 2 slots used",
            b"WATCHDOG=1",
        ]
        assert notifier.left == 5.0
        notifier.step("working, 0 of 2 slots used")
        now[0] += 5
        notifier.step("working, 1 of 2 slots used")
        assert [manager.recv(100) for _ in range(2)] == [
            b"STATUS=working, 1 of 2 slots used",
            b"WATCHDOG=1",
        ]
    notifier.tell("STOPPING=1")


def test_an_abstract_address_and_another_processs_watchdog() -> None:
    name = f"jobrunner-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name)
        manager.settimeout(0.2)
        environ = {"NOTIFY_SOCKET": "@" + name, "WATCHDOG_USEC": "10", "WATCHDOG_PID": "1"}
        notifier = Notifier(environ)
        assert notifier.left == 60.0
        notifier.step("working")
        assert manager.recv(100) == b"STATUS=working"


def test_where_no_manager_listens_nothing_is_sent() -> None:
    notifier = Notifier({})
    notifier.tell("READY=1")
    notifier.step("working")
    assert notifier.left == 60.0
