"""Below any prefix, twice in one app, in several apps, and never over the host's own rules."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jobrunner import ConfigError
from flask_jobrunner.dashboard import collisions, make_blueprint
from tests.dashboard.hosts import MakeHost
from tests.dashboard.seeding import add_job


def own_urls(body: str) -> set[str]:
    found = re.findall(r'(?:href|src|action|hx-get)="([^"#?][^"]*)"', body)
    return {url for url in found if not url.startswith("#")}


def test_behind_a_prefix_every_address_has_it(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_URL_PREFIX="/admin/ops/jobs")
    host.app.wsgi_app = ProxyFix(host.app.wsgi_app, x_prefix=1, x_host=1, x_proto=1)  # type: ignore[method-assign]
    uuid = add_job(host.runtime, "running")
    headers = {"X-Forwarded-Prefix": "/shop"}

    for path in ("", uuid, f"{uuid}/log", f"{uuid}/cancel", "01a22706-15d6-7a3d-b858-606442022120"):
        body = host.client().get(f"/admin/ops/jobs/{path}", headers=headers).text
        for url in own_urls(body) - {"/shop/"}:
            assert url.startswith("/shop/admin/ops/jobs/"), (path, url)

    with host.client().get("/admin/ops/jobs/static/frame.css", headers=headers) as sheet:
        assert sheet.status_code == 200


def test_a_deed_behind_a_prefix_leads_back_below_it(make_host: MakeHost) -> None:
    host = make_host()
    host.app.wsgi_app = ProxyFix(host.app.wsgi_app, x_prefix=1)  # type: ignore[method-assign]
    uuid = add_job(host.runtime, "running")

    answer = host.client().post(
        f"/jobs/{uuid}/cancel",
        headers={"X-Forwarded-Prefix": "/shop", "Sec-Fetch-Site": "same-origin"},
    )

    assert answer.location == f"/shop/jobs/{uuid}?did=cancel"


def test_two_apps_in_one_process_show_their_own_jobs(make_host: MakeHost) -> None:
    first, second = make_host(name="first"), make_host(name="second", authorize=lambda *_: False)
    add_job(first.runtime, "running", title="Of the first")

    assert "Of the first" in first.get().text
    assert "Back to first" in first.get().text
    assert second.get().status_code == 403


def test_a_second_mount_in_one_app_links_to_itself(make_host: MakeHost) -> None:
    def mount(app: Flask) -> None:
        app.register_blueprint(make_blueprint("operations"), url_prefix="/ops/jobs")

    host = make_host(before=mount)
    uuid = add_job(host.runtime, "running")

    for prefix in ("/jobs", "/ops/jobs"):
        for path in ("/", f"/{uuid}", f"/{uuid}/cancel"):
            body = host.client().get(prefix + path).text
            for url in own_urls(body) - {"/"}:
                assert url.startswith(f"{prefix}/"), (prefix, path, url)


def test_a_mount_below_another_blueprint_works(make_host: MakeHost) -> None:
    from flask import Blueprint

    def mount(app: Flask) -> None:
        admin = Blueprint("admin", __name__, url_prefix="/admin")
        admin.register_blueprint(make_blueprint(), url_prefix="/jobs")
        app.register_blueprint(admin)

    host = make_host(before=mount, JOBRUNNER_URL_PREFIX=None)
    uuid = add_job(host.runtime, "running")

    assert f'href="/admin/jobs/{uuid}/cancel"' in host.client().get(f"/admin/jobs/{uuid}").text


def test_without_a_prefix_there_is_no_dashboard(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_URL_PREFIX=None)

    assert host.get().status_code == 404
    assert "jobrunner" not in host.app.blueprints


@pytest.mark.parametrize("rule", ["/jobs", "/jobs/", "/jobs/<int:number>", "/jobs/new"])
def test_a_rule_of_the_host_in_our_place_is_an_error_that_names_it(
    make_host: MakeHost, rule: str
) -> None:
    def add_rule(app: Flask) -> None:
        app.add_url_rule(rule, "mine", lambda **_: "mine")

    with pytest.raises(ConfigError, match=re.escape(rule)) as raised:
        make_host(before=add_rule)

    assert "JOBRUNNER_URL_PREFIX" in str(raised.value)


@pytest.mark.parametrize("rule", ["/jobsheets", "/", "/<path:anything>", "/my/jobs"])
def test_rules_elsewhere_are_no_collision(make_host: MakeHost, rule: str) -> None:
    def add_rule(app: Flask) -> None:
        app.add_url_rule(rule, "mine", lambda **_: "mine")

    host = make_host(before=add_rule)

    assert "No jobs yet" in host.get().text
    assert collisions(host.app, "/jobs") == []


def test_a_rule_that_came_later_is_found_by_who_asks(make_host: MakeHost) -> None:
    host = make_host()
    host.app.add_url_rule("/jobs/late", "late", lambda: "late")

    assert collisions(host.app, "/jobs") == ["/jobs/late"]


def test_a_blueprint_of_our_name_is_an_error(make_host: MakeHost) -> None:
    from flask import Blueprint

    def add_blueprint(app: Flask) -> None:
        app.register_blueprint(Blueprint("jobrunner", __name__))

    with pytest.raises(ConfigError, match="jobrunner"):
        make_host(before=add_blueprint)


def test_rules_are_there_before_any_view_is_imported() -> None:
    script = """
import sys
from flask import Flask, url_for
from flask_sqlalchemy import SQLAlchemy
from flask_jobrunner import JobRunner
app = Flask("shop")
app.config.update(SQLALCHEMY_DATABASE_URI="sqlite://", SERVER_NAME="shop.example.org")
JobRunner(app, SQLAlchemy(app))
with app.app_context():
    print(url_for("jobrunner.detail", uuid="01a22706-15d6-7a3d-b858-606442022120"))
print(sorted(m for m in sys.modules if m.startswith("flask_jobrunner.dashboard.")))
"""
    run: Any = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert run.stdout.splitlines() == [
        "http://shop.example.org/jobs/01a22706-15d6-7a3d-b858-606442022120",
        "['flask_jobrunner.dashboard.blueprint']",
    ]


def test_the_hosts_login_decides_with_flask_login(make_host: MakeHost) -> None:
    import flask_login

    class User(flask_login.UserMixin):  # type: ignore[misc]
        id = "dora"

    def accounts(app: Flask) -> None:
        manager = flask_login.LoginManager(app)
        manager.user_loader(lambda _: User())

        @app.get("/enter")
        def enter() -> str:
            flask_login.login_user(User())
            return "in"

        @app.get("/login")
        def login() -> str:
            return "who are you?"

        manager.login_view = "login"

    def only_users(action: str, job: object) -> Any:
        return flask_login.current_user.is_authenticated or manager_of().unauthorized()

    def manager_of() -> Any:
        from flask import current_app

        return current_app.login_manager  # type: ignore[attr-defined]

    host = make_host(before=accounts, authorize=only_users)
    uuid, client = add_job(host.runtime, "running"), host.client()
    assert client.get("/jobs/").status_code == 302
    assert (
        "X-Jobrunner-Fragment"
        not in client.get(f"/jobs/{uuid}/_live", headers={"HX-Request": "true"}).headers
    )

    client.get("/enter")
    client.post(f"/jobs/{uuid}/cancel", headers={"Sec-Fetch-Site": "same-origin"})

    assert "Cancel requested by dora" in client.get(f"/jobs/{uuid}").text
