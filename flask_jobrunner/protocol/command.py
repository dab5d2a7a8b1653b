"""The command lines and the environment of the processes that this package starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from flask_jobrunner.model.errors import ConfigError

SHIM_FOLDER = Path(__file__).resolve().parent.parent / "shim"
PIPES_VARIABLE = "JOBRUNNER_PIPES"
PROBE_TIMEOUT = 20.0

_LOOKS_LIKE_PYTHON = re.compile(r"(python|pypy)[0-9.]*(t|d|w)?(\.exe)?\Z", re.IGNORECASE)
# What belongs to one process: a child of a debug server must not think that it is the reloader,
# nor one of a service that it may speak for it or that its sockets are open.
_DROPPED_PREFIXES = ("WERKZEUG_",)
_DROPPED = frozenset(
    {
        "FLASK_RUN_FROM_CLI",
        "LISTEN_FDNAMES",
        "LISTEN_FDS",
        "LISTEN_PID",
        "NOTIFY_SOCKET",
        "SERVER_SOFTWARE",
        "UWSGI_ORIGINAL_PROC_NAME",
        "UWSGI_RELOADS",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        PIPES_VARIABLE,
    }
)
# Switches that change what code means or what it finds; -i and -v would only make noise.
_SWITCHES = (
    ("debug", "-d"),
    ("dont_write_bytecode", "-B"),
    ("no_user_site", "-s"),
    ("no_site", "-S"),
    ("ignore_environment", "-E"),
    ("bytes_warning", "-b"),
    ("safe_path", "-P"),
)
_NOISY_X_OPTIONS = frozenset({"importtime", "showrefcount"})


def default_command(app_path: str, python: str | None = None) -> list[str]:
    """The argv to which `jobs run UUID` is appended when JOBRUNNER_COMMAND is not set.

    `app_path` is what `flask --app` takes; `python` a configured interpreter. Raises
    `ConfigError` when no interpreter can be found.
    """
    return [
        verified_python(python),
        *interpreter_flags(),
        "-m",
        "flask_jobrunner",
        "--app",
        app_path,
    ]


def shim_command(settings: str, command: Sequence[str], python: str | None = None) -> list[str]:
    """The argv of the process that starts and watches `command`; `settings` is its JSON."""
    flags = ["-I", "-S"]
    if sys.flags.dont_write_bytecode:
        flags.append("-B")  # -I hides PYTHONDONTWRITEBYTECODE
    return [verified_python(python), *flags, str(SHIM_FOLDER), settings, "--", *command]


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a job's process inherits of `environ`: all but what belongs to the server."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    }
    # Under LC_ALL=POSIX a handler's print would otherwise be limited to ASCII.
    kept["PYTHONUTF8"] = "1"
    return kept


def verified_python(configured: str | None = None) -> str:
    """The interpreter to start children with.

    A configured path wins and must exist. Else it is `sys.executable`, unless that is a server
    with Python inside (uWSGI, Apache): then the first Python below `sys.prefix` that answers
    with this very version and prefix. Raises `ConfigError` when there is none.
    """
    if configured is not None:
        if not _is_program(configured):
            raise ConfigError(f"The configured Python, {configured}, is not a program.")
        return configured
    executable = sys.executable
    if executable and _LOOKS_LIKE_PYTHON.match(Path(executable).name) and _is_program(executable):
        return executable
    return _python_below(sys.prefix, executable or "nothing")


def interpreter_flags() -> list[str]:
    """The options this interpreter was started with, so that a child behaves the same."""
    flags = _optimisation()
    if sys.flags.isolated:
        flags.append("-I")
    # -I implies these three, and repeating them would only make the command line longer.
    implied = {"-E", "-s", "-P"} if sys.flags.isolated else set()
    flags += [
        option
        for name, option in _SWITCHES
        for _ in range(int(getattr(sys.flags, name, 0)))
        if option not in implied
    ]
    flags += [f"-W{option}" for option in _own_warnings(sys.warnoptions)]
    flags += [f"-X{option}" for option in _x_options()]
    return flags


def _optimisation() -> list[str]:
    return ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []


def _own_warnings(options: Iterable[str]) -> Iterator[str]:
    # Development mode and -b add entries by themselves: given again they would count as ours.
    implied = []
    if sys.flags.dev_mode:
        implied.append("default")
    if sys.flags.bytes_warning:
        implied.append(
            "error::BytesWarning" if sys.flags.bytes_warning > 1 else "default::BytesWarning"
        )
    for option in options:
        if option in implied:
            implied.remove(option)
        else:
            yield option


def _x_options() -> Iterator[str]:
    options: Mapping[str, str | bool] = getattr(sys, "_xoptions", {})
    for name, value in options.items():
        if name not in _NOISY_X_OPTIONS:
            yield name if value is True else f"{name}={value}"


@lru_cache(maxsize=4)
def _python_below(prefix: str, executable: str) -> str:
    major, minor = sys.version_info[:2]
    folder = Path(prefix) / ("Scripts" if os.name == "nt" else "bin")
    names = (f"python{major}.{minor}", f"python{major}", "python", "python.exe")
    for path in [*(folder / name for name in names), Path(prefix) / "python.exe"]:
        if _is_program(str(path)) and _is_this_python(str(path)):
            return str(path)
    raise ConfigError(
        f"This process runs inside {executable}, which is no Python, and {folder} holds none "
        "either. Set JOBRUNNER_COMMAND to the command of this environment, such as "
        "['/srv/venv/bin/flask', '--app', 'shop'], and start the server from that environment."
    )


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)


def _is_this_python(path: str) -> bool:
    code = "import sys; print(sys.version_info[:3], sys.prefix)"
    try:
        answer = subprocess.run(
            [path, "-I", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return os.fsdecode(answer).strip() == f"{tuple(sys.version_info[:3])} {sys.prefix}"
