"""Widgets on a page of the application's own: what they show, to whom, and whatever Jinja does."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from flask import Flask, Response, redirect, render_template_string, request
from jinja2 import StrictUndefined
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_jobrunner.dashboard.embed import TAIL
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change, end
from tests.dashboard.test_escaping import CORPUS, nasty_job, plain_counterpart, tags_of
from tests.dashboard.test_html import outline

MISSING = "01a22706-15d6-7a3d-b858-606442022120"
PAGE = """\
{% from "flask_jobrunner/embed.html" import jobs_head, job_widget, my_jobs %}
<!doctype html><head>{{ jobs_head() }}</head><h1>Report</h1>
{{ job_widget(uuid) }}
<h2>Mine</h2>{{ my_jobs() }}"""
WIDGET = {"X-Jobrunner-Widget": "1", "Sec-Fetch-Site": "same-origin"}


def with_page(template: str = PAGE) -> Any:
    """A page of the host's own with the widgets on it; who looks is in a header."""

    def add(app: Flask) -> None:
        @app.get("/report/<uuid>")
        def report(uuid: str) -> str:
            return render_template_string(template, uuid=uuid)

    return add


def shown(host: Host, uuid: str, **options: Any) -> str:
    """The host's page."""
    answer = host.client().get(f"/report/{uuid}", **options)
    assert answer.status_code == 200
    return str(answer.text)


def ask(host: Host, path: str, **headers: str) -> Any:
    """A poll, as the script sends it."""
    return host.client().get(path, headers={**WIDGET, **headers})


def poll_url(body: str, number: int = 0) -> str:
    """Where the widget says that it asks next."""
    return html.unescape(re.findall(r'data-jr-poll="([^"]+)"', body)[number])


