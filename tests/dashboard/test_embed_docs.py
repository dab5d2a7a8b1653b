"""The page of docs/embedding.md, rendered as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from flask import render_template_string

from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job

TEXT = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text("utf-8")


def test_the_page_of_the_document_shows_a_job_and_ones_own(host: Host) -> None:
    host.jobs.actor(lambda: "anna")
    uuid = add_job(host.runtime, "succeeded", title="Build report", owner="anna")
    job = host.runtime.jobs.get(uuid)
    (template,) = re.findall(r"```jinja\n(.*?)```", TEXT, re.DOTALL)

    with host.app.test_request_context("/report"):
        body = render_template_string(template, job=job)

    assert body.count("Build report") > 2
    assert '<div data-jr-done><a href="/report.pdf">' in body
    assert "embed.js" in body
