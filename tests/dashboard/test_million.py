"""A log of a million lines, on each database: any part of it, and found in a bounded time."""

from __future__ import annotations

import hashlib
import html
import re

import pytest
import sqlalchemy as sa

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job
from tests.helpers.long_logs import fill_log, texts

MILLION = 1_000_000
FEW = 20_000
ERROR = 0.9


def on(make_host: MakeHost, database_url: str) -> Host:
    host = make_host(SQLALCHEMY_DATABASE_URI=database_url)
    with host.app.app_context():
        host.db.create_all()
    return host


def numbers(body: str) -> list[int]:
    return [int(number) for number in re.findall(r'<p id="L(\d+)"', body)]


def found(host: Host, path: str, steps_most: int) -> int:
    """The line that a search comes to, going on where it had no time."""
    for _ in range(steps_most):
        answer = host.get(path)
        if answer.status_code == 303:
            return int(answer.location.rpartition("#L")[2])
        assert len(numbers(answer.text)) <= 1001
        on_url = re.search(r'<a href="([^"]+)">Search on</a>', answer.text)
        assert on_url is not None, "no line matches"
        path = html.unescape(on_url[1]).removeprefix("/jobs")
    raise AssertionError(f"not found in {steps_most} steps")


def check_long_log(host: Host, lines: int, last_17: int) -> None:
    """`last_17`: the last of these numbers that begins with 17."""
    uuid, error = add_job(host.runtime, "failed"), round(lines * ERROR)
    fill_log(host.runtime, uuid, lines, errors=[error])
    with host.runtime.database.engine.connect() as connection:
        if host.runtime.database.dialect == "postgresql":
            connection.execute(sa.text("ANALYZE"))
            connection.commit()

    assert numbers(host.get(f"/{uuid}").text) == list(range(lines - 999, lines + 1))
    middle = lines // 2
    assert numbers(host.get(f"/{uuid}/log?line={middle}").text)[:501][-1] == middle
    assert numbers(host.get(f"/{uuid}/log?after=0").text) == list(range(1, 1001))
    assert found(host, f"/{uuid}/log?find=error", 60) == error
    assert found(host, f"/{uuid}/log?q=LINE+{lines}&find=next", 60) == lines
    assert found(host, f"/{uuid}/log?q=line+17&find=previous&from={lines}", 60) == last_17
    digest = hashlib.sha256()
    answer = host.client().get(f"/jobs/{uuid}/log.txt", buffered=False)
    for piece in answer.response:
        digest.update(piece if isinstance(piece, bytes) else piece.encode())
    expected = hashlib.sha256("".join(f"{text}\n" for text in texts(lines)).encode())
    assert digest.digest() == expected.digest()


def test_a_long_log_is_read_searched_and_copied(make_host: MakeHost, database_url: str) -> None:
    check_long_log(on(make_host, database_url), FEW, 17_999)


@pytest.mark.million
@pytest.mark.timeout(1200)
def test_a_million_lines_are_read_searched_and_copied(
    make_host: MakeHost, database_url: str
) -> None:
    check_long_log(on(make_host, database_url), MILLION, 179_999)
