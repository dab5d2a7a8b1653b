"""`demo.import_csv`: from an uploaded file to clean rows in a table, and to the counts of them."""

from __future__ import annotations

import csv
import datetime as dt
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flask import url_for
from sqlalchemy import delete, insert

from demo_app import strikes, uploads
from demo_app.extensions import db, jobs
from demo_app.models import Import, Strike
from demo_app.summary import Tally
from flask_jobrunner import JobCancelled, JobContext

INPUT = "strikes.csv"
"""What `files=` of the start calls the file to import."""
LEFT_OUT = "left-out.csv"
STEPS = ("read", "validate", "clean", "aggregate", "store")
BATCH = 500
REST_EVERY = 250
MAX_WARNINGS = 100


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """Which import, and how long to rest now and then, so that one can watch."""

    import_id: int
    rest: float

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any] | None) -> ImportRequest:
        """Raises `ValueError` for a payload without an import's id; rests at most 2 s."""
        values = payload or {}
        import_id, rest = values.get("import_id"), values.get("rest", 0)
        if not isinstance(import_id, int) or import_id < 1:
            raise ValueError("import_id is the id of an import")
        if not isinstance(rest, int | float) or not 0 <= rest <= 2:
            raise ValueError("rest is 0 to 2 seconds")
        return cls(import_id, float(rest))


@jobs.handler(
    "demo.import_csv",
    title="Import wildlife strikes",
    payload=ImportRequest.from_payload,
    run_budget=900,
)
class ImportCsv:
    """Five steps; each shows its progress and stops when the job is cancelled.

    Rows that are not good enough to keep are left behind in a file, to be mended.
    """

    def run(self, ctx: JobContext) -> dict[str, Any]:
        """Import the file; return its counts. Raises `LookupError` for an unknown import."""
        file_name = _file_name(ctx)
        header, rows = self._read(ctx)
        problems = Problems(ctx)
        good = self._validate(ctx, header, rows, problems)
        clean = self._clean(ctx, header, good)
        summary = self._aggregate(ctx, clean)
        self._store(ctx, clean)
        with ctx.request_context():
            page = url_for("demo.show_import", import_id=ctx.payload.import_id, _external=True)
        ctx.info(f"Imported {len(clean):,} of {len(rows):,} rows; the result is at {page}")
        return {
            "file": file_name,
            "rows": {"read": len(rows), "stored": len(clean), "left_out": len(rows) - len(clean)},
            "problems": problems.counted(),
            **summary,
            "page": page,
        }

    def _read(self, ctx: JobContext) -> tuple[list[str], list[strikes.Row]]:
        _step(ctx, "read", "Read the file")
        header, rows = strikes.read(uploads.decoded(ctx.file(INPUT).read_bytes()))
        found = list(rows)
        ctx.info(f"Read {len(found):,} rows of {len(header)} columns")
        unused = [name for name in header if name not in strikes.COLUMNS]
        if unused:
            ctx.info(f"Not used: {', '.join(unused)}")
        return header, found

    def _validate(
        self, ctx: JobContext, header: list[str], rows: list[strikes.Row], problems: Problems
    ) -> list[strikes.Row]:
        _step(ctx, "validate", "Check every row")
        judge = strikes.Judge(header, today=dt.datetime.now(dt.UTC).date())
        good, left_out = [], []
        for number, row in enumerate(ctx.track(rows, "rows checked"), start=1):
            findings = judge.findings(row)
            problems.add(row.number, findings)
            fatal = next((finding for finding in findings if finding.fatal), None)
            if fatal is None:
                good.append(row)
            else:
                left_out.append((row, fatal))
            if number % REST_EVERY == 0:
                time.sleep(ctx.payload.rest)
        problems.close()
        if left_out:
            _write_left_out(ctx, header, left_out)
        ctx.info(f"{len(good):,} rows are good enough to keep")
        return good

    def _clean(
        self, ctx: JobContext, header: list[str], rows: list[strikes.Row]
    ) -> list[strikes.CleanStrike]:
        _step(ctx, "clean", "Clean names and numbers")
        return [
            strikes.clean(dict(zip(header, row.values, strict=True)), row.number)
            for row in ctx.track(rows, "rows cleaned")
        ]

    def _aggregate(self, ctx: JobContext, clean: list[strikes.CleanStrike]) -> dict[str, Any]:
        _step(ctx, "aggregate", "Count")
        tally = Tally()
        for strike in ctx.track(clean, "rows counted"):
            tally.add(strike)
        return {**tally.summary()}

    def _store(self, ctx: JobContext, clean: list[strikes.CleanStrike]) -> None:
        _step(ctx, "store", "Store the clean rows")
        import_id: int = ctx.payload.import_id
        # An earlier attempt may have died half-way.
        _forget_rows(import_id)
        try:
            for start in range(0, len(clean), BATCH):
                ctx.raise_if_cancelled()
                batch = clean[start : start + BATCH]
                db.session.execute(
                    insert(Strike), [{"import_id": import_id, **asdict(row)} for row in batch]
                )
                db.session.commit()
                ctx.progress(start + len(batch), len(clean), "rows stored")
                time.sleep(ctx.payload.rest)
        except JobCancelled:
            _forget_rows(import_id)
            ctx.info("Removed the rows that were stored already")
            raise


class Problems:
    """Counts what is wrong with the rows, and writes the first `MAX_WARNINGS` of them down."""

    def __init__(self, ctx: JobContext) -> None:
        self._ctx = ctx
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, row: int, findings: Iterable[strikes.Finding]) -> None:
        """Take on what was found in one row."""
        for finding in findings:
            if self._counts.total() < MAX_WARNINGS:
                detail = f" ({finding.value})" if finding.value else ""
                self._ctx.warning(f"Row {row:,}: {finding.rule}{detail}; {finding.effect}", row=row)
            self._counts[finding.rule, finding.effect] += 1

    def close(self) -> None:
        """Say how many problems there were, once all rows are judged."""
        unwritten = self._counts.total() - MAX_WARNINGS
        if unwritten > 0:
            self._ctx.warning(f"{unwritten:,} more problems are not listed one by one")
        for problem in self.counted():
            rows = "row" if problem["rows"] == 1 else "rows"
            self._ctx.info(f"{problem['rows']:,} {rows}: {problem['rule']}; {problem['effect']}")

    def counted(self) -> list[dict[str, Any]]:
        """Each kind of problem with its number of rows, most frequent first."""
        return [
            {"rule": rule, "effect": effect, "rows": rows}
            for (rule, effect), rows in self._counts.most_common()
        ]


def _write_left_out(
    ctx: JobContext, header: list[str], left_out: list[tuple[strikes.Row, strikes.Finding]]
) -> None:
    with ctx.artifact(LEFT_OUT, encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["Row", "Problem", *header])
        for row, finding in left_out:
            table.writerow([row.number, finding.rule, *row.values])
    ctx.info(f"The rows that were left out are in {LEFT_OUT}")


def _file_name(ctx: JobContext) -> str:
    upload = db.session.get(Import, ctx.payload.import_id)
    if upload is None:
        raise LookupError(f"there is no import {ctx.payload.import_id}")
    file_name = upload.file_name
    # The read's transaction would otherwise stay open for as long as the job runs.
    db.session.rollback()
    return file_name


def _step(ctx: JobContext, key: str, label: str) -> None:
    ctx.set_step(key, label, STEPS.index(key) + 1, len(STEPS))


def _forget_rows(import_id: int) -> None:
    db.session.execute(delete(Strike).where(Strike.import_id == import_id))
    db.session.commit()
