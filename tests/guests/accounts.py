"""A host with accounts of Flask-Login, as its own documentation sets them up."""

from __future__ import annotations

from typing import Any

import flask_login
from flask import Flask, current_app, get_flashed_messages, redirect, request
from markupsafe import escape

ANNA = "anna"


class User(flask_login.UserMixin):  # type: ignore[misc]  # the library ships no types
    """Somebody who has signed in."""

    def __init__(self, name: str) -> None:
        self.id = name


def with_accounts(app: Flask) -> None:
    """A sign-in page that says what was flashed and leads to `next`."""
    manager = flask_login.LoginManager(app)
    manager.user_loader(User)
    manager.login_view = "login"

    @app.route("/login", methods=["GET", "POST"])
    def login() -> Any:
        if request.method == "POST":
            flask_login.login_user(User(ANNA))
            return redirect(request.args.get("next", "/"), 303)
        told = "".join(f"<li class=told>{escape(text)}" for text in get_flashed_messages())
        return f"<title>Sign in</title><ul>{told}</ul><form method=post><button>Enter</button>"

    app.add_url_rule("/favicon.ico", "icon", lambda: "")


def only_users(action: str, job: object) -> Any:
    """An `authorize` that sends strangers to the sign-in page."""
    if flask_login.current_user.is_authenticated:
        return True
    return current_app.login_manager.unauthorized()  # type: ignore[attr-defined]  # set by the library
