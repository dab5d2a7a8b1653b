"""Bytes that no row names: of processes that were killed while they wrote, or before a commit."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from flask_jobrunner.model.records import Job
from flask_jobrunner.runtime import Runtime

from .shelf import SHARDS, Shelf, is_older

log = logging.getLogger("flask_jobrunner")
UNNAMED_FOR = 86400.0
"""Seconds after which unnamed bytes of a job that does not run are nobody's: until then somebody
may be between the copy and the commit."""
AT_ONCE = 100


def clear_attempt(runtime: Runtime, job: Job) -> None:
    """Remove what an attempt had begun and not published, once its process is gone for certain.

    Never fails: the end that was just recorded matters more.
    """
    if runtime.config.files_dir is None:
        return
    try:
        shelf = Shelf(runtime.files_dir())
        mine = [one for one in shelf.entries(job.uuid) if one.name.startswith(f"o{job.attempt}-")]
        if mine:
            named = {stored.path for stored in runtime.files.of(job.id, "output")}
            shelf.drop_entries(job.uuid, [e for e in mine if shelf.name_of(e) not in named])
    except Exception:
        log.exception("What job %s had begun to write could not be removed", job.uuid)


def find_leftovers(
    runtime: Runtime, *, only_a_part: bool = False, goes_on: Callable[[], bool] = lambda: True
) -> Iterator[tuple[str, list[Path]]]:
    """Jobs with entries of theirs that nobody will name any more, and those entries.

    `only_a_part` looks at one of 256 parts, another each time: for who comes back often.
    """
    if runtime.config.files_dir is None:
        return
    shelf = Shelf(runtime.files_dir())
    for shard in [random.choice(SHARDS)] if only_a_part else SHARDS:
        uuids = shelf.uuids(shard)
        while goes_on() and (some := list(islice(uuids, AT_ONCE))):
            yield from _of_some(runtime, shelf, some)


def _of_some(runtime: Runtime, shelf: Shelf, uuids: list[str]) -> Iterator[tuple[str, list[Path]]]:
    # Before the rows: what is finished after the listing is not in it, and what was listed and is
    # named by then is spared.
    listed = {uuid: shelf.entries(uuid) for uuid in uuids}
    known = runtime.old_files.folders(uuids)
    for uuid, entries in listed.items():
        folder = known.get(uuid)
        if folder is not None and folder.may_be_written:
            continue
        names = folder.names if folder is not None else frozenset[str]()
        left = [
            entry
            for entry in entries
            if shelf.name_of(entry) not in names and is_older(entry, UNNAMED_FOR)
        ]
        if left:
            yield uuid, left
