"""No address, parameter or header breaks a page, and each answer is bounded."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines
from tests.safety.ground import belongings
from tests.safety.routes import POLL, ROWS, WIDGET, call, rules

EXPECTED = {200, 204, 206, 303, 304, 308, 400, 404, 405, 409, 410, 413, 414, 416, 422}
LARGEST = 2_000_000
"""Bytes; what a page of long lines may have."""
EDGES = ("-1", "\x00", "\ud800", str(10**18), str(2**63 - 2), str(2**63 - 1), "n" + "9" * 18)
NASTY = (
    *EDGES,
    "0",
    "1",
    "NaN",
    "Infinity",
    "1e999",
    str(10**18 - 1),
    str(2**63),
    "9" * 19,
    "9" * 400,
    "a\x00b",
    "%",
    "_",
    "\\",
    "%%%%",
    "' OR 1=1 --",
    '");DROP TABLE jobrun_jobs;--',
    "id desc",
    "\U0001f4a9",
    "\u202e",
    "١٢٣",
    "n",
    "n1",
    "running",
    "next",
    "//evil.example",
)
NAMES = sorted({name for row in ROWS.values() for name in row.query} | {"page", "sort", "days"})
VALUES = st.sampled_from(NASTY) | st.text(max_size=40) | st.integers().map(str)
ASKED = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5)
HEADERS = st.sampled_from([{}, POLL, WIDGET]).flatmap(
    lambda first: st.dictionaries(
        st.sampled_from(["If-None-Match", "Range", "Cookie", "Accept", "Referer"]),
        st.sampled_from(
            ["*", "bytes=-1", "bytes=9-1,1-", "jobrunner_prefs=poll%3D%C2%B2", '"', "é"]
        ),
        max_size=2,
    ).map(lambda more: {**first, **more})
)


def encoded(text: str) -> str:
    """As it stands in an address, whatever it is."""
    return quote(text.encode("utf-8", "surrogatepass"))


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(view=st.sampled_from(sorted(ROWS)), asked=ASKED, headers=HEADERS, text=VALUES)
def test_whatever_is_asked_the_answer_is_one_that_was_thought_of(
    any_host: Host, view: str, asked: list[tuple[str, str]], headers: dict[str, str], text: str
) -> None:
    uuid = any_host.app.extensions.setdefault("fuzzed", None) or seed(any_host)
    query = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in asked)
    one = call(any_host.app, view, uuid, name=encoded(text), job_type=encoded(text))
    answer = one.ask(any_host, headers, query)
    assert answer.status_code in EXPECTED, (one, query, headers)
    assert len(answer.data) < LARGEST, (one, query)
    # Two slashes in a path are made one by the framework, on the same site.
    assert urlsplit(answer.headers.get("Location", "")).netloc in ("", "localhost"), one


def seed(host: Host) -> str:
    """Something to find, once."""
    uuid: str = belongings(host, "anna", "anna")["running"]
    host.app.extensions["fuzzed"] = uuid
    return uuid


@pytest.mark.parametrize("value", EDGES)
def test_each_parameter_at_each_edge_twice(host: Host, value: str) -> None:
    uuid = belongings(host, "anna", "anna")["failed"]

    for view, row in ROWS.items():
        for name in row.query:
            query = f"{name}={encoded(value)}&{name}={encoded(value)}"
            answer = call(host.app, view, uuid).ask(host, None, query)
            assert answer.status_code in EXPECTED, (view, query)


def test_a_megabyte_is_cut_or_refused(host: Host) -> None:
    uuid = belongings(host, "anna", "anna")["failed"]

    readers = {name: view for view, row in ROWS.items() for name in row.query}
    for name, view in [*readers.items(), ("q", "index"), ("q", "log"), ("q", "index_json")]:
        answer = call(host.app, view, uuid).ask(host, None, {name: "a1" * 500_000})
        assert answer.status_code in EXPECTED, (view, name)
        # A page may say what was asked for in the link that asks again, and no more often.
        assert len(answer.data) < 2 * LARGEST, (view, name)


def test_forms_of_any_kind_break_nothing(host: Host) -> None:
    uuid = belongings(host, "anna", "anna")["failed"]
    names = ("until", "confirm_lost", "theme", "zone", "poll", "wrap", "jobrunner_token")

    for view, rule in rules(host.app).items():
        if "POST" not in (rule.methods or ()):
            continue
        for value in NASTY:
            answer = host.client().post(
                call(host.app, view, uuid, "POST").path,
                headers={"Sec-Fetch-Site": "same-origin"},
                data="&".join(f"{name}={encoded(value)}" for name in names),
                content_type="application/x-www-form-urlencoded",
            )
            assert answer.status_code in EXPECTED, (view, value)


def test_who_asks_without_a_pause_gets_a_bounded_part_each_time(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["x" * 1000] * 3000)
    queries: dict[str, Any] = {
        "job_live": {"c": "0"},
        "job_json": {"after_seq": "0"},
        "log_earlier": {"before": "3000"},
        "embed": {"c": "0"},
        "log": {"line": "1500"},
        "detail": None,
    }

    for view, query in queries.items():
        answer = call(host.app, view, uuid).ask(host, None, query)
        assert answer.status_code == 200, view
        assert 0 < answer.text.count("x" * 1000) <= 1001, view