def two_people(host: Host) -> None:
    """A hook each, as an application with accounts has them."""
    host.jobs.scope(lambda: request.headers.get("X-User", "nobody"))
    host.jobs.actor(lambda: request.headers.get("X-User"))


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with a page of its own."""
    return make_host(before=with_page())


def test_a_widget_shows_progress_lines_and_a_way_to_cancel(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "running",
        title="Build report",
        step_index=2,
        step_total=3,
        current_step_label="Reading",
        progress_done=1,
        progress_total=4,
    )
    add_lines(host.runtime, uuid, ["first", {"message": "careful", "level": "warning"}])

    body = shown(host, uuid)

    for text in ("Build report", "Running", "Step 2 of 3", "Reading", "25%", "first", "careful"):
        assert text in body
    assert f'href="/jobs/{uuid}/cancel?next=/report/{uuid}"' in body
    assert f'<noscript><a href="/report/{uuid}">Reload to update</a></noscript>' in body
    assert '<link rel="stylesheet" href="/jobs/static/embed.css' in body
    assert '<script src="/jobs/static/embed.js' in body


def test_the_result_and_the_error_are_told_at_the_end(host: Host) -> None:
    good = add_job(host.runtime, "succeeded", result={"rows": 3, "password": "hunter2"})
    bad = add_job(
        host.runtime, "failed", error_class="ValueError", error_message="no such file\nmore"
    )

    assert "&#34;rows&#34;: 3" in shown(host, good)
    assert "hunter2" not in shown(host, good)
    assert "no such file" in shown(host, bad)
    for uuid in (good, bad):
        assert "Cancel job" not in shown(host, uuid)
        assert f"/jobs/{uuid}/embed" not in shown(host, uuid)


def test_what_the_page_has_to_show_at_the_end_takes_the_place_of_the_result(
    make_host: MakeHost,
) -> None:
    host = make_host(
        before=with_page(
            '{% from "flask_jobrunner/embed.html" import job_widget %}'
            '{% call job_widget(uuid, log=false) %}<a href="/own">The report</a>{% endcall %}'
        )
    )
    runs = add_job(host.runtime, "running")
    add_lines(host.runtime, runs, ["a line"])
    ended = add_job(host.runtime, "succeeded", result={"rows": 3})

    assert '<div data-jr-done hidden><a href="/own">The report</a></div>' in shown(host, runs)
    assert '<div data-jr-done><a href="/own">The report</a></div>' in shown(host, ended)
    assert "rows" not in shown(host, ended)
    assert "a line" not in shown(host, runs)
    end(host.runtime, runs, result_json='{"rows": 3}')
    answer = ask(host, f"{poll_url(shown(host, add_job(host.runtime, 'running')))}")
    assert answer.status_code == 204


def test_options_are_carried_on_by_the_polls(make_host: MakeHost) -> None:
    host = make_host(
        before=with_page(
            '{% from "flask_jobrunner/embed.html" import job_widget %}'
            "{{ job_widget(uuid, log=false, result=false) }}"
        )
    )
    uuid = add_job(host.runtime, "running")
    url = poll_url(shown(host, uuid))
    add_lines(host.runtime, uuid, ["a line to leave out"])
    end(host.runtime, uuid, result_json='{"rows": 3}')

    body = ask(host, url).text

    assert "Succeeded" in body
    assert "a line to leave out" not in body
    assert "rows" not in body


def test_a_poll_brings_what_is_new_once_and_ends(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one"])
    url = poll_url(shown(host, uuid))
    assert (ask(host, url).status_code, ask(host, url).data) == (204, b"")

    add_lines(host.runtime, uuid, ["two"])
    body = ask(host, url).text
    assert "two" in body
    assert "one</span>" not in body
    change(host.runtime, uuid, progress_done=1, progress_total=2)
    url = poll_url(body)
    body = ask(host, url).text
    assert "50%" in body
    end(host.runtime, uuid)
    body = ask(host, poll_url(body)).text
    assert "Succeeded" in body
    assert "data-jr-poll" not in body


def test_more_lines_than_it_keeps_are_left_to_the_page_of_the_job(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    url = poll_url(shown(host, uuid))
    add_lines(host.runtime, uuid, [f"line {n}." for n in range(TAIL * 3)])

    body = ask(host, url).text

    assert body.count("line ") == TAIL
    assert f"line {TAIL * 3 - 1}." in body
    assert ask(host, poll_url(body)).status_code == 204


def test_lines_that_were_removed_are_not_waited_for(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded", log_seq=70)

    assert f"/jobs/{uuid}/embed" not in shown(host, uuid)


def test_a_poll_without_a_cursor_brings_the_whole_widget(host: Host) -> None:
    uuid = add_job(host.runtime, "running", title="Fetched")
    add_lines(host.runtime, uuid, ["one"])

    answer = ask(host, f"/jobs/{uuid}/embed")

    assert "Fetched" in answer.text
    assert "one" in answer.text
    assert host.poll(f"/jobs/{uuid}/embed").text.count("<jr-live") == 1


@pytest.mark.parametrize(("path", "to"), [("{}/embed?c=3", "{}"), ("_mine", "")])
def test_a_fragment_that_is_opened_leads_to_a_page(host: Host, path: str, to: str) -> None:
    uuid = add_job(host.runtime, "running")

    answer = host.get(f"/{path.format(uuid)}")

    assert (answer.status_code, answer.location) == (303, f"/jobs/{to.format(uuid)}")


@pytest.mark.parametrize("query", ["c=x", "c=1&v=x", "c=1&p=%00", "c=1&log=x", "c=1&q=-1"])
def test_what_no_widget_sends_is_refused(host: Host, query: str) -> None:
    answer = ask(host, f"/jobs/{add_job(host.runtime, 'running')}/embed?{query}")

    assert (answer.status_code, answer.data) == (400, b"")


def test_the_parameters_of_the_page_itself_are_not_ours(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    body = host.client().get(f"/report/{uuid}?v=x&c=y&n=z&log=no").text

    assert "Running" in body
    assert f"next=/report/{uuid}?v%3Dx%26c%3Dy%26n%3Dz%26log%3Dno" in html.unescape(body)


def test_my_jobs_are_those_of_the_owner_newest_first(host: Host) -> None:
    two_people(host)
    for number in range(12):
        add_job(host.runtime, "running", owner="anna", title=f"Anna's {number}.")
    add_job(host.runtime, "running", owner="ANNA", title="Another name")

    body = shown(host, MISSING, headers={"X-User": "anna"})

    titles = re.findall(r"Anna&#39;s (\d+)\.", body)
    assert titles == [str(number) for number in range(11, 1, -1)]
    assert "Another name" not in body


def test_a_list_of_mine_changes_by_polls(host: Host) -> None:
    two_people(host)
    uuid = add_job(host.runtime, "running", owner="anna", title="Mine")
    body = shown(host, MISSING, headers={"X-User": "anna"})
    url = poll_url(body)
    assert ask(host, url, **{"X-User": "anna"}).status_code == 204

    end(host.runtime, uuid)
    body = ask(host, url, **{"X-User": "anna"}).text

    assert "Succeeded" in body
    assert 'data-jr-seconds="30"' in body


def test_who_is_nobody_in_particular_has_no_jobs(host: Host) -> None:
    add_job(host.runtime, "running", owner=None, title="Of nobody")
    add_job(host.runtime, "running", owner="", title="Of an empty name")

    assert "You have no jobs." in shown(host, MISSING)
    assert "Of nobody" not in ask(host, "/jobs/_mine").text
    host.jobs.actor(lambda: "")
    assert "Of an empty name" not in ask(host, "/jobs/_mine").text


def test_jobs_of_ones_own_that_one_may_not_see_are_left_out(make_host: MakeHost) -> None:
    host = make_host(
        before=with_page(), authorize=lambda action, job: job is None or job.title != "Secret"
    )
    host.jobs.actor(lambda: "anna")
    add_job(host.runtime, "running", owner="anna", title="Secret")
    add_job(host.runtime, "running", owner="anna", title="Open")

    body = ask(host, "/jobs/_mine").text

    assert "Open" in body
    assert "Secret" not in body


def without_time(body: str) -> str:
    return re.sub(r'data-jr-now="\d+"', "", body)


def test_neither_of_two_people_sees_counts_or_cancels_what_is_the_others(host: Host) -> None:
    two_people(host)
    theirs = add_job(host.runtime, "running", owner="anna", title="Anna's secret", lock_key="s")
    add_job(host.runtime, "running", owner="ben", title="Ben's own")
    ben = {**WIDGET, "X-User": "ben"}
    client = host.client()

    page = client.get(f"/report/{theirs}", headers=ben)
    like = client.get(f"/report/{MISSING}", headers=ben)
    assert "secret" not in page.text
    assert "Ben&#39;s own" in page.text
    assert without_time(page.text) == without_time(like.text)
    assert dict(page.headers) == dict(like.headers)
    for method, path in [
        ("GET", "/jobs/{}/embed"),
        ("GET", "/jobs/{}/embed?c=0&v=0&p=0"),
        ("GET", "/jobs/{}/cancel?next=/report"),
        ("POST", "/jobs/{}/cancel"),
    ]:
        seen = client.open(path.format(theirs), method=method, headers=ben)
        absent = client.open(path.format(MISSING), method=method, headers=ben)
        assert seen.status_code == absent.status_code == 404
        cleaned = [re.sub(r"<time.*?</time>|data-now=\S+", "", a.text) for a in (seen, absent)]
        assert cleaned[0] == cleaned[1]
        assert dict(seen.headers) == dict(absent.headers)
    for path in ("/jobs/", "/jobs/?status=running", "/jobs/_list?n=0", "/jobs/_mine"):
        assert "secret" not in client.get(path, headers={**ben, "HX-Request": "true"}).text
    assert re.search(r"All <b>1</b>", client.get("/jobs/", headers=ben).text)
    job = host.runtime.jobs.get(theirs)
    assert job is not None
    assert job.status == "running"


def test_without_an_authorize_hook_a_widget_shows_nothing(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), authorize=None)
    host.jobs.actor(lambda: "anna")
    uuid = add_job(host.runtime, "running", title="Secret", owner="anna")

    assert "Secret" not in shown(host, uuid)
    assert ask(host, "/jobs/_mine").status_code == 403


def test_a_sign_in_page_from_authorize_does_not_take_the_page_away(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), authorize=lambda action, job: redirect("/login"))
    uuid = add_job(host.runtime, "running", title="Secret")

    body = shown(host, uuid)

    assert "This job was deleted, or never existed" in body
    assert "Secret" not in body
    assert ask(host, f"/jobs/{uuid}/embed").location == "/login"
    assert ask(host, "/jobs/_mine").location == "/login"


@pytest.mark.parametrize(("action", "text"), [("view_log", "a line"), ("view_payload", "rows")])
def test_each_part_needs_its_own_action(make_host: MakeHost, action: str, text: str) -> None:
    refused: list[str] = []
    host = make_host(before=with_page(), authorize=lambda action, job: action not in refused)
    uuid = add_job(host.runtime, "succeeded", result={"rows": 3})
    add_lines(host.runtime, uuid, ["a line"])
    assert text in shown(host, uuid)

    refused.append(action)

    assert text not in shown(host, uuid)
    assert text not in ask(host, f"/jobs/{uuid}/embed?c=0").text


def test_cancel_is_not_offered_to_who_may_not(make_host: MakeHost) -> None:
    host = make_host(before=with_page(), authorize=lambda action, job: action != "cancel")

    assert "Cancel job" not in shown(host, add_job(host.runtime, "running"))


# --- cancelling from the page of the application ------------------------------------------------


def test_the_confirm_page_leads_back_to_where_it_was_asked(host: Host) -> None:
    uuid, client = add_job(host.runtime, "running"), host.client()
    (link,) = re.findall(r'href="(/jobs/[^"]+/cancel[^"]+)"', shown(host, uuid))

    page = client.get(html.unescape(link))
    answer = client.post(html.unescape(link), headers={"Sec-Fetch-Site": "same-origin"})

    assert f'<a class="jr-button" href="/report/{uuid}">Keep running</a>' in page.text
    assert (answer.status_code, answer.location) == (303, f"/report/{uuid}")


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "\n/x",
        "x",
        "/" + "x" * 2000,
    ],
)
def test_nowhere_but_on_this_site(host: Host, path: str) -> None:
    uuid = add_job(host.runtime, "running")
    for method in ("get", "post"):
        answer = getattr(host.client(), method)(
            f"/jobs/{uuid}/cancel",
            query_string={"next": path},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status_code == 400
        assert answer.location is None


def test_the_question_is_a_form_with_a_token_and_no_page_around_it(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    answer = ask(host, f"/jobs/{uuid}/cancel?next=/report")

    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert answer.text.startswith(
        f'<form class="jr-embed-ask" method="post" action="/jobs/{uuid}/cancel?next=/report">'
    )
    assert 'name="jobrunner_token"' in answer.text
    assert "Cancel this job?" in answer.text


def test_pages_and_polls_with_widgets_set_no_cookie(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    assert host.client().get(f"/report/{uuid}").headers.getlist("Set-Cookie") == []
    assert ask(host, f"/jobs/{uuid}/embed").headers.getlist("Set-Cookie") == []


# --- whatever the host is like ------------------------------------------------------------------


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


def test_elements_are_closed_and_there_are_no_ids(host: Host) -> None:
    host.jobs.actor(lambda: "anna")
    for status in ("queued", "running", "succeeded", "failed"):
        uuid = add_job(host.runtime, status, owner="anna", progress_done=1, progress_total=2)
        add_lines(host.runtime, uuid, ["one"])
        for body in (ask(host, f"/jobs/{uuid}/embed").text, ask(host, "/jobs/_mine").text):
            page = outline(body)
            assert (page.wrong, page.open, page.ids) == ([], [], [])
            assert not re.search(r"\sstyle=|\son\w+=|<script", body)


def test_a_widget_answers_a_database_that_is_locked_with_503(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flask_jobrunner import LockBusy

    def busy(*_: Any) -> Any:
        raise LockBusy("locked")

    uuid = add_job(host.runtime, "running")
    monkeypatch.setattr(host.runtime.jobs, "owned", busy)

    answer: Response = ask(host, f"/jobs/{uuid}/embed?c=0")

    assert (answer.status_code, answer.data) == (503, b"")
    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert answer.headers["Retry-After"]
