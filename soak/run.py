"""One soak from its folder to its verdict."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from soak.app import DATABASE, FOLDER, LEASE, SLOTS, create_app, db, jobs
from soak.crew import Crew, flask_jobs
from soak.evidence import Evidence, gather
from soak.judge import Violation, judge, judge_pruned
from soak.nemesis import Nemesis
from soak.place import Place, place
from tests.helpers.hosts import end_processes

PATIENCE = 180.0
"""Seconds after which everything must have ended once nothing is done to it any more."""
MARK = "SOAK_MARK"
ROOT = Path(__file__).parents[1]


@dataclass
class Report:
    """What a soak has to say."""

    database: str
    seed: int
    folder: Path
    seconds: float = 0.0
    settled: float = 0.0
    seen: Evidence = field(default_factory=Evidence)
    pruned: int = 0
    blows: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)


def soak(database: str, minutes: float, seed: int, submitters: int = 3) -> Report:
    """Run it; the folder is the caller's to remove."""
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{database}-"))
    report = Report(database, seed, folder)
    begun = time.monotonic()
    with place(database, folder) as there, _environment(there, folder) as mark:
        crew = Crew(folder, mark, seed, submitters)
        nemesis = Nemesis(crew, there, random.Random(seed))
        app = create_app()
        with app.app_context():
            db.create_all()
        try:
            crew.begin()
            while time.monotonic() < begun + minutes * 60:
                nemesis.act()
                crew.keep_up()
                time.sleep(0.2)
            nemesis.relent()
            crew.stop_submitting()
            report.settled = _settle(crew)
            crew.end()
            gone = crew.gone()
            report.seen = gather(
                folder, there.url, bystanders_gone=gone, crowds=crew.crowds, slots=SLOTS
            )
            report.violations = judge(report.seen)
            _prune(report, there)
        finally:
            nemesis.relent()
            crew.end()
            crew.gone()
            end_processes(mark)
            app.extensions["jobrunner"].database.engine.dispose()
    report.blows, report.seconds = nemesis.done, time.monotonic() - begun
    return report


def _settle(crew: Crew) -> float:
    """Seconds until nothing was active any more, or all of `PATIENCE`; restarts included."""
    begun, quiet = time.monotonic(), None
    app = create_app()
    while time.monotonic() < begun + PATIENCE:
        crew.keep_up()
        with app.app_context():
            active = jobs.find(status=["queued", "running", "cancel_requested"], limit=1).jobs
        # An interrupted job may be run again by the next sweep.
        quiet = None if active else quiet or time.monotonic()
        if quiet is not None and time.monotonic() > quiet + 2 * LEASE:
            break
        time.sleep(0.5)
    app.extensions["jobrunner"].database.engine.dispose()
    return time.monotonic() - begun


def _prune(report: Report, there: Place) -> None:
    """Two at once, as two timers on two machines."""
    both = [
        subprocess.Popen(
            flask_jobs("prune", "--jobs", "1s"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # each says what the other had taken already
        )
        for _ in range(2)
    ]
    codes = [one.wait(120) for one in both]
    after = gather(report.folder, there.url)
    report.pruned = len(report.seen.jobs) - len(after.jobs)
    report.violations += judge_pruned(report.seen, after)
    if any(codes):
        report.violations.append(Violation("I20", "-", f"prune exited with {codes}"))


@contextmanager
def _environment(there: Place, folder: Path) -> Iterator[str]:
    """What every process of this soak needs to know."""
    mark = f"{MARK}-{uuid.uuid4().hex}"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    ours = {DATABASE: there.url, FOLDER: str(folder), MARK: mark, "PYTHONPATH": path}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield mark
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
