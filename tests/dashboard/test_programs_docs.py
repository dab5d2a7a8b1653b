"""docs/programs.md: its examples, run against a served application, and its fields, all of them."""

from __future__ import annotations

import hmac
import json
import re
import shlex
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import abort, request
from werkzeug.serving import make_server

from flask_jobrunner.dashboard import api, api_values
from flask_jobrunner.repositories.listing import PAGE_MAX
from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, end
from tests.dashboard.test_files import keep
from tests.dashboard.test_supervisors import add_supervisor, pulled

TEXT = (Path(__file__).parents[2] / "docs" / "programs.md").read_text("utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
(CONSOLE,) = re.findall(r"^```console\n\$ (.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)
TOKEN = "a token of the test"
MARKERS = {
    "authorize": "@jobs.authorize",
    "get": "def get(",
    "list": "failed +=",
    "follow": "after_seq=0",
    "again": "If-None-Match",
    "cancel": "@app.post(",
}
"""What tells the Python blocks apart."""


def block(name: str) -> str:
    found: list[str] = [text for text in PYTHON if MARKERS[name] in text]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Host:
    """A host with the hook and the view of the document."""
    made = make_host(
        authorize=None, MONITOR_TOKEN=TOKEN, JOBRUNNER_FILES_DIR=str(tmp_path / "files")
    )
    nobody = SimpleNamespace(is_authenticated=False)
    names = {"jobs": made.jobs, "app": made.app, "request": request, "hmac": hmac, "abort": abort}
    for name in ("authorize", "cancel"):
        exec(block(name), {**names, "current_user": nobody})
    return made


@pytest.fixture
def site(host: Host) -> Iterator[str]:
    """The same, served."""
    server = make_server("127.0.0.1", 0, host.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(site: str, name: str, **names: Any) -> list[str]:
    """What a program says that has `get` and this block."""
    printed: list[str] = []
    values = {
        "SITE": site,
        "MONITOR_TOKEN": TOKEN,
        "json": json,
        "time": time,
        "urllib": urllib,
        "print": lambda *parts: printed.append(" ".join(str(part) for part in parts)),
        **names,
    }
    exec(block("get") + block(name), values)
    return printed


def test_every_block_is_one_that_is_run_here() -> None:
    assert [next(n for n, m in MARKERS.items() if m in text) for text in PYTHON] == list(MARKERS)


def test_the_list_is_read_page_by_page(host: Host, site: str) -> None:
    uuids = [
        add_job(host.runtime, "failed", error_reason_code="handler_raised") for _ in range(101)
    ]

    printed = run(site, "list")

    assert [line.split()[0] for line in printed] == uuids[::-1]
    assert printed[0].endswith("reports.build handler_raised")


def test_the_command_line_gets_the_same(host: Host, site: str) -> None:
    uuid = add_job(host.runtime, "failed")
    curl, flag, header, address = shlex.split(CONSOLE.replace("$MONITOR_TOKEN", TOKEN))
    assert (curl, flag) == ("curl", "-H")
    name, _, value = header.partition(": ")

    asked = urllib.request.Request(address.replace("http://localhost:5000", site))
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked, timeout=30)
    asked.add_header(name, value)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        page = json.load(answer)

    assert [job["uuid"] for job in page["jobs"]] == [uuid]


def test_a_job_is_followed_to_its_end(host: Host, site: str) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["one", "two"])
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            add_lines(host.runtime, uuid, ["three"])
            end(host.runtime, uuid, result_json='{"rows": 3}')

    printed = run(site, "follow", uuid=uuid, time=SimpleNamespace(sleep=sleep))

    assert [line.split()[-1] for line in printed[:-1]] == ["one", "two", "three"]
    assert printed[-1] == "succeeded {'rows': 3}"
    assert all(seconds >= 1 for seconds in slept)


def test_an_answer_that_is_known_is_not_sent_again(host: Host, site: str) -> None:
    add_job(host.runtime, "succeeded")

    assert run(site, "again") == ["unchanged"]


def test_a_program_cancels_through_the_applications_own_view(host: Host) -> None:
    uuid, client = add_job(host.runtime, "running"), host.client()
    path, headers = f"/api/jobs/{uuid}/cancel", {"Authorization": f"Bearer {TOKEN}"}

    assert client.post(path).status_code == 403
    assert client.post(path, headers=headers).status_code == 200
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    assert job.status == "cancel_requested"


def fields(after: str, before: str = "\n## ", *, marked: str = "") -> set[str]:
    """The first cells of the tables between two places of the document."""
    part = TEXT.partition(after)[2].partition(before)[0]
    return set(re.findall(rf"^\| `(\w+)` \|{marked}", part, re.MULTILINE))


def named(key: str) -> set[str]:
    """What the line about a field names besides."""
    (line,) = [row for row in TEXT.splitlines() if row.startswith(f"| `{key}` |")]
    return set(re.findall(r"`(\w+)`", line))


def test_every_field_is_documented_and_no_other(host: Host) -> None:
    uuid = add_job(host.runtime, "failed", error_class="E", payload={"a": 1}, result=[1])
    add_lines(host.runtime, uuid, ["a line"])
    keep(host, uuid, "rows.csv")
    add_supervisor(host)
    pulled(host)
    client, headers = host.client(), {"Authorization": f"Bearer {TOKEN}"}

    def told(path: str) -> Any:
        return client.get(f"/jobs/{path}", headers=headers).json

    page, one = told("index.json"), told(f"{uuid}.json?after_seq=0")
    of_job = fields("The fields of `job`:")
    listed = fields("The fields of `job`:", marked=" ✓ ")
    assert set(one["job"]) == of_job
    assert set(page["jobs"][-1]) == listed == of_job - api_values.ONLY_OF_ONE
    assert set(page) == fields("## The list")
    assert set(one) == fields("## One job", "The fields of `job`:")
    assert set(one["files"][0]) <= named("files")
    assert set(one["log"]) <= named("log")
    line = TEXT.partition("A line has")[2].partition("So a program")[0]
    assert set(one["log"]["lines"][0]) == set(re.findall(r"`(\w+)`", line))
    found = told("supervisors.json")
    assert set(found["supervisors"][0]) <= named("supervisors")
    assert set(found["waiting"][0]) <= named("waiting")
    found = told("types.json")["types"][0]
    assert set(found) | set(found["errors"][0]) <= named("types")


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"{api.LINES} at a time" in TEXT
    assert f"at most {PAGE_MAX}" in TEXT
