"""Two applications in one process, each with two mounts: nothing of one leads into another."""

from __future__ import annotations

import re
from typing import Any

from flask import Flask
from jinja2 import StrictUndefined
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from flask_jobrunner.dashboard import make_blueprint
from tests.dashboard.embedding import WIDGET, poll_url, with_page
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.dashboard.test_escaping import CORPUS, nasty_job
from tests.dashboard.test_mounting import own_urls

OURS = {"Sec-Fetch-Site": "same-origin"}


def before(app: Flask) -> None:
    """A second mount, and the weakest settings that a host can have."""
    app.jinja_options = {"autoescape": False, "undefined": StrictUndefined}
    app.select_jinja_autoescape = lambda filename: False  # type: ignore[method-assign]  # as hosts do
    app.register_blueprint(make_blueprint("operations"), url_prefix="/ops/jobs")
    with_page()(app)


def together(make_host: MakeHost) -> tuple[dict[str, Host], Client]:
    hosts = {name: make_host(name=name, before=before) for name in ("first", "second")}
    for host in hosts.values():
        host.jobs.actor(lambda: "me")
    nowhere = Flask("nowhere")
    mounts: dict[str, Any] = {f"/{name}": host.app for name, host in hosts.items()}
    return hosts, Client(DispatcherMiddleware(nowhere, mounts))


def test_every_address_stays_in_its_app_and_its_mount(make_host: MakeHost) -> None:
    hosts, client = together(make_host)

    for name, host in hosts.items():
        uuid = add_job(host.runtime, "running", title=f"Of the {name}", owner="me")
        for prefix in (f"/{name}/jobs", f"/{name}/ops/jobs"):
            for path in ("/", f"/{uuid}", f"/{uuid}/log", f"/{uuid}/cancel", "/types", "/prefs"):
                body = client.get(prefix + path).text
                for url in own_urls(body) - {f"/{name}/"}:
                    assert url.startswith(f"{prefix}/"), (prefix, path, url)
            page = client.get(f"{prefix}/").text
            assert f"Of the {name}" in page
            assert len(re.findall("Of the ", page)) == 1
            kept = client.post(f"{prefix}/prefs", data={"theme": "dark"}, headers=OURS)
            assert f"Path={prefix}/" in kept.headers["Set-Cookie"]
            assert 'data-theme="dark"' in client.get(f"{prefix}/").text
        body = client.get(f"/{name}/report/{uuid}").text
        assert poll_url(body).startswith(f"/{name}/")
        assert client.get(poll_url(body), headers=WIDGET).status_code == 204
        other = "second" if name == "first" else "first"
        assert client.get(f"/{other}/jobs/{uuid}").status_code == 404


def test_a_deed_in_one_mount_leads_back_to_it_and_touches_one_app(make_host: MakeHost) -> None:
    hosts, client = together(make_host)
    uuids = {
        name: add_job(host.runtime, "running", job_uuid="01a22706-15d6-7a3d-b858-606442022120")
        for name, host in hosts.items()
    }

    answer = client.post(f"/first/ops/jobs/{uuids['first']}/cancel", headers=OURS)

    assert answer.location == f"/first/ops/jobs/{uuids['first']}?did=cancel"
    states = [host.runtime.jobs.get(uuids[name]) for name, host in hosts.items()]
    assert [job.status for job in states if job] == ["cancel_requested", "running"]


def test_the_weakest_settings_let_nothing_through(make_host: MakeHost) -> None:
    hosts, client = together(make_host)
    host = hosts["first"]

    for text in CORPUS[:5]:
        uuid = nasty_job(host, text)
        for path in (f"jobs/{uuid}", f"ops/jobs/{uuid}/log", "jobs/types", f"report/{uuid}"):
            body = client.get(f"/first/{path}").text
            assert "<script>alert" not in body, path
            assert "<img src=x" not in body, path
            assert "<div hx-get='/evil'" not in body, path
