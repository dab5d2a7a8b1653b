"""Search, filters and downloads of a log's own page; everything works without a script."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import cast

import pytest

from flask_jobrunner.repositories import logs
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines, change


@pytest.fixture
def log(host: Host) -> str:
    uuid = add_job(host.runtime, "failed", error_count=1)
    lines = [f"row {n}" for n in range(1, 3001)]
    lines[1999] = "a Needle & <thread>"
    lines[2499] = "another needle"
    told = [{"message": text, "stream": "stdout" if n % 2 else ""} for n, text in enumerate(lines)]
    told[2599] |= {"message": "it broke", "level": "error"}
    add_lines(host.runtime, uuid, told)
    return uuid


def link(body: str, text: str) -> str:
    found = re.search(rf'<a href="([^"]+)">{text}</a>', body)
    assert found is not None, text
    return html.unescape(found[1]).removeprefix("/jobs")


def numbers(body: str) -> list[int]:
    return [int(number) for number in re.findall(r'<p id="L(\d+)"', body)]


def test_next_and_previous_match_lead_to_its_line(host: Host, log: str) -> None:
    first = host.get(f"/{log}/log?q=NEEDLE&find=next")
    assert first.status_code == 303
    assert first.location == f"/jobs/{log}/log?q=NEEDLE&line=2000#L2000"

    page = host.get(f"/{log}/log?q=NEEDLE&line=2000").text
    assert "a <mark>Needle</mark> &amp; &lt;thread&gt;" in page
    second = host.get(link(page, "Next match"))
    assert second.location.endswith("line=2500#L2500")
    page = host.get(f"/{log}/log?q=NEEDLE&line=2500").text
    assert host.get(link(page, "Previous match")).location.endswith("line=2000#L2000")
    assert "No match after line 2,500." in host.get(link(page, "Next match")).text


def test_what_is_not_there_is_said(host: Host, log: str) -> None:
    assert "No line matches." in host.get(f"/{log}/log?q=haystack&find=next").text
    assert "No match" not in host.get(f"/{log}/log?find=next").text


def test_a_search_that_ran_out_of_time_says_so_and_goes_on(
    host: Host, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEARCH_PAGE", 500)
    in_no_time = {"backwards": False, "seconds": 0}
    monkeypatch.setattr(logs.LogRepository.search, "__kwdefaults__", in_no_time)

    answer = host.get(f"/{log}/log?q=needle&find=next")
    steps = 0
    while answer.status_code == 200:
        assert "were not looked through yet" in answer.text
        answer = host.get(link(answer.text, "Search on"))
        steps += 1

    assert answer.location.endswith("line=2000#L2000")
    assert steps == 3


def test_filters_show_their_lines_and_stay_while_paging(host: Host, log: str) -> None:
    page = host.get(f"/{log}/log?stream=stdout").text
    assert numbers(page) == list(range(1002, 3001, 2))
    page = host.get(link(page, "Earlier")).text
    assert numbers(page) == list(range(2, 1001, 2))
    page = host.get(link(host.get(f"/{log}/log?stream=stdout&after=0").text, "Later")).text
    assert numbers(page) == list(range(2002, 3001, 2))

    assert numbers(host.get(f"/{log}/log?level=warning").text) == [2600]
    around = host.get(f"/{log}/log?stream=messages&line=2001").text
    assert numbers(around) == list(range(1001, 3000, 2))
    assert host.get(f"/{log}/log?level=loud").status_code == 400


def test_attempts_are_told_apart_where_there_are_several(host: Host, log: str) -> None:
    assert 'name="attempt"' not in host.get(f"/{log}/log").text
    change(host.runtime, log, attempt=2)
    add_lines(host.runtime, log, ["once more"])

    page = host.get(f"/{log}/log?attempt=2").text

    assert numbers(page) == [3001]
    assert '<option value="2" selected>Attempt 2</option>' in page


def test_the_first_error(host: Host, log: str) -> None:
    url = link(host.get(f"/{log}").text, "first error")
    assert host.get(url).location == f"/jobs/{log}/log?line=2600#L2600"

    calm = add_job(host.runtime, "succeeded")
    add_lines(host.runtime, calm, ["fine"])
    assert "first error" not in host.get(f"/{calm}").text


def test_a_download_is_every_stored_byte(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    texts = [f"{n} \x1b[31mgrün\x1b[0m <b>\t\r{'x' * (n % 90)}" for n in range(2100)]
    add_lines(host.runtime, uuid, texts)

    answer = host.get(f"/{uuid}/log.txt")

    assert answer.data == "".join(f"{text}\n" for text in texts).encode()
    assert answer.mimetype == "text/plain"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{uuid}.txt"'
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_records_have_everything_but_secrets(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    told = [{"message": f"{n}", "context": {"password": "p", "n": n}} for n in range(1100)]
    add_lines(host.runtime, uuid, told)

    records = [json.loads(line) for line in host.get(f"/{uuid}/log.ndjson").text.splitlines()]

    assert [record["seq"] for record in records] == list(range(1, 1101))
    assert records[7]["message"] == "7"
    assert records[7]["context"]["n"] == 7
    assert records[7]["context"]["password"] != "p"


def test_a_download_ends_where_the_log_ended_when_it_began(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [f"{n}" for n in range(1200)])
    for kind in ("txt", "ndjson"):
        had = host.runtime.jobs.owned(uuid)
        assert had is not None
        answer = host.client().get(f"/jobs/{uuid}/log.{kind}", buffered=False)
        pieces = cast("Iterator[bytes]", iter(answer.response))
        first = next(pieces)
        add_lines(host.runtime, uuid, ["late"])
        whole = first + b"".join(pieces)
        assert whole.count(b"\n") == had.log_seq, kind


def test_earlier_lines_come_as_a_fragment(host: Host, log: str) -> None:
    body = host.get(f"/{log}").text
    assert re.search(rf'href="/jobs/{log}/log\?before=2001" data-lines="/jobs/{log}/_lines"', body)

    answer = host.poll(f"/jobs/{log}/_lines?before=2001")

    assert numbers(answer.text) == list(range(1501, 2001))
    assert answer.headers["X-Jobrunner-Fragment"] == "1"
    assert host.get(f"/{log}/_lines?before=2001").status_code == 303


def test_a_page_that_is_far_behind_goes_on_at_the_end_and_says_so(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(6000)])

    body = host.poll(f"/jobs/{uuid}/_live?c=10").text

    assert numbers(body) == list(range(5501, 6001))
    assert "5,490 lines left out here" in body


def test_offsets_count_from_the_start(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, [f"{n}" for n in range(700)])

    body = host.get(f"/{uuid}").text

    assert re.search(r'<p id="L655">.*?<i data-o="1:05">', body)
