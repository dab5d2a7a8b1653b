"""The counts, and the shipped file that they are shown with."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from pathlib import Path

from demo_app import strikes, summary, uploads

DATA = Path(strikes.__file__).parent / "data"


def test_no_strikes_make_an_empty_summary() -> None:
    counts = summary.Tally().summary()

    assert counts["dates"] == {"first": None, "last": None}
    assert counts["cost"] == {"total_usd": 0, "strikes_with_cost": 0, "largest_usd": 0}
    assert counts["top_species"] == []


def test_the_shipped_file_is_as_published() -> None:
    digest, name = (DATA / "birdstrikes.csv.sha256").read_text().split()

    assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest
    assert digest in (DATA / "birdstrikes.csv.sha256").read_text()
    assert name in (DATA / "SOURCE.md").read_text()


def test_the_shipped_file_shows_what_the_rules_say() -> None:
    header, rows = strikes.read(uploads.decoded((DATA / "birdstrikes.csv").read_bytes()))
    judge = strikes.Judge(header, today=dt.date(2026, 1, 1))
    tally = summary.Tally()
    found: Counter[tuple[str, str]] = Counter()
    read = 0
    for row in rows:
        read += 1
        findings = judge.findings(row)
        found.update((finding.rule, finding.effect) for finding in findings)
        if not any(finding.fatal for finding in findings):
            tally.add(strikes.clean(judge.cells(row), row.number))

    assert read == 10_000
    assert found == {
        ("no damage, but repairs were paid", "kept as it is"): 27,
        ("the same as an earlier row", "row left out"): 24,
        ("an unknown grade of damage", "cell emptied"): 15,
        ("0 knots in the air", "cell emptied"): 8,
    }
    counts = tally.summary()
    assert counts["dates"] == {"first": "1990-01-08", "last": "2002-07-25"}
    assert counts["top_species"][0] == {"name": "Unknown bird - small", "strikes": 3567}
    assert sum(year["strikes"] for year in counts["by_year"]) == 9976
    assert counts["by_damage"][-1] == {"name": "not known", "strikes": 15}
