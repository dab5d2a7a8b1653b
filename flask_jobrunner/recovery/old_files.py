"""Removing files whose time is over: their rows stay, and say when that was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask_jobrunner.files.leftovers import find_leftovers
from flask_jobrunner.files.shelf import Shelf
from flask_jobrunner.repositories.old_files import OldFile
from flask_jobrunner.runtime import Runtime

log = logging.getLogger("flask_jobrunner")
PAGE = 100


def expired(runtime: Runtime, age: float | None) -> Iterator[OldFile]:
    """Files of ended jobs that may go: past their expiry, or made `age` seconds ago."""
    after = 0
    while page := runtime.old_files.find(age, after=after, limit=PAGE):
        yield from page
        after = page[-1].id


def expire(runtime: Runtime, old: OldFile) -> bool:
    """Remove one; False: its job runs again."""
    if not runtime.old_files.bury(old):
        return False
    # Without a folder there is nothing that could be removed here; the row says that it is over.
    if runtime.config.files_dir is not None:
        with _told(old.job_uuid):
            Shelf(runtime.files_dir()).remove(old.job_uuid, old.path)
    return True


def drop(runtime: Runtime, uuid: str) -> None:
    """Remove the bytes of a job whose row is gone."""
    if runtime.config.files_dir is not None:
        with _told(uuid):
            Shelf(runtime.files_dir()).drop(uuid)


def clear_leftovers(
    runtime: Runtime, *, only_a_part: bool, goes_on: Callable[[], bool]
) -> Iterator[int]:
    """Remove bytes that no row names: how many, a job at a time."""
    shelf = Shelf(runtime.files_dir()) if runtime.config.files_dir is not None else None
    for uuid, entries in find_leftovers(runtime, only_a_part=only_a_part, goes_on=goes_on):
        if shelf is None:
            return
        with _told(uuid):
            shelf.drop_entries(uuid, entries)
            yield len(entries)


@contextmanager
def _told(uuid: str) -> Iterator[None]:
    """One folder that cannot be changed keeps nobody from the others: it is tried again later."""
    try:
        yield
    except OSError:
        log.exception("Files of job %s could not be removed", uuid)
