"""Searching a log: the same lines on every database, page by page, and not for ever."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.model.records import NewLine
from flask_jobrunner.repositories import logs
from flask_jobrunner.repositories.line_filter import Found, LineFilter
from tests.helpers.stores import Store, claim

LINES = (
    NewLine("one plain line"),
    NewLine("100% of FOO_bar done", level="warning"),
    NewLine("100 % of FOObar done", stream="stdout"),
    NewLine("a/b\\c 'quoted'", level="error", stream="stderr"),
    NewLine("Über die Brücke, STRASSE"),
    NewLine("\x1b[31mred\x1b[0m and \x1b[1mbo\x1b[22mld", stream="stdout"),
    NewLine("日本語 ?", level="debug"),
    NewLine("the last LINE", level="error"),
)


def log_of(store: Store, lines: list[NewLine]) -> int:
    won = claim(store)
    for first in range(0, len(lines), 400):
        assert store.ownership.beat(won.fence, lines=lines[first : first + 400], last_seq=first)
    return won.fence.job_id


def search(store: Store, job_id: int, wanted: LineFilter, **how: Any) -> Found:
    how = {"after": 0, "until": 500, "limit": 100, "seconds": 60.0} | how
    return store.logs.search(job_id, wanted, **how)


def numbers(found: Found) -> list[int]:
    return [line.seq for line in found.lines]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LINE", [1, 8]),
        ("100%", [2]),
        ("foo_b", [2]),
        ("a/b\\C", [4]),
        ("'QUOTED'", [4]),
        ("über", [5]),
        ("ÜBER DIE BRÜCKE", [5]),
        ("red and BOLD", [6]),
        ("[31m", []),
        ("日本", [7]),
        ("日本人", []),
        ("?", [7]),
        ("nothing of this", []),
    ],
)
def test_a_text_is_found_as_people_see_it(store: Store, text: str, found: list[int]) -> None:
    job_id = log_of(store, list(LINES))
    log_of(store, list(LINES))

    assert numbers(search(store, job_id, LineFilter(text=text))) == found
    assert numbers(search(store, job_id, LineFilter(text=text), backwards=True)) == found


def test_level_stream_and_attempt(store: Store) -> None:
    job_id = log_of(store, list(LINES))
    table = store.database.tables.logs
    store.database.run(
        lambda c: c.execute(sa.update(table).where(table.c.seq > 6).values(attempt=2))
    )

    assert numbers(search(store, job_id, LineFilter(levels=("warning", "error")))) == [2, 4, 8]
    assert numbers(search(store, job_id, LineFilter(stream="stdout"))) == [3, 6]
    assert numbers(search(store, job_id, LineFilter(stream=""))) == [1, 2, 5, 7, 8]
    assert numbers(search(store, job_id, LineFilter(attempt=2))) == [7, 8]
    both = LineFilter(text="line", levels=("error",), stream="", attempt=2)
    assert numbers(search(store, job_id, both)) == [8]


def test_pages_join_without_a_gap_in_both_directions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEARCH_PAGE", 7)
    job_id = log_of(store, [NewLine(f"{'odd' if n % 2 else 'even'} {n}") for n in range(1, 101)])
    odd = LineFilter(text="ODD")

    assert numbers(search(store, job_id, odd)) == list(range(1, 101, 2))
    assert numbers(search(store, job_id, odd, backwards=True)) == list(range(1, 101, 2))
    assert numbers(search(store, job_id, odd, after=21, until=29)) == [23, 25, 27, 29]
    assert numbers(search(store, job_id, odd, after=21, limit=3)) == [23, 25, 27]
    assert numbers(search(store, job_id, odd, until=50, limit=3, backwards=True)) == [45, 47, 49]


def test_false_candidates_hide_no_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every coloured line is a candidate: a full fetch of them is not the end of a page."""
    monkeypatch.setattr(logs, "_FETCHED_AT_LEAST", 3)
    lines = [NewLine(f"\x1b[1m{n}\x1b[0m") for n in range(1, 30)] + [NewLine("needle")]
    job_id = log_of(store, lines)

    assert numbers(search(store, job_id, LineFilter(text="needle"), limit=1)) == [30]
    assert numbers(search(store, job_id, LineFilter(text="29"), limit=1)) == [29]
    back = search(store, job_id, LineFilter(text="1"), limit=2, until=10, backwards=True)
    assert numbers(back) == [1, 10]


def test_a_search_ends_with_its_time_and_says_where_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEARCH_PAGE", 10)
    job_id = log_of(store, [NewLine(f"line {n}") for n in range(1, 36)])
    last, first = LineFilter(text="line 35"), LineFilter(text="line 1")

    found = search(store, job_id, last, until=35, limit=1, seconds=0)
    assert (numbers(found), found.left) == ([], (10, 35))
    back = search(store, job_id, LineFilter(text="no such"), until=35, seconds=0, backwards=True)
    assert back.left == (0, 25)

    steps = 0
    while found.left is not None:
        after, until = found.left
        found = search(store, job_id, last, after=after, until=until, limit=1, seconds=0)
        steps += 1
    assert (numbers(found), steps) == ([35], 3)
    assert search(store, job_id, first, limit=1, seconds=0).left is None


def test_lines_that_were_removed_cost_nothing(store: Store) -> None:
    job_id = log_of(store, [NewLine(f"line {n}") for n in range(1, 21)])
    table = store.database.tables.logs
    assert store.logs.first(job_id) == 1
    store.database.run(lambda c: c.execute(sa.delete(table).where(table.c.seq < 15)))

    assert store.logs.first(job_id) == 15
    assert numbers(search(store, job_id, LineFilter(text="line"), limit=2)) == [15, 16]
    assert store.logs.first(10**9) == 0
    assert numbers(search(store, 10**9, LineFilter(text="line"))) == []


def test_texts_are_those_that_were_stored(store: Store) -> None:
    job_id = log_of(store, list(LINES))

    assert store.logs.texts(job_id, 0, 100, 100) == [
        (number, line.message) for number, line in enumerate(LINES, 1)
    ]
    assert [seq for seq, _ in store.logs.texts(job_id, 2, 6, 3)] == [3, 4, 5]
    assert [seq for seq, _ in store.logs.texts(job_id, 5, 6, 3)] == [6]


def test_a_search_reads_by_the_index(store: Store) -> None:
    job_id = log_of(store, [NewLine(f"line {n}") for n in range(1, 401)])
    statement = store.logs._candidates(job_id, LineFilter(text="x"), (1, 20), backwards=False)

    explain = "EXPLAIN QUERY PLAN" if store.database.dialect == "sqlite" else "EXPLAIN"
    text = str(statement.compile(store.database.engine, compile_kwargs={"literal_binds": True}))
    if store.database.dialect != "sqlite":
        text = text.replace("%%", "%")
    asked = sa.text(f"{explain} {text}".replace(":", r"\:"))
    plan = str(store.database.read(lambda c: [tuple(row) for row in c.execute(asked)]))

    by_index = {"sqlite": "(job_id=? AND seq>? AND seq<?)"}
    assert by_index.get(store.database.dialect, "uq_jobrun_logs_seq") in plan, plan
