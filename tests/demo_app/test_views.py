"""The demo's pages; the jobs that they start are only written down."""

from __future__ import annotations

import contextvars
import io
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from demo_app import strikes, uploads, views, who_acts
from demo_app.extensions import db, jobs
from demo_app.handlers.import_csv import INPUT
from demo_app.models import Import

ROW = "LOGAN INTL,B-727,None,1999-01-02,DELTA,Massachusetts,Climb,Small,Gull,Day,0,0,0,150"
GOOD_FILE = f"{','.join(strikes.COLUMNS)}\n{ROW}\n".encode()


@dataclass
class Started:
    """What `jobs.start` would answer."""

    status: str
    job: Any = None
    message: str | None = None
    reason_code: str | None = None

    @property
    def ok(self) -> bool:
        return self.status in ("started", "launching")


class Starts:
    """Stands for `jobs.start`: keeps each call, answers what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, dict[str, Any]]] = []
        self.answer = Started("started", job=SimpleNamespace(uuid="the-job"))

    def __call__(self, job_type: str, payload: Any = None, **options: Any) -> Started:
        self.calls.append((job_type, payload, options))
        return self.answer


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """No process is started by these tests."""
    replaced = Starts()
    monkeypatch.setattr(jobs, "start", replaced)
    monkeypatch.setattr(jobs, "url_for", lambda uuid: f"http://localhost/jobs/{uuid}")
    return replaced


def upload(client: FlaskClient, data: bytes, name: str = "my.csv", **form: str) -> Any:
    """Post a file as the form does."""
    return client.post("/import", data={"file": (io.BytesIO(data), name), **form})


def test_the_front_page_has_a_button_for_each_job(client: FlaskClient) -> None:
    page = client.get("/")

    assert page.status_code == 200
    for path in (
        "/import",
        "/import/sample",
        "/run/smoke",
        "/queue",
        *map("/run/{}".format, views.SIMPLE_JOBS),
    ):
        assert f'action="{path}"' in page.text
    assert 'href="/jobs/"' in page.text
    assert "No jobs yet" in page.text
    assert not {"<script", "style="} & set(page.text.split())


def test_jobs_are_put_in_the_queue(app: Flask, client: FlaskClient) -> None:
    answer = client.post("/queue")

    assert (answer.status_code, answer.location) == (303, "/jobs/")
    with app.app_context():
        waiting = jobs.find(status="queued").jobs
    assert len(waiting) == views.QUEUED_AT_ONCE
    assert [job.priority for job in reversed(waiting)] == [0, 0, 0, 0, 1]


def test_pages_may_not_run_what_is_not_theirs(client: FlaskClient) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_public_file_is_imported_with_one_click(
    app: Flask, client: FlaskClient, starts: Starts
) -> None:
    answer = client.post("/import/sample", data={"watch": "on"})

    assert (answer.status_code, answer.location) == (303, "/imports/1")
    ((job_type, payload, options),) = starts.calls
    assert job_type == "demo.import_csv"
    assert payload == {"import_id": 1, "rest": views.REST_TO_WATCH}
    assert options["lock_key"].startswith("import:45777edf")
    assert (options["owner"], options["reference"]) == ("visitor", "import:1")
    assert options["files"] == {INPUT: views.SAMPLE.read_bytes()}
    with app.app_context():
        assert db.session.get_one(Import, 1).file_name == "birdstrikes.csv"


def test_the_name_of_an_upload_is_never_a_path(
    app: Flask, client: FlaskClient, starts: Starts
) -> None:
    answer = upload(client, GOOD_FILE, "../../etc/pass<wd>.csv")

    assert answer.status_code == 303
    assert starts.calls[0][2]["files"] == {INPUT: GOOD_FILE}
    with app.app_context():
        assert db.session.get_one(Import, 1).file_name == "pass<wd>.csv"
    assert starts.calls[0][1] == {"import_id": 1, "rest": 0}


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"", 422, "The file is empty."),
        (b"\xff\xfe", 422, "The file is not UTF-8 text"),
        (b"a,b\n1,2\n", 422, "The header lacks 14"),
        (b"a" * 3000, 422, "The file is larger than"),
        (b"a" * 9000, 413, "The file is larger than"),
    ],
    ids=["empty", "binary", "other columns", "too large", "far too large"],
)
def test_a_bad_upload_is_refused_and_leaves_nothing(
    app: Flask,
    client: FlaskClient,
    starts: Starts,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    status: int,
    message: str,
) -> None:
    monkeypatch.setattr(uploads, "MAX_BYTES", 2000)
    app.config["MAX_CONTENT_LENGTH"] = 6000

    answer = upload(client, data)

    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert message in answer.text
    assert starts.calls == []
    with app.app_context():
        assert db.session.query(Import).count() == 0


def test_a_form_without_a_file_is_refused(client: FlaskClient) -> None:
    assert "Choose a file first." in client.post("/import").text


def test_a_file_that_is_being_imported_is_not_kept_twice(
    app: Flask, client: FlaskClient, starts: Starts
) -> None:
    starts.answer = Started("already_active")

    answer = client.post("/import/sample")

    assert answer.status_code == 409
    assert "This is being done already." in answer.text
    with app.app_context():
        assert db.session.query(Import).count() == 0


def test_a_launch_that_fails_says_why(client: FlaskClient, starts: Starts) -> None:
    starts.answer = Started("launch_failed", message="The command was not found.")

    answer = client.post("/run/noisy")

    assert answer.status_code == 503
    assert "The command was not found." in answer.text


def test_the_smoke_form_passes_on_what_it_says(client: FlaskClient, starts: Starts) -> None:
    client.post("/run/smoke", data={"seconds": "8", "interval_ms": "250", "lock_key": "one"})

    ((job_type, payload, options),) = starts.calls
    assert (job_type, payload) == ("demo.smoke", {"seconds": "8", "interval_ms": "250"})
    assert options["lock_key"] == "one"


def test_a_lock_key_that_cannot_be_stored_is_refused(client: FlaskClient) -> None:
    answer = client.post("/run/smoke", data={"lock_key": "x" * 192})

    assert answer.status_code == 422
    assert "lock_key must be at most 191 bytes" in answer.text


@pytest.mark.usefixtures("awake")
def test_the_front_page_links_results_of_imports_only(client: FlaskClient) -> None:
    for reference in ("import:7", "import:x", "order:1", None):
        jobs.run_inline("demo.smoke", {"seconds": 1}, reference=reference)

    page = client.get("/").text

    assert page.count(">Result</a>") == 1
    assert 'href="/imports/7"' in page


def test_an_import_that_runs_is_shown_live_on_its_page(app: Flask, client: FlaskClient) -> None:
    with app.app_context():
        upload = Import(file_name="my.csv", sha256="0" * 64, size=3)
        db.session.add(upload)
        db.session.commit()
        job = jobs.enqueue("demo.import_csv", {"import_id": 1}, reference=upload.reference).job
        assert job is not None

    page = client.get("/imports/1").text

    assert f'data-jr-poll="/jobs/{job.uuid}/embed?' in page
    assert "Show what it brought in" in page
    assert f'href="/jobs/{job.uuid}/cancel?next=/imports/1"' in page


def test_there_is_no_job_but_the_known_ones(client: FlaskClient, starts: Starts) -> None:
    assert client.post("/run/anything").status_code == 404
    assert client.get("/imports/1").status_code == 404
    assert starts.calls == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://localhost"}, 303),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_forms_of_other_sites_are_refused(
    client: FlaskClient, starts: Starts, headers: dict[str, str], status: int
) -> None:
    assert client.post("/run/noisy", headers=headers).status_code == status
    assert len(starts.calls) == (status == 303)


def test_the_sample_can_be_looked_at(client: FlaskClient) -> None:
    answer = client.get("/sample.csv")

    assert answer.headers["Content-Disposition"] == "attachment; filename=birdstrikes.csv"
    assert answer.text.startswith(strikes.AIRPORT)
    answer.close()


def test_pages_that_are_not_there_are_the_demos_own(client: FlaskClient) -> None:
    for path in ("/nothing", "/imports/7"):
        answer = client.get(path)

        assert answer.status_code == 404
        assert "<h1>No such page</h1>" in answer.text
        assert 'href="/"' in answer.text


def test_the_dashboard_keeps_its_own_error_pages(client: FlaskClient) -> None:
    answer = client.get("/jobs/00000000-0000-7000-8000-000000000000")

    assert answer.status_code == 404
    assert "No such job" in answer.text


def test_whoever_takes_a_name_owns_what_he_starts(client: FlaskClient, starts: Starts) -> None:
    assert client.post("/name", data={"name": " Ada "}).location == "/mine"

    client.post("/run/noisy")

    assert starts.calls[0][2]["owner"] == "Ada"
    assert "<strong>Ada</strong>" in client.get("/mine").text


@pytest.mark.parametrize("name", ["", "  ", "x" * 41, "a\nb"])
def test_a_name_that_cannot_be_shown_is_refused(client: FlaskClient, name: str) -> None:
    answer = client.post("/name", data={"name": name})

    assert answer.status_code == 422
    assert "A name has 1 to 40 characters" in answer.text
    assert "<strong>visitor</strong>" in answer.text


@pytest.mark.usefixtures("awake")
def test_my_jobs_are_mine_alone(client: FlaskClient) -> None:
    jobs.run_inline("demo.smoke", {"seconds": 1}, title="Of the visitor", owner="visitor")
    jobs.run_inline("demo.smoke", {"seconds": 1}, title="Of Ada", owner="Ada")

    mine = client.get("/mine").text

    assert "Of the visitor" in mine
    assert "Of Ada" not in mine


def test_outside_of_a_request_nobody_of_the_demo_acts(app: Flask) -> None:
    def asked() -> str | None:
        with app.app_context():
            return who_acts()

    assert contextvars.Context().run(asked) is None  # as in a terminal
    with app.test_request_context():
        assert asked() == "visitor"


@pytest.mark.usefixtures("awake")
def test_the_front_page_says_who_asked(client: FlaskClient) -> None:
    jobs.run_inline("demo.smoke", {"seconds": 1}, actor="root")

    assert "<td>root</td>" in client.get("/").text
