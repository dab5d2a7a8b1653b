"""The demo's own pages: start a job, and look at what an import brought in."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from flask import (
    Blueprint,
    Response,
    abort,
    redirect,
    render_template,
    request,
    send_from_directory,
    url_for,
)
from sqlalchemy import select
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Response as AnyResponse

from flask_jobrunner import Job
from flask_jobrunner.model.results import StartResult

from . import uploads, visitors
from .extensions import db, jobs
from .handlers.import_csv import INPUT
from .models import Import, Strike

blueprint = Blueprint("demo", __name__)

SAMPLE = Path(__file__).parent / "data" / "birdstrikes.csv"
# 40 rests while the sample is checked and 20 while it is stored: some 25 s.
REST_TO_WATCH = 0.4
QUEUED_AT_ONCE = 5
SIMPLE_JOBS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "kill": ("demo.crash", {"how": "kill"}),
    "segfault": ("demo.crash", {"how": "segfault"}),
    "stubborn": ("demo.stubborn", None),
    "noisy": ("demo.noisy", None),
    "long-log": ("demo.long_log", None),
    "fail": ("demo.fail", None),
}


@blueprint.app_context_processor
def for_templates() -> dict[str, Any]:
    """What every page of the demo needs to link to the dashboard."""
    return {
        "dashboard_url": lambda: url_for("jobrunner.index"),
        "supervisors_url": lambda: url_for("jobrunner.supervisors"),
        "job_url": lambda job: url_for("jobrunner.detail", uuid=job.uuid),
        "file_url": lambda job, file: url_for("jobrunner.artifact", uuid=job.uuid, name=file.name),
        "result_url": _result_url,
    }


@blueprint.get("/")
def index() -> str:
    """What this is, a button for each job, and the newest jobs."""
    return _front_page()


@blueprint.get("/mine")
def mine() -> str:
    """The jobs of whoever looks."""
    return _my_page()


@blueprint.post("/name")
def take_name() -> AnyResponse | tuple[str, int]:
    """Be somebody else from now on."""
    try:
        visitors.remember(request.form.get("name", ""))
    except visitors.NameRefused as refused:
        return _my_page(str(refused)), 422
    return redirect(url_for("demo.mine"), 303)


@blueprint.get("/sample.csv")
def sample() -> Response:
    """The public file that the demo ships."""
    return send_from_directory(SAMPLE.parent, SAMPLE.name, as_attachment=True)


@blueprint.post("/import/sample")
def import_sample() -> AnyResponse | tuple[str, int]:
    """Import the public file."""
    return _import(SAMPLE.name, SAMPLE.read_bytes())


@blueprint.post("/import")
def import_upload() -> AnyResponse | tuple[str, int]:
    """Import a file of the visitor's own, or say why it cannot be."""
    try:
        upload = request.files.get("file")
        if upload is None or not upload.filename:
            raise uploads.UploadRefused("Choose a file first.")
        data = uploads.read_upload(upload.stream)
    except RequestEntityTooLarge:
        return _front_page(f"The file is larger than {uploads.MAX_BYTES // 1024**2} MiB."), 413
    except uploads.UploadRefused as refused:
        return _front_page(str(refused)), 422
    return _import(upload.filename, data)


@blueprint.post("/run/smoke")
def run_smoke() -> AnyResponse | tuple[str, int]:
    """Start the smoke job as the form says."""
    payload = {name: request.form.get(name) for name in ("seconds", "interval_ms")}
    lock_key = request.form.get("lock_key")
    return _started(jobs.start("demo.smoke", payload, lock_key=lock_key, owner=visitors.current()))


@blueprint.post("/run/<name>")
def run(name: str) -> AnyResponse | tuple[str, int]:
    """Start one of the jobs that need no input."""
    if name not in SIMPLE_JOBS:
        abort(404)
    job_type, payload = SIMPLE_JOBS[name]
    return _started(jobs.start(job_type, payload, owner=visitors.current()))


@blueprint.post("/queue")
def queue() -> AnyResponse:
    """Put some jobs in the queue; the supervisor beside this server takes them from there."""
    for number in range(1, QUEUED_AT_ONCE + 1):
        jobs.enqueue(
            "demo.smoke",
            {"seconds": 5},
            title=f"Queued job {number} of {QUEUED_AT_ONCE}",
            owner=visitors.current(),
            # The last one asked for is the first to begin.
            priority=1 if number == QUEUED_AT_ONCE else 0,
        )
    return redirect(url_for("jobrunner.index"), 303)


@blueprint.get("/imports/<int:import_id>")
def show_import(import_id: int) -> str:
    """How an import went, and what it brought in."""
    upload = db.get_or_404(Import, import_id)
    found = jobs.find(reference=upload.reference, limit=1).jobs
    if not found:
        abort(404)
    status = jobs.status(found[0].uuid, limit=1)
    dearest: list[Strike] = []
    if status.job and status.job.status == "succeeded":
        query = select(Strike).where(Strike.import_id == import_id, Strike.cost_usd > 0)
        dearest = list(db.session.scalars(query.order_by(Strike.cost_usd.desc()).limit(5)))
    return render_template("demo_app/import.html", upload=upload, status=status, dearest=dearest)


def _result_url(job: Job) -> str | None:
    name, _, number = (job.reference or "").partition(":")
    if name != "import" or not number.isdecimal():
        return None
    return url_for("demo.show_import", import_id=int(number))


def _import(file_name: str, data: bytes) -> AnyResponse | tuple[str, int]:
    digest = hashlib.sha256(data).hexdigest()
    upload = Import(file_name=uploads.shown_name(file_name), sha256=digest, size=len(data))
    db.session.add(upload)
    # Committed first: the job runs in another process and must find the row.
    db.session.commit()
    result = jobs.start(
        "demo.import_csv",
        {"import_id": upload.id, "rest": REST_TO_WATCH if "watch" in request.form else 0},
        lock_key=f"import:{digest[:16]}",
        title=f"Import {upload.file_name}",
        owner=visitors.current(),
        reference=upload.reference,
        files={INPUT: data},
    )
    if result.ok:
        return redirect(url_for("demo.show_import", import_id=upload.id), 303)
    db.session.delete(upload)
    db.session.commit()
    return _refused(result)


def _started(result: StartResult) -> AnyResponse | tuple[str, int]:
    """On to the page of the job; or back to the front page, which says why not."""
    if result.ok:
        return redirect(jobs.url_for(result.job.uuid), 303)
    return _refused(result)


def _refused(result: StartResult) -> tuple[str, int]:
    if result.status == "already_active":
        return _front_page("This is being done already.", held_by=result.job), 409
    message = result.message or result.reason_code or result.status
    return _front_page(f"The job could not be started: {message}", held_by=result.job), 503


def _my_page(refusal: str | None = None) -> str:
    return render_template("demo_app/mine.html", visitor=visitors.current(), refusal=refusal)


def _front_page(refusal: str | None = None, *, held_by: Job | None = None) -> str:
    return render_template(
        "demo_app/index.html",
        refusal=refusal,
        held_by=held_by,
        newest=jobs.find(limit=8).jobs,
        queued_at_once=QUEUED_AT_ONCE,
        max_mib=uploads.MAX_BYTES // 1024**2,
        flask=_flask_command(),
    )


def _flask_command() -> str:
    """The `flask` of this process, as one would type it here."""
    program = Path(sys.executable).with_name("flask")
    here = Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)
