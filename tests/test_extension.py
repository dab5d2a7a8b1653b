"""`JobRunner`: setting up, and what is wrong about a set-up."""

from __future__ import annotations

import logging
import sqlite3
import types
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_jobrunner import ConfigError, JobRunner, process_role
from flask_jobrunner.runtime import current_runtime, set_process_role


def make_app(folder: Path, **config: Any) -> Flask:
    """An application on a database file of its own."""
    app = Flask(f"app_{folder.name}", instance_path=str(folder))
    app.config.update(
        SQLALCHEMY_DATABASE_URI=f"sqlite:///{folder / 'app.sqlite'}",
        JOBRUNNER_APP="shop:create_app",
        **config,
    )
    return app


def test_it_is_set_up_before_or_after_the_database(tmp_path: Path) -> None:
    """The order in which a factory initialises its extensions does not matter."""
    for name in ("before", "after"):
        app, db, jobs = make_app(tmp_path / name), SQLAlchemy(), JobRunner()
        (tmp_path / name).mkdir()
        if name == "after":
            db.init_app(app)
        jobs.init_app(app, db)
        if name == "before":
            db.init_app(app)
        with app.app_context():
            db.create_all()

            assert jobs.find().jobs == []


def test_the_constructor_takes_the_application(tmp_path: Path) -> None:
    """As a one-file application writes it; the database is the registered one."""
    app = make_app(tmp_path)
    db = SQLAlchemy(app)
    jobs = JobRunner(app)

    with app.app_context():
        db.create_all()
        assert jobs.get("01890000-0000-7000-8000-000000000000") is None


def test_a_second_set_up_is_refused(tmp_path: Path) -> None:
    """With the sentence that says what to do instead."""
    app, db, jobs = make_app(tmp_path), SQLAlchemy(), JobRunner()
    db.init_app(app)
    jobs.init_app(app, db)

    with pytest.raises(ConfigError, match="already set up"):
        jobs.init_app(app, db)
    with pytest.raises(ConfigError, match="already set up"):
        JobRunner(app, db)


def test_without_a_database_object_it_says_what_to_call(tmp_path: Path) -> None:
    """Nothing to guess from."""
    with pytest.raises(ConfigError, match=r"jobs\.init_app\(app, db\)"):
        JobRunner().init_app(make_app(tmp_path))


def test_several_applications_share_one_object(tmp_path: Path) -> None:
    """State hangs on the application."""
    db, jobs, apps = SQLAlchemy(), JobRunner(), []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        app = make_app(tmp_path / name)
        db.init_app(app)
        jobs.init_app(app, db)
        apps.append(app)

    runtimes = []
    for app in apps:
        with app.app_context():
            db.create_all()
            runtimes.append(current_runtime())
    assert runtimes[0] is not runtimes[1]
    assert runtimes[0].database.engine.url != runtimes[1].database.engine.url


def test_an_application_without_jobs_says_so() -> None:
    """Rather than a KeyError."""
    with Flask("bare").app_context(), pytest.raises(ConfigError, match="init_app"):
        JobRunner().find()


