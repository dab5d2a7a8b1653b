"""No path leads out of the files of a job or of ours; nothing is fetched; nothing is a link."""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path

import pytest

import flask_jobrunner
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job
from tests.safety.ground import MISSING, belongings
from tests.safety.routes import call, calls

OUTSIDE = [
    "../rows.csv",
    "..%2frows.csv",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%5c..%5cwindows",
    "%252e%252e%252fetc",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "rows.csv%00.txt",
    "%00",
    "rows.csv/",
    "./rows.csv",
    "rows.csv%20",
    "ROWS.CSV",
    "~root",
    "C:%5cboot.ini",
    "....//rows.csv",
    "%c0%ae%c0%ae%c0%af",
    "a" * 5000,
]
FETCHING = {"urllib.request", "http.client", "ftplib", "smtplib", "requests", "httpx", "urllib3"}


def test_a_path_that_is_no_name_of_a_file_is_not_found(host: Host) -> None:
    uuid = belongings(host, "anna", "anna")["succeeded"]
    folder = Path(host.runtime.files_dir())
    (folder.parent / "rows.csv").write_text("outside")

    for path in OUTSIDE:
        for place in (f"/jobs/{uuid}/artifacts/{path}", f"/jobs/static/{path}"):
            for query in ("", "?kind=input", "?attempt=1"):
                with host.client().get(place + query) as answer:
                    # A redirect, where there is one, leads to another place of the same site.
                    assert answer.status_code in (308, 400, 404), place
                    assert b"outside" not in answer.data
                    assert b"root:" not in answer.data


def test_a_file_of_another_job_is_not_had_below_this_one(host: Host) -> None:
    uuid = belongings(host, "anna", "anna")["succeeded"]
    other = add_job(host.runtime, "succeeded")

    assert call(host.app, "artifact", uuid).ask(host).data == b"anna"
    assert call(host.app, "artifact", other).ask(host).status_code == 404


def test_nothing_in_the_package_could_fetch_an_address() -> None:
    root = Path(flask_jobrunner.__file__).parent
    found = [
        f"{file.relative_to(root)}: {name}"
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        for name in imported(node)
        if any(name == one or name.startswith(f"{one}.") for one in FETCHING)
    ]

    assert found == []


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]
    return []


@pytest.mark.parametrize(
    "address", ["http://evil.example/x", "javascript:alert(1)", "//evil.example"]
)
def test_an_address_in_a_job_is_text(host: Host, address: str) -> None:
    uuid = belongings(host, address, address)["failed"]

    for one in calls(host, uuid, "GET"):
        body = one.ask(host).text
        for link in re.findall(r"(?:href|src|action|hx-get)=[\"']([^\"']*)", body):
            target = html.unescape(link)
            # A filter is in the query of our own page; the address of another site is nowhere.
            assert not re.match(r"\s*(javascript:|//|\w+://)", target), (one, target)


def test_a_job_that_is_not_there_has_no_files(host: Host) -> None:
    assert call(host.app, "artifact", MISSING).ask(host).status_code == 404
