"""Two people: what is the other's is neither seen, found, counted, had, nor touched.

What one gets for it equals, byte for byte, what one gets for what is not there.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobrunner.dashboard.rendering import AS_OF_HEADER
from tests.dashboard.hosts import Host, MakeHost
from tests.safety.ground import MISSING, belongings, dump, two_people, without_clock
from tests.safety.routes import LIST, POLL, ROWS, SAME_ORIGIN, WIDGET, call, calls, with_a_job

NOTHING = "nobodyword"
WORD = "annamarked"
"""Of the same length: no answer may differ by so much as its size."""
QUERIES: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("running", SAME_ORIGIN, {}),
    ("succeeded", POLL, {"c": "0", "v": "0", "p": "0", "after_seq": "0", "before": "2"}),
    ("lost", WIDGET, {"q": WORD, "find": "next", "next": "/report"}),
    ("failed", POLL, {"kind": "input", "line": "1"}),
)


@pytest.fixture
def host(any_host: Host) -> Host:
    """A host with two people, on each database."""
    two_people(any_host)
    return any_host


def as_ben(headers: dict[str, str]) -> dict[str, str]:
    return {**headers, "X-User": "ben"}


def told(answer: Any, uuid: str) -> tuple[int, str, list[tuple[str, str]]]:
    """Everything that an answer says, but for the id and the clock."""
    told = [(name, value) for name, value in answer.headers if name not in ("Date", AS_OF_HEADER)]
    headers = [(name, value.replace(uuid, "ID")) for name, value in told]
    return answer.status_code, without_clock(answer.text).replace(uuid, "ID"), headers


def test_a_job_of_somebody_else_is_one_that_is_not_there(host: Host) -> None:
    theirs = belongings(host, "anna", WORD)
    before = dump(host)

    for status, headers, query in QUERIES:
        uuid = theirs[status]
        for one, other in zip(
            calls(host, uuid, "GET", "HEAD", "POST"),
            calls(host, MISSING, "GET", "HEAD", "POST"),
            strict=True,
        ):
            if uuid in one.path:
                seen, absent = (each.ask(host, as_ben(headers), query) for each in (one, other))
                assert told(seen, uuid) == told(absent, MISSING), (one, query)
                # A fragment or a line leads to its page, whatever the id.
                assert seen.status_code in (404, 303), (one, query)

    assert dump(host) == before


def test_what_the_application_hides_is_not_there_either(make_host: MakeHost, tmp_path: Any) -> None:
    hiding = make_host(
        authorize=lambda action, job: job is None or "hidden" not in (job.title or ""),
        JOBRUNNER_FILES_DIR=str(tmp_path / "files"),
    )
    uuid = belongings(hiding, "anna", "hidden")["running"]

    for view in sorted(with_a_job(hiding.app)):
        for method in ("GET", "POST"):
            one, other = (call(hiding.app, view, name, method) for name in (uuid, MISSING))
            seen, absent = one.ask(hiding), other.ask(hiding)
            assert told(seen, uuid) == told(absent, MISSING), one
            assert seen.status_code in (404, 405), one


@contextlib.contextmanager
def statements(host: Host) -> Iterator[list[str]]:
    """What the database is asked meanwhile."""
    found: list[str] = []

    def remember(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    engine = host.runtime.database.engine
    sa.event.listen(engine, "before_cursor_execute", remember)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", remember)


def test_the_database_is_asked_the_same_so_that_time_tells_nothing(host: Host) -> None:
    uuid = belongings(host, "anna", WORD)["running"]

    for view in sorted(with_a_job(host.app)):
        asked = []
        # The first one only opens the connection.
        for name in (MISSING, uuid, MISSING):
            with statements(host) as found:
                call(host.app, view, name).ask(host, as_ben(POLL))
            asked.append(found)
        assert asked[1] == asked[2], view


def test_nothing_of_somebody_else_is_in_any_answer(host: Host) -> None:
    theirs = belongings(host, "anna", WORD)
    mine = belongings(host, "ben", "benword")
    found = ""

    for status in ("running", "succeeded", "failed", "queued"):
        for one in calls(host, mine[status], "GET"):
            query = {
                "list_live": {"n": "0", "a": ",".join(theirs.values())},
                "job_live": {"c": "0", "v": "0"},
                "job_json": {"after_seq": "0"},
            }.get(one.view)
            answer = one.ask(host, as_ben(POLL), query)
            assert answer.status_code < 400 or answer.status_code in (404, 409), (one, status)
            text = html.unescape(answer.text) + str(answer.headers)
            for secret in (WORD, "anna", *theirs.values()):
                assert secret not in text, one
            found += answer.text
    assert "benword" in found


def test_a_search_for_what_is_somebody_else_s_finds_as_much_as_one_for_nothing(host: Host) -> None:
    theirs = belongings(host, "anna", WORD)
    belongings(host, "ben", "benword")
    lists = [view for view, row in ROWS.items() if {*LIST} <= {*row.query}]
    assert len(lists) == 5
    for name, value, other in (
        ("q", WORD, NOTHING),
        ("q", theirs["running"], MISSING),
        ("q", theirs["running"][:-4], MISSING[:-4]),
        ("type", f"{WORD}.type", f"{NOTHING}.type"),
        ("owner", "anna", "asta"),
        ("reference", f"{WORD}:reference", f"{NOTHING}:reference"),
        ("lock", f"{WORD}:running", f"{NOTHING}:running"),
        ("error", f"{WORD}Error", f"{NOTHING}Error"),
    ):
        for view in lists:
            one = call(host.app, view, MISSING)
            seen, absent = (
                one.ask(host, as_ben(POLL), {name: text, "n": "0"}) for text in (value, other)
            )
            assert told(seen, value) == told(absent, other), (view, name, value)


def test_a_type_of_somebody_else_is_one_that_is_not_there(host: Host) -> None:
    belongings(host, "anna", WORD)
    belongings(host, "ben", "benword")

    seen, absent = (
        call(host.app, "type", MISSING, job_type=f"{word}.type").ask(host, as_ben(SAME_ORIGIN))
        for word in (WORD, NOTHING)
    )

    assert told(seen, WORD) == told(absent, NOTHING)
    assert absent.status_code == 404


def test_what_one_does_to_all_is_done_to_ones_own(host: Host) -> None:
    theirs = belongings(host, "anna", WORD)
    mine = belongings(host, "ben", "benword")

    def statuses(uuids: dict[str, str]) -> list[str]:
        found = host.runtime.jobs.get_many(list(uuids.values()))
        return [found[uuid].status for uuid in uuids.values()]

    before = statuses(theirs)
    for query in ({}, {"owner": "anna"}, {"q": WORD}):
        one = call(host.app, "bulk_cancel", MISSING, "POST")
        answer = one.ask(host, as_ben(SAME_ORIGIN), query)
        assert answer.status_code == (200 if not query else 409)
        assert WORD not in answer.text.replace(f"q={WORD}", "")

    assert statuses(theirs) == before
    assert statuses(mine) != before


def test_almost_the_same_name_is_somebody_else_s(host: Host) -> None:
    for number, near in enumerate(("ben ", "Ben")):
        belongings(host, near, f"{WORD}{number}")
    mine = belongings(host, "ben", "benword")

    for one in calls(host, mine["running"], "GET"):
        answer = one.ask(host, as_ben(POLL), {"n": "0"} if one.view == "list_live" else None)
        assert WORD not in html.unescape(answer.text), one
    page = call(host.app, "index_json", MISSING).ask(host, as_ben(SAME_ORIGIN)).json
    assert sum(page["counts"].values()) == len(page["jobs"]) == len(mine)
