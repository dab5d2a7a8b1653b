"""What `pip install flask-jobrunner` gives: everything that is needed, away from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "flask_jobrunner"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOST_APP = """
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_jobrunner import JobContext, JobRunner

db = SQLAlchemy()
jobs = JobRunner()

@jobs.handler("greet")
def greet(ctx: JobContext) -> object:
    ctx.set_step("write", "Writing", 1, 1)
    print("printed", ctx.payload["name"])
    return {"greeting": f"Hello {ctx.payload['name']}"}

@jobs.authorize
def everybody(action, job):
    return True

def create_app():
    app = Flask(__name__)
    app.config.from_prefixed_env()
    db.init_app(app)
    jobs.init_app(app, db)
    with app.app_context():
        db.create_all()
    return app
"""

STARTS_ONE = """
import json
from host_app import create_app, jobs

app = create_app()
with app.app_context():
    started = jobs.start("greet", {"name": "Ada"})
    job = jobs.wait(started.job.uuid, timeout=60)
    seen = jobs.status(job.uuid)
with app.test_client() as client:
    page = client.get(f"/jobs/{job.uuid}")
    script = client.get("/jobs/static/htmx.min.js")
print(json.dumps({
    "started": started.status, "ended": job.status, "result": seen.result,
    "lines": [line.message for line in seen.logs], "page": page.status_code,
    "script": script.status_code, "title": "greet" in page.text,
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an app file and an environment in which only the wheel is installed."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", with_pip=True, symlinks=True)
    install = [str(folder / "env/bin/python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True, cwd=folder)
    (folder / "host_app.py").write_text(HOST_APP, encoding="utf-8")
    (folder / "starts_one.py").write_text(STARTS_ONE, encoding="utf-8")
    return folder


def run(folder: Path, *words: str) -> str:
    """What a program of the new environment prints, in `folder`, without this run's settings."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    settings = {
        "FLASK_APP": "host_app:create_app",
        "FLASK_SQLALCHEMY_DATABASE_URI": f"sqlite:///{folder / 'app.sqlite'}",
    }
    command = [str(folder / "env/bin" / words[0]), *words[1:]]
    done = subprocess.run(
        command, cwd=folder, env=kept | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        extra = {name.partition("/")[2] for name in archive.namelist() if ".dist-info/" in name}
    expected = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert names == expected
    assert {"flask_jobrunner/py.typed", "flask_jobrunner/static/htmx.min.js"} <= names
    assert any(name.startswith("flask_jobrunner/templates/flask_jobrunner/") for name in names)
    assert {"entry_points.txt", "licenses/LICENSE"} <= extra


def test_a_job_runs_from_the_wheel(elsewhere: Path) -> None:
    seen = json.loads(run(elsewhere, "python", "starts_one.py"))

    assert seen["started"] == "started"
    assert seen["ended"] == "succeeded"
    assert seen["result"] == {"greeting": "Hello Ada"}
    assert "printed Ada" in seen["lines"]
    assert (seen["page"], seen["script"], seen["title"]) == (200, 200, True)


def test_the_commands_are_found_without_any_line_in_the_app(elsewhere: Path) -> None:
    ended = json.loads(
        run(
            elsewhere,
            "flask",
            "jobs",
            "start",
            "greet",
            "--json",
            "--wait",
            "--payload",
            '{"name": "Grace"}',
        )
    )
    listed = run(elsewhere, "flask", "jobs", "list")

    assert ended["status"] == "succeeded"
    assert "greet" in listed


def test_the_installed_package_is_typed(elsewhere: Path) -> None:
    where = run(
        elsewhere, "python", "-c", "import flask_jobrunner; print(flask_jobrunner.__file__)"
    )

    assert str(elsewhere) in where
    assert Path(where.strip()).with_name("py.typed").exists()
