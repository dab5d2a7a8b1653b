"""What a host says about people, and what this process is told to run."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask_login import LoginManager, UserMixin, login_user
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import JobRunner
from flask_jobrunner.runtime import ACTOR_MAX_BYTES, Hooks, ProcessRole, Runtime


class User(UserMixin):  # type: ignore[misc]  # ships no types
    """A user with a number for an id."""

    def __init__(self, number: Any) -> None:
        self.id = number


@pytest.fixture
def app() -> Flask:
    """An application with Flask-Login."""
    app = Flask(__name__)
    app.secret_key = "of the test"
    LoginManager(app).user_loader(User)
    return app


def test_without_a_hook_nobody_acts_outside_of_a_request(app: Flask) -> None:
    hooks = Hooks()
    assert hooks.current_actor() is None
    with app.app_context():
        assert hooks.current_actor() is None
    with Flask("bare").test_request_context():
        assert hooks.current_actor() is None


def test_without_a_hook_flask_login_s_user_acts(app: Flask) -> None:
    hooks = Hooks()
    with app.test_request_context():
        assert hooks.current_actor() is None
        login_user(User(42))
        assert hooks.current_actor() == "42"
    with app.test_request_context():
        login_user(User("x" * 500))
        assert hooks.current_actor() == "x" * ACTOR_MAX_BYTES


def test_the_host_s_own_answer_goes_first(app: Flask) -> None:
    hooks = Hooks()
    hooks.actor = lambda: "ann"
    with app.test_request_context():
        login_user(User(42))
        assert hooks.current_actor() == "ann"
        hooks.actor = lambda: None
        assert hooks.current_actor() is None


@pytest.mark.parametrize("role", ["web", "job", "supervisor"])
def test_only_a_web_process_shares_the_host_s_connection(
    role: ProcessRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_jobrunner.runtime._role", role)
    app = Flask(__name__)
    app.config.update(SQLALCHEMY_DATABASE_URI="sqlite://", JOBRUNNER_MODE="record")
    JobRunner(app, SQLAlchemy(app))
    runtime: Runtime = app.extensions["jobrunner"]
    with app.app_context():
        assert (runtime.database.shared is not None) == (role == "web")


@pytest.mark.parametrize(
    ("answer", "scope"), [(None, None), ("ann", "ann"), (42, "42"), ("a\0", "a\\u0000"), ("", "")]
)
def test_a_scope_is_text_that_can_be_compared(answer: Any, scope: str | None) -> None:
    hooks = Hooks()
    assert hooks.current_scope() is None
    hooks.scope = lambda: answer
    assert hooks.current_scope() == scope
