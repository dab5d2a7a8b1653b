"""The folder for files: whether it can be written to, and who else gets at what is in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from flask import Flask

from flask_jobrunner.runtime import Runtime

from .findings import Finding, fine, problem, warning

KEY = "JOBRUNNER_FILES_DIR"


def examine(runtime: Runtime) -> Iterator[Finding]:
    """Nothing, where the application has no such folder."""
    if runtime.config.files_dir is None:
        return
    folder = runtime.files_dir()
    served = _served_by(runtime.app, folder)
    fault = _fault_of(folder)
    if served is not None:
        yield problem(
            "Files",
            f"{folder} is within {served}, from which the application sends files to everybody.",
            f"Set {KEY} to a folder that no web server serves, and move what is there.",
        )
    if fault is not None:
        yield problem(
            "Files",
            f"{folder} {fault}.",
            f"Set {KEY} to a folder that web servers, supervisors and jobs can write to.",
        )
    elif folder.exists() and stat.S_IMODE(folder.stat().st_mode) & stat.S_IRWXO:
        yield warning(
            "Files",
            f"{folder} is open to every user of this machine, and so are the files in it.",
            "Take the rights of others away (chmod o= …); files that are there keep theirs.",
        )
    elif served is None:
        yield fine("Files", str(folder))


def _served_by(app: Flask, folder: Path) -> Path | None:
    """The static folder that the folder is in."""
    places = (app.static_folder, *(one.static_folder for one in app.blueprints.values()))
    for place in places:
        if place is not None and folder.resolve().is_relative_to(Path(place).resolve()):
            return Path(place)
    return None


def _fault_of(folder: Path) -> str | None:
    """What keeps files from it, as the rest of a sentence; it is made with the first file."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        above = next(one for one in folder.absolute().parents if one.exists())
        return None if _is_writable(above) else f"is not there, and cannot be made in {above}"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    return None if _is_writable(folder) else "cannot be written to"


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
