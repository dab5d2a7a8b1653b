"""What Chromium says of a form's origin, in each situation a host can be in, and what we answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask, Response, request
from playwright.sync_api import Browser, Page

from tests.browser.conftest import Serve
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.helpers.browser import ARGUMENTS
from tests.servers import binaries

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NO_REFERRER = "no-referrer"


@dataclass
class Shop:
    """A served host, under the name that this machine itself has and under one of a network."""

    host: Host
    port: int
    sent: list[dict[str, str | None]] = field(default_factory=list)

    def page(self, name: str, uuid: str) -> str:
        """The address of the form that cancels the job."""
        return f"http://{name}:{self.port}/jobs/{uuid}/cancel"

    def status(self, uuid: str) -> str:
        job = self.host.runtime.jobs.get(uuid)
        assert job is not None
        return job.status


@pytest.fixture
def network(browser: Browser) -> Iterator[Page]:
    """A page of a browser for which every name below .test is this machine."""
    running = browser.browser_type.launch(
        executable_path=binaries.find("chromium"),
        args=[*ARGUMENTS, "--host-resolver-rules=MAP *.test 127.0.0.1"],
    )
    yield running.new_page()
    running.close()


def shop(make_host: MakeHost, serve: Serve, policy: str | None) -> Shop:
    """A host that may set a referrer policy of its own."""
    sent: list[dict[str, str | None]] = []

    def before(app: Flask) -> None:
        @app.before_request
        def remember() -> None:
            if request.method == "POST":
                names = ("Sec-Fetch-Site", "Origin")
                sent.append({name: request.headers.get(name) for name in names})

        @app.after_request
        def refer(response: Response) -> Response:
            if policy is not None:
                response.headers["Referrer-Policy"] = policy
            return response

        app.add_url_rule("/favicon.ico", "icon", lambda: "")

    host = make_host(before=before)
    port = urlsplit(serve(host.app).url).port
    assert port is not None
    return Shop(host, port, sent)


ROWS: list[Any] = [
    pytest.param("localhost", None, "same-origin", "its own", id="localhost"),
    pytest.param("localhost", NO_REFERRER, "same-origin", "null", id="localhost, no referrer"),
    pytest.param("shop.test", None, None, "its own", id="plain http on a network"),
    pytest.param("shop.test", NO_REFERRER, None, "null", id="the same, no referrer: the token"),
]


@pytest.mark.parametrize(("name", "policy", "site", "origin"), ROWS)
def test_our_own_form_acts(
    make_host: MakeHost,
    serve: Serve,
    network: Page,
    name: str,
    policy: str | None,
    site: str | None,
    origin: str,
) -> None:
    there = shop(make_host, serve, policy)
    uuid = add_job(there.host.runtime, "running")
    network.goto(there.page(name, uuid))
    network.get_by_role("button", name="Cancel job").click()
    network.locator("#jr-did").wait_for()

    own = f"http://{name}:{there.port}" if origin == "its own" else origin
    assert there.sent == [{"Sec-Fetch-Site": site, "Origin": own}]
    assert there.status(uuid) == "cancel_requested"


def test_where_nothing_tells_a_form_without_its_token_is_refused(
    make_host: MakeHost, serve: Serve, network: Page
) -> None:
    there = shop(make_host, serve, NO_REFERRER)
    uuid = add_job(there.host.runtime, "running")
    network.goto(there.page("shop.test", uuid))
    network.evaluate("document.querySelector('[name=jobrunner_token]').remove()")
    network.get_by_role("button", name="Cancel job").click()

    network.get_by_role("heading", name="This request was refused").wait_for()
    assert there.status(uuid) == "running"
    network.get_by_role("link", name="Open the form again").click()
    network.get_by_role("button", name="Cancel job").click()
    network.locator("#jr-did").wait_for()
    assert there.status(uuid) == "cancel_requested"


@pytest.mark.parametrize(("name", "site"), [("localhost", "cross-site"), ("shop.test", None)])
def test_a_form_on_another_site_is_refused(
    make_host: MakeHost, serve: Serve, network: Page, name: str, site: str | None
) -> None:
    there = shop(make_host, serve, None)
    uuid = add_job(there.host.runtime, "running")
    evil = Flask("evil")
    form = f"<form method=post action='{there.page(name, uuid)}'><button>Win</button></form>"
    evil.add_url_rule("/", "trap", lambda: form)
    port = urlsplit(serve(evil).url).port
    network.goto(f"http://evil.test:{port}/")
    network.get_by_role("button", name="Win").click()

    network.get_by_role("heading", name="This request was refused").wait_for()
    assert there.sent == [{"Sec-Fetch-Site": site, "Origin": f"http://evil.test:{port}"}]
    assert there.status(uuid) == "running"