def test_an_unknown_setting_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It has no effect, and is not silent."""
    app, db = make_app(tmp_path, JOBRUNNER_LAESE=3), SQLAlchemy()
    db.init_app(app)

    with caplog.at_level(logging.WARNING, "flask_jobrunner"):
        JobRunner().init_app(app, db)

    assert "JOBRUNNER_LEASE" in caplog.text


def test_a_module_of_handlers_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JOBRUNNER_HANDLERS as a list of module names."""
    (tmp_path / "lazily_imported_jobs.py").write_text("IMPORTED = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    app, db = make_app(tmp_path, JOBRUNNER_HANDLERS=["lazily_imported_jobs"]), SQLAlchemy()
    db.init_app(app)

    JobRunner().init_app(app, db)

    import lazily_imported_jobs  # type: ignore[import-not-found]  # made above

    assert isinstance(lazily_imported_jobs, types.ModuleType)


@pytest.mark.parametrize("budget", [0, -1, True, "3", float("nan"), float("inf"), 1e18, 10**400])
@pytest.mark.parametrize("name", ["run_budget", "queue_budget", "stall_budget", "cancel_grace"])
def test_a_bad_budget_is_refused_where_it_is_written(name: str, budget: Any) -> None:
    """Not when the first job runs."""
    with pytest.raises(ConfigError, match=name):
        JobRunner().handler("a.b", **{name: budget})


@pytest.mark.parametrize("job_type", ["", "a/b", 7, lambda _: None])
def test_a_bad_job_type_is_refused_where_it_is_written(job_type: Any) -> None:
    """Also a function: the decorator without brackets would swallow it."""
    with pytest.raises(ConfigError, match="job type"):
        JobRunner().handler(job_type)


def test_a_payload_that_cannot_be_called_is_refused_where_it_is_written() -> None:
    """Not at every start, as if what was given to it were wrong."""
    with pytest.raises(ConfigError, match="payload="):
        JobRunner().handler("a.b", payload={})  # type: ignore[arg-type]


@pytest.mark.parametrize("title", ["x" * 256, "a\0b", 7])
def test_a_title_that_no_row_could_hold_is_refused_where_it_is_written(title: Any) -> None:
    """Not when the first job starts."""
    with pytest.raises(ConfigError, match="title"):
        JobRunner().handler("a.b", title=title)


def test_engine_options_stay_with_their_bind(tmp_path: Path) -> None:
    """As Flask-SQLAlchemy has it: the default bind's options are for another driver, maybe."""
    app = make_app(
        tmp_path,
        JOBRUNNER_BIND_KEY="jobs",
        SQLALCHEMY_ENGINE_OPTIONS={"connect_args": {"sslmode": "require"}},
        SQLALCHEMY_BINDS={"jobs": f"sqlite:///{tmp_path / 'jobs.sqlite'}"},
    )
    app.config["SQLALCHEMY_DATABASE_URI"] = "postgresql+psycopg://nobody@nowhere.test/shop"
    db, jobs = SQLAlchemy(), JobRunner()
    db.init_app(app)
    jobs.init_app(app, db)

    with app.app_context():
        db.create_all("jobs")
        assert jobs.find().jobs == []


@pytest.mark.parametrize("bind_key", [None, "jobs"])
@pytest.mark.parametrize("where", ["constructor", "config"])
def test_engine_options_of_the_host_are_taken_over(
    tmp_path: Path, where: str, bind_key: str | None
) -> None:
    """Wherever Flask-SQLAlchemy takes them from."""
    made, url = list[str](), f"sqlite:///{tmp_path / 'jobs.sqlite'}"

    def creator() -> sqlite3.Connection:
        made.append(where)
        return sqlite3.connect(tmp_path / "jobs.sqlite", check_same_thread=False)

    options: dict[str, Any] = {"creator": creator}
    app = make_app(tmp_path, JOBRUNNER_BIND_KEY=bind_key)
    in_config = options if where == "config" else {}
    if bind_key is None:
        app.config |= {"SQLALCHEMY_DATABASE_URI": url, "SQLALCHEMY_ENGINE_OPTIONS": in_config}
    else:
        app.config["SQLALCHEMY_BINDS"] = {"jobs": {"url": url, **in_config}}
    db = SQLAlchemy(engine_options=options if where == "constructor" else {})
    db.init_app(app)
    jobs = JobRunner()
    jobs.init_app(app, db)

    with app.app_context():
        db.create_all(bind_key)
        made.clear()
        assert jobs.find().jobs == []
    assert made == [where]


def test_a_missing_bind_says_which(tmp_path: Path) -> None:
    """At the first use, since the database may be set up later."""
    app, db, jobs = make_app(tmp_path, JOBRUNNER_BIND_KEY="jobs"), SQLAlchemy(), JobRunner()
    db.init_app(app)
    jobs.init_app(app, db)

    with app.app_context(), pytest.raises(ConfigError, match="'jobs'"):
        jobs.find()


def test_the_process_says_what_it_is_for() -> None:
    """Readable before a factory runs."""
    assert process_role() == "web"

    set_process_role("job")
    try:
        assert process_role() == "job"
    finally:
        set_process_role("web")


class TestUrlFor:
    """Absolute addresses without a request."""

    @pytest.fixture
    def jobs(self, tmp_path: Path) -> JobRunner:
        """An object with one handler."""
        jobs = JobRunner()
        jobs.handler("a.b")(lambda ctx: None)
        return jobs

    def start(self, jobs: JobRunner, folder: Path, **config: Any) -> tuple[Flask, str]:
        """An application with one job that ran in this process."""
        app, db = make_app(folder, **config), SQLAlchemy()
        db.init_app(app)
        jobs.init_app(app, db)
        with app.app_context():
            db.create_all()
        with app.test_request_context(base_url="https://shop.example.org/app"):
            job = jobs.run_inline("a.b").job
        assert job is not None
        return app, job.uuid

    def test_the_base_is_that_of_the_request_which_started_it(
        self, jobs: JobRunner, tmp_path: Path
    ) -> None:
        """Kept in the row."""
        app, uuid = self.start(jobs, tmp_path)

        with app.app_context():
            assert jobs.url_for(uuid) == f"https://shop.example.org/app/jobs/{uuid}"
            assert jobs.url_for(uuid, line=3, _anchor="L3").endswith(f"{uuid}?line=3#L3")

    def test_a_configured_base_wins(self, jobs: JobRunner, tmp_path: Path) -> None:
        """Behind a proxy the request may not know."""
        app, uuid = self.start(jobs, tmp_path, JOBRUNNER_BASE_URL="https://ops.example.org/")

        with app.app_context():
            assert jobs.url_for(uuid) == f"https://ops.example.org/jobs/{uuid}"

    def test_without_a_dashboard_there_is_no_address(self, jobs: JobRunner, tmp_path: Path) -> None:
        """The error names the setting."""
        app, uuid = self.start(jobs, tmp_path, JOBRUNNER_URL_PREFIX=None)

        with app.app_context(), pytest.raises(ConfigError, match="JOBRUNNER_URL_PREFIX"):
            jobs.url_for(uuid)
