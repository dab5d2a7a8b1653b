"""`make soak`: everything at once for some minutes, then a judge over what is left.

Submitters, supervisors, sweepers and a reader work on one database while a nemesis kills, stops and
deploys them and takes the database away. Exits 1 when something happened that must never happen.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
from collections import Counter

from soak.judge import CHECKS, ELSEWHERE
from soak.run import Report, soak


def main() -> int:
    """Run one soak and print what it found."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--database", default="sqlite", choices=("sqlite", "postgresql", "mariadb"))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", action="store_true", help="Keep the folder in any case.")
    options = parser.parse_args()
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through what ends the processes
    print(f"{options.database}, {options.minutes:g} min, seed {seed}", flush=True)
    report = soak(options.database, options.minutes, seed)
    print(summary(report))
    if report.violations or options.keep:
        print(f"kept in {report.folder}: history.jsonl, ledger.jsonl, *.log")
    else:
        shutil.rmtree(report.folder)
    return 1 if report.violations else 0


def summary(report: Report) -> str:
    """A table in plain text."""
    seen = report.seen
    calls = Counter(one["answer"] for one in seen.answers(*CALLS))
    begun = sum("begin" in one and one["call"] in CALLS for one in seen.history)
    rows = [
        ("database", report.database),
        ("seed", report.seed),
        ("duration", f"{report.seconds:.0f} s, of which {report.settled:.0f} s to settle"),
        ("jobs", _counts(Counter(row["status"] for row in seen.jobs))),
        ("reasons", _counts(Counter(r["error_reason_code"] or "none" for r in seen.jobs))),
        ("handlers started", len(seen.noted("start"))),
        ("trouble", _counts(report.blows)),
        ("calls", f"{_counts(calls)}, cut off {begun - calls.total()}"),
        ("log lines", len(seen.logs)),
        ("removed by prune", report.pruned),
        ("checked", ", ".join(CHECKS)),
        *((f"elsewhere {name}", where) for name, where in ELSEWHERE.items()),
        ("violations", len(report.violations)),
    ]
    lines = [f"{name:<24} {value}" for name, value in rows]
    where = f"in {report.folder}: grep it in history.jsonl and ledger.jsonl"
    lines += [f"{one.invariant}: job {one.job}: {one.text} ({where})" for one in report.violations]
    return "\n".join(lines)


CALLS = ("start", "enqueue", "cancel", "force", "requeue", "read")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counter.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main())
