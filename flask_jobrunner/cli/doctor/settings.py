"""Settings, the dashboard's place and its door, and the folder for reports."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flask import Flask

from flask_jobrunner.cli.output import count
from flask_jobrunner.config import load_config
from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.recovery import spool
from flask_jobrunner.repositories.place import network_filesystem
from flask_jobrunner.runtime import Runtime

from .findings import Finding, fine, problem, warning

HOOK = """Without one every page answers 403 in production. Add to the application:
@jobs.authorize
def may(action, job):
    return current_user.is_authenticated and current_user.is_admin"""


def examine(runtime: Runtime) -> Iterator[Finding]:
    """What is set, and what that means."""
    yield from _keys(runtime)
    if runtime.is_tested:
        yield warning(
            "Mode",
            f"JOBRUNNER_MODE is {runtime.config.mode!r}: no job gets a process of its own.",
            "It is for an application's tests. Remove the setting elsewhere.",
        )
    revision = runtime.config.revision
    yield fine(
        "Revision",
        f"{revision}: other revisions' jobs are not run."
        if revision
        else "Not set: a job is run by whatever code is there.",
    )
    yield from _dashboard(runtime)
    yield from _spool(runtime)


def _keys(runtime: Runtime) -> Iterator[Finding]:
    try:
        config, unknown = load_config(runtime.app.config)
    except ConfigError as error:
        yield problem("Settings", str(error), configuration=True)
        return
    for sentence in unknown:
        yield warning("Settings", sentence, "Correct the key, or remove it.")
    if config != runtime.config:
        yield warning(
            "Settings",
            "A JOBRUNNER_ key was changed after init_app, which has no effect.",
            "Set all of them before jobs.init_app(app).",
        )
    if not unknown and config == runtime.config:
        yield fine("Settings", "Every JOBRUNNER_ key is known and valid.")


def _dashboard(runtime: Runtime) -> Iterator[Finding]:
    prefix = runtime.config.url_prefix
    if prefix is None:
        yield fine("Dashboard", "Off: JOBRUNNER_URL_PREFIX is None.")
        return
    taken = _collisions(runtime.app, prefix)
    if taken:
        yield problem(
            "Dashboard",
            f"The application has rules of its own below {prefix}: {', '.join(taken)}.",
            "Set JOBRUNNER_URL_PREFIX to another place.",
        )
    if runtime.hooks.authorize is None:
        yield warning("Access", "No @jobs.authorize hook is registered.", HOOK)
    if not taken and runtime.hooks.authorize is not None:
        yield fine("Dashboard", f"At {prefix}, behind the application's access hook.")


def _collisions(app: Flask, prefix: str) -> list[str]:
    """The host's rules at or below `prefix`: some may have come after init_app looked."""
    return sorted(
        {
            rule.rule
            for rule in app.url_map.iter_rules()
            if (rule.rule == prefix or rule.rule.startswith(f"{prefix}/"))
            and not _is_ours(app, rule.endpoint)
        }
    )


def _is_ours(app: Flask, endpoint: str) -> bool:
    blueprint = app.blueprints.get(endpoint.rpartition(".")[0])
    return blueprint is not None and blueprint.import_name == "flask_jobrunner"


def _spool(runtime: Runtime) -> Iterator[Finding]:
    folder = runtime.spool_dir()
    fault = _fault_of(folder)
    if fault is not None:
        yield warning(
            "Spool",
            f"{folder} {fault}.",
            "Set JOBRUNNER_SPOOL_DIR to a folder that only the application's user can use. A "
            "report that cannot be recorded waits there.",
        )
        return
    network = network_filesystem(str(folder))
    if network is not None:
        yield warning(
            "Spool",
            f"{folder} is on a network file system ({network}), which may be away just when the "
            "database is.",
            "Set JOBRUNNER_SPOOL_DIR to a folder on a local disk.",
        )
    waiting = sum(1 for _ in spool.waiting(runtime))
    if waiting:
        yield warning(
            "Spool",
            f"{count(waiting, 'report')} waiting in {folder}.",
            "Run `flask jobs sweep`, better from a timer.",
        )
    if not network and not waiting:
        yield fine("Spool", str(folder))


def _fault_of(folder: Path) -> str | None:
    """What is wrong with the folder, as the rest of a sentence; it is made at the first start."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        above = next(one for one in folder.absolute().parents if one.exists())
        return None if os.access(above, os.W_OK | os.X_OK) else f"cannot be made in {above}"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written to"
    if status.st_uid != os.getuid() and os.getuid() != 0:
        return "belongs to another user"
    return "can be read by others" if stat.S_IMODE(status.st_mode) & 0o077 else None
