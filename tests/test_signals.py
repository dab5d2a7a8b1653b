"""Signals: everybody hears them, and nobody can break the sender."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask import Flask

from flask_jobrunner import job_created
from flask_jobrunner.signals import send


def test_a_receiver_that_raises_is_logged_and_keeps_nobody_else_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The change was committed: whatever a receiver does comes after it."""
    app, heard = Flask(__name__), list[Any]()

    def broken(_app: Flask, **_values: Any) -> None:
        raise RuntimeError("receiver")

    def listening(sender: Flask, job: str) -> None:
        heard.append((sender, job))

    with (
        job_created.connected_to(broken, app),
        job_created.connected_to(listening, app),
        caplog.at_level(logging.ERROR, "flask_jobrunner"),
    ):
        send(job_created, app, job="the job")

    assert heard == [(app, "the job")]
    assert "receiver" in caplog.text


def test_only_receivers_of_this_application_hear_it() -> None:
    """Several applications live in one process."""
    app, heard = Flask(__name__), list[Any]()

    def listening(sender: Flask, **_values: Any) -> None:
        heard.append(sender)

    with job_created.connected_to(listening, Flask("another")):
        send(job_created, app, job=None)

    assert heard == []
