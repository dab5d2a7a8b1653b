"""Widgets are the same whatever the application does to Jinja, addresses and blueprints."""

from __future__ import annotations

import re

import pytest
from flask import Flask, render_template_string
from jinja2 import StrictUndefined
from werkzeug.middleware.proxy_fix import ProxyFix

from tests.dashboard.embedding import MISSING, PAGE, WIDGET, poll_url, shown, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_escaping import CORPUS, nasty_job, plain_counterpart, tags_of


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with a page of its own."""
    return make_host(before=with_page())


def careless(app: Flask) -> None:
    app.jinja_options = {"autoescape": False, "undefined": StrictUndefined}


def page_of(host: Host, uuid: str) -> str:
    host.jobs.actor(lambda: "me")
    runtime, jobs = host.runtime, host.runtime.database.tables.jobs
    runtime.database.run(lambda c: c.execute(jobs.update().values(owner="me")))
    return shown(host, uuid)


@pytest.mark.parametrize("status", ["failed", "cancel_requested"])
@pytest.mark.parametrize("text", CORPUS)
def test_job_data_is_text_on_a_page_without_autoescape(
    make_host: MakeHost, text: str, status: str
) -> None:
    def before(app: Flask) -> None:
        careless(app)
        with_page()(app)

    nasty, tame = make_host(before=before), make_host(before=before)
    found = page_of(nasty, nasty_job(nasty, text, status))
    expected = page_of(tame, nasty_job(tame, plain_counterpart(text), status))

    assert [(tag, set(values)) for tag, values in tags_of(found)] == [
        (tag, set(values)) for tag, values in tags_of(expected)
    ]
    assert "<script>alert" not in found


def test_a_host_with_marks_of_its_own_calls_the_functions(make_host: MakeHost) -> None:
    def before(app: Flask) -> None:
        app.jinja_options = {"variable_start_string": "[[", "variable_end_string": "]]"}
        with_page("[[ jobrunner_head() ]][[ jobrunner_job(uuid) ]][[ jobrunner_mine() ]]")(app)

    host = make_host(before=before)
    uuid = add_job(host.runtime, "running", title="Called")

    assert "Called" in shown(host, uuid)
    assert shown(host, uuid).count("<jr-live") == 2


def test_jinja_settings_that_come_after_ours_still_count(make_host: MakeHost) -> None:
    host = make_host()
    host.app.jinja_options = {"undefined": StrictUndefined}

    assert host.app.jinja_env.undefined is StrictUndefined


def test_a_nonce_of_the_host_is_passed_on(make_host: MakeHost) -> None:
    host = make_host(
        before=with_page(
            '{% from "flask_jobrunner/embed.html" import jobs_head %}{{ jobs_head(nonce="abc") }}'
        )
    )

    assert re.search(r'<script src="[^"]+" defer nonce="abc"></script>', shown(host, MISSING))


def test_behind_a_prefix_every_address_has_it(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), JOBRUNNER_URL_PREFIX="/admin/jobs")
    host.app.wsgi_app = ProxyFix(host.app.wsgi_app, x_prefix=1)  # type: ignore[method-assign]
    host.jobs.actor(lambda: "anna")
    uuid = add_job(host.runtime, "running", owner="anna")
    headers = {"X-Forwarded-Prefix": "/shop"}

    body = shown(host, uuid, headers=headers)

    addresses = re.findall(r'(?:href|src|data-jr-poll)="([^"]+)"', body)
    assert len(addresses) > 8
    assert [a for a in addresses if not a.startswith(("/shop/admin/jobs/", "/shop/report/"))] == []
    assert f"cancel?next=/shop/report/{uuid}" in body
    inside = host.client().get(poll_url(body).removeprefix("/shop"), headers={**headers, **WIDGET})
    assert inside.status_code == 204


def test_a_page_in_a_blueprint_of_the_host_leads_to_the_mount(make_host: MakeHost) -> None:
    from flask import Blueprint

    from flask_jobrunner.dashboard import make_blueprint

    def before(app: Flask) -> None:
        admin = Blueprint("admin", __name__, url_prefix="/admin")
        admin.register_blueprint(make_blueprint(), url_prefix="/jobs")
        shop = Blueprint("shop", __name__)
        shop.add_url_rule(
            "/report/<uuid>",
            view_func=lambda uuid: render_template_string(PAGE, uuid=uuid),
            endpoint="report",
        )
        app.register_blueprint(shop)
        app.register_blueprint(admin)

    host = make_host(before=before, JOBRUNNER_URL_PREFIX=None)
    uuid = add_job(host.runtime, "running")

    body = shown(host, uuid)

    assert poll_url(body).startswith(f"/admin/jobs/{uuid}/embed?")
    assert 'href="/admin/jobs/static/embed.css' in body
