"""What the factory does for each kind of process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo_app import create_app

ROOT = Path(__file__).parents[2]
AS_A_JOB = """
import sys
from flask_jobrunner.runtime import set_process_role
set_process_role("job")
from demo_app import create_app
create_app()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_a_jobs_process_loads_no_migrations(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_A_JOB],
        cwd=ROOT,
        env=os.environ | {"DEMO_INSTANCE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "sqlalchemy" in done.stdout.split()
    assert not {"alembic", "flask_migrate"} & set(done.stdout.split())


def test_every_process_reads_the_same_secret_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_INSTANCE", str(tmp_path / "new"))

    first, second = create_app(), create_app()

    assert first.secret_key == second.secret_key
    assert (tmp_path / "new" / "secret_key").stat().st_mode & 0o777 == 0o600


def test_settings_of_the_environment_go_before_the_demos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_INSTANCE", str(tmp_path))
    monkeypatch.setenv("FLASK_JOBRUNNER_URL_PREFIX", "/tasks")

    app = create_app()

    assert (
        app.test_client().get("/tasks/", environ_base={"REMOTE_ADDR": "192.0.2.1"}).status_code
        == 403
    )
