"""Children are started with a real Python, its flags, and an environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.protocol import command


def flags_of(*flags: str) -> list[str]:
    """What `interpreter_flags` says in an interpreter started with `flags`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from flask_jobrunner.protocol.command import interpreter_flags\n"
        "print('\\n'.join(interpreter_flags()))"
    )
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        stderr=subprocess.DEVNULL,
        env=environ,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["-O"],
        ["-OO"],
        ["-I"],
        ["-E"],
        ["-s"],
        ["-B"],
        ["-P"],
        ["-Wignore::DeprecationWarning"],
        ["-Xfaulthandler"],
        ["-Xint_max_str_digits=5000"],
        ["-OO", "-I", "-B", "-Wignore", "-Xutf8=1"],
    ],
)
def test_the_flags_of_this_interpreter_are_kept(flags: list[str]) -> None:
    assert sorted(flags_of(*flags)) == sorted(flags)


def test_what_flags_imply_is_not_repeated() -> None:
    assert flags_of("-Xdev") == ["-Xdev"]
    assert flags_of("-b") == ["-b"]
    assert flags_of("-bb") == ["-b", "-b"]


def test_options_that_only_make_noise_are_dropped() -> None:
    assert flags_of("-X", "showrefcount", "-v") == []


def test_the_default_command_names_python_and_the_app() -> None:
    argv = command.default_command("shop:create_app")

    assert argv[0] == sys.executable
    assert argv[-4:] == ["-m", "flask_jobrunner", "--app", "shop:create_app"]


def test_the_shim_is_run_by_path_and_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = command.shim_command("{}", ["flask", "--app", "shop"])
    at = argv.index(str(command.SHIM_FOLDER))

    assert argv[1:3] == ["-I", "-S"]
    assert argv[at + 1 :] == ["{}", "--", "flask", "--app", "shop"]
    assert (command.SHIM_FOLDER / "__main__.py").is_file()


def test_the_environment_loses_what_belongs_to_the_server() -> None:
    environ = {
        "PATH": "/bin",
        "WERKZEUG_RUN_MAIN": "true",
        "WERKZEUG_SERVER_FD": "3",
        "FLASK_RUN_FROM_CLI": "true",
        "LISTEN_FDS": "1",
        "LISTEN_PID": "7",
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "WATCHDOG_USEC": "30000000",
        "SERVER_SOFTWARE": "gunicorn/27.0",
        "UWSGI_RELOADS": "0",
        "JOBRUNNER_PIPES": "3,4,5,6",
        "FLASK_APP": "shop",
        "PYTHONUTF8": "0",
    }

    assert command.child_environment(environ) == {
        "PATH": "/bin",
        "FLASK_APP": "shop",
        "PYTHONUTF8": "1",
    }


def test_a_configured_python_wins_and_must_exist(tmp_path: Path) -> None:
    other = tmp_path / "my-python"
    other.write_text("#!/bin/sh\n", encoding="utf-8")
    other.chmod(0o755)

    assert command.verified_python(str(other)) == str(other)
    with pytest.raises(ConfigError, match="not a program"):
        command.verified_python(str(tmp_path / "none"))


@pytest.mark.parametrize("name", ["uwsgi", "httpd", "pythonista", ""])
def test_a_server_with_python_inside_is_not_taken_for_python(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "executable", name and f"/usr/bin/{name}")

    found = command.verified_python()

    assert Path(found).parent == Path(sys.prefix) / "bin"


def test_a_python_that_is_gone_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python3")

    assert command.verified_python().startswith(sys.prefix)


def test_another_python_below_the_prefix_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in (("python3", "exit 1"), ("python", "echo '(2, 7, 1) /usr'")):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "python3.11").mkdir()
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    with pytest.raises(ConfigError, match="JOBRUNNER_COMMAND"):
        command.verified_python()


def test_a_python_that_does_not_start_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_bytes(b"\x7fELF nothing")
    broken.chmod(0o755)

    assert not command._is_this_python(str(broken))
