"""A POST has to come from one of our own pages, whatever the browser is willing to say."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from flask import Flask
from flask_wtf.csrf import CSRFProtect

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job

OURS = "http://shop.example.org"
SITE = "http://shop.example.org/"


def post(host: Host, uuid: str, **headers: str) -> Any:
    """POST the cancel form, as a browser at shop.example.org would with these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client = host.client()
    return client.post(f"/jobs/{uuid}/cancel", base_url=SITE, headers=named)


def status_of(host: Host, uuid: str) -> str:
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    return job.status


# The six rows of what browsers were seen to send.
ALLOWED = [
    pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": OURS}, id="https or localhost"),
    pytest.param({"Sec_Fetch_Site": "same-origin", "Origin": "null"}, id="the same, no referrer"),
    pytest.param({"Origin": OURS}, id="plain http on a LAN name"),
    pytest.param({"Origin": OURS.upper()}, id="an origin in capitals"),
    pytest.param({"Origin": OURS + ":80"}, id="an origin with the default port"),
    pytest.param({"Sec_Fetch_Site": "none"}, id="the user's own deed"),
]
REFUSED = [
    pytest.param({"Origin": "null"}, id="plain http, no referrer: a token is required"),
    pytest.param(
        {"Sec_Fetch_Site": "cross-site", "Origin": "http://evil.example"}, id="cross-site"
    ),
    pytest.param({"Origin": "http://evil.example"}, id="cross-site to plain http"),
    pytest.param({"Sec_Fetch_Site": "same-site", "Origin": OURS}, id="a sibling domain"),
    pytest.param({"Sec_Fetch_Site": "cross-site", "Origin": OURS}, id="fetch metadata decides"),
    pytest.param({"Origin": "https://shop.example.org"}, id="another scheme"),
    pytest.param({"Origin": OURS + ":8080"}, id="another port"),
    pytest.param({"Origin": OURS + ".evil.example"}, id="a longer name"),
    pytest.param({"Origin": "http://[::bad"}, id="no address at all"),
    pytest.param({"Origin": ""}, id="an empty origin"),
    pytest.param({}, id="nothing said: a token is required"),
]


@pytest.mark.parametrize("headers", ALLOWED)
def test_a_request_from_our_own_page_acts(host: Host, headers: dict[str, str]) -> None:
    uuid = add_job(host.runtime, "running")

    answer = post(host, uuid, **headers)

    assert answer.status_code == 303
    assert status_of(host, uuid) == "cancel_requested"


@pytest.mark.parametrize("headers", REFUSED)
def test_a_request_from_elsewhere_changes_nothing_and_says_why(
    host: Host, headers: dict[str, str]
) -> None:
    uuid = add_job(host.runtime, "running")

    answer = post(host, uuid, **headers)

    assert answer.status_code == 403
    assert "Nothing was changed" in answer.text
    assert status_of(host, uuid) == "running"


def test_the_refusal_names_the_proxy_setting(host: Host) -> None:
    answer = post(host, add_job(host.runtime, "running"), Origin="https://shop.example.org")

    assert "ProxyFix" in answer.text
    assert "JOBRUNNER_TRUSTED_ORIGINS" in answer.text


def test_a_trusted_origin_acts_where_the_browser_sends_no_metadata(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_TRUSTED_ORIGINS=["https://ops.example.org"])

    assert post(host, add_job(host.runtime, "running"), Origin="https://ops.example.org").location


def hidden_fields(body: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', body)
    return {name: html.unescape(value) for name, value in found}


def form_of(client: Any, uuid: str) -> dict[str, str]:
    return hidden_fields(client.get(f"/jobs/{uuid}/cancel", base_url=SITE).text)


def test_where_the_browser_says_nothing_the_token_of_the_page_decides(host: Host) -> None:
    uuid, client = add_job(host.runtime, "running"), host.client()
    form = form_of(client, uuid)

    answer = client.post(
        f"/jobs/{uuid}/cancel", base_url=SITE, data=form, headers={"Origin": "null"}
    )

    assert answer.status_code == 303
    assert status_of(host, uuid) == "cancel_requested"


def test_the_token_of_another_browser_does_not_fit(host: Host) -> None:
    uuid, mine, theirs = add_job(host.runtime, "running"), host.client(), host.client()
    stolen = form_of(theirs, uuid)
    form_of(mine, uuid)

    assert mine.post(f"/jobs/{uuid}/cancel", base_url=SITE, data=stolen).status_code == 403
    assert host.client().post(f"/jobs/{uuid}/cancel", base_url=SITE, data=stolen).status_code == 403
    assert status_of(host, uuid) == "running"


def test_a_token_that_was_made_up_is_refused(host: Host) -> None:
    client, uuid = host.client(), add_job(host.runtime, "running")
    client.set_cookie("jobrunner_csrf", "x" * 43, domain="shop.example.org", path="/jobs/")

    answer = client.post(
        f"/jobs/{uuid}/cancel", base_url=SITE, data={"jobrunner_token": '"' + "x" * 43 + '"'}
    )

    assert answer.status_code == 403


def test_an_old_token_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid, client = add_job(host.runtime, "running"), host.client()
    form = form_of(client, uuid)
    monkeypatch.setattr("flask_jobrunner.dashboard.csrf.TOKEN_LIFE", -1)

    assert client.post(f"/jobs/{uuid}/cancel", base_url=SITE, data=form).status_code == 403


def test_two_open_forms_of_one_browser_both_work(host: Host) -> None:
    first, second = add_job(host.runtime, "running"), add_job(host.runtime, "running")
    client = host.client()
    one, two = form_of(client, first), form_of(client, second)

    assert client.post(f"/jobs/{first}/cancel", base_url=SITE, data=one).status_code == 303
    assert client.post(f"/jobs/{second}/cancel", base_url=SITE, data=two).status_code == 303


def test_the_cookie_stays_below_the_mount_and_away_from_scripts(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    answer = host.client().get(f"/jobs/{uuid}/cancel", base_url="https://shop.example.org")
    cookie = next(c for c in answer.headers.getlist("Set-Cookie") if c.startswith("jobrunner_csrf"))

    assert "Path=/jobs/" in cookie
    assert "HttpOnly" in cookie
    assert "Secure" in cookie
    assert "SameSite=Strict" in cookie


def test_without_a_secret_key_forms_work_where_the_browser_speaks(make_host: MakeHost) -> None:
    host = make_host(SECRET_KEY=None)
    uuid = add_job(host.runtime, "running")

    assert host.get(f"/{uuid}/cancel").status_code == 200
    refused = post(host, uuid)
    assert refused.status_code == 403
    assert "SECRET_KEY" in refused.text
    assert post(host, uuid, Sec_Fetch_Site="same-origin").status_code == 303


@pytest.mark.parametrize("path", ["", "/_live", "/log"])
def test_pages_and_polls_set_no_cookie(host: Host, path: str) -> None:
    uuid = add_job(host.runtime, "running")

    assert host.poll(f"/jobs/{uuid}{path}").headers.getlist("Set-Cookie") == []
    assert host.poll("/jobs/").headers.getlist("Set-Cookie") == []


def protect(app: Flask) -> None:
    CSRFProtect(app)


def test_with_flask_wtf_its_token_is_in_the_form_and_is_asked_for(make_host: MakeHost) -> None:
    host = make_host(before=protect)
    uuid, client = add_job(host.runtime, "running"), host.client()
    form = form_of(client, uuid)
    headers = {"Sec-Fetch-Site": "same-origin"}
    path = f"/jobs/{uuid}/cancel"

    assert "csrf_token" in form
    assert client.post(path, base_url=SITE, headers=headers).status_code == 400
    assert status_of(host, uuid) == "running"
    assert client.post(path, base_url=SITE, data=form, headers=headers).status_code == 303
    assert status_of(host, uuid) == "cancel_requested"


def test_with_flask_wtf_our_own_check_still_holds(make_host: MakeHost) -> None:
    host = make_host(before=protect)
    uuid, client = add_job(host.runtime, "running"), host.client()
    form = form_of(client, uuid)

    answer = client.post(
        f"/jobs/{uuid}/cancel",
        base_url=SITE,
        data=form,
        headers={"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"},
    )

    assert answer.status_code == 403
    assert status_of(host, uuid) == "running"


def test_with_flask_wtf_a_page_left_open_for_hours_still_leads_to_a_deed(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(before=protect, WTF_CSRF_TIME_LIMIT=1)
    uuid, client = add_job(host.runtime, "running"), host.client()
    # The job's page holds no token that could grow old: its button is a link to a fresh form.
    page = client.get(f"/jobs/{uuid}", base_url=SITE)
    assert "csrf_token" not in hidden_fields(page.text)
    assert f'href="/jobs/{uuid}/cancel"' in page.text

    answer = client.post(
        f"/jobs/{uuid}/cancel",
        base_url=SITE,
        data=form_of(client, uuid),
        headers={"Sec-Fetch-Site": "same-origin"},
    )

    assert answer.status_code == 303


def test_with_flask_wtf_over_https_the_referrer_it_demands_is_sent(make_host: MakeHost) -> None:
    host = make_host(before=protect)
    uuid, client = add_job(host.runtime, "running"), host.client()
    secure = "https://shop.example.org/"
    page = client.get(f"/jobs/{uuid}/cancel", base_url=secure)

    assert page.headers["Referrer-Policy"] == "same-origin"
    answer = client.post(
        f"/jobs/{uuid}/cancel",
        base_url=secure,
        data=hidden_fields(page.text),
        headers={"Sec-Fetch-Site": "same-origin", "Referer": f"{secure}jobs/{uuid}/cancel"},
    )
    assert answer.status_code == 303
