"""Whatever a job is called and says is shown as text, whatever the host has done to Jinja."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from flask import Flask
from jinja2 import StrictUndefined

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change

CORPUS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "<div hx-get='/evil' hx-trigger='load'>",
    "</pre></div></main><h1>owned</h1>",
    "<!--<script>",
    "]]><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "${7*7} #{7*7} <%= 7 %>",
    "javascript:alert(1)",
    "&lt;b&gt; &amp;amp; &#60;",
    "<plaintext>",
    "<template><p id=jr-poll hx-swap-oob=true>",
    "\u202egnp.exe \u2066bidi\u2069",
]


class Tags(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def tags_of(body: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(body)
    return parser.tags


def nasty_job(host: Host, text: str, status: str = "failed") -> str:
    runtime = host.runtime
    uuid = add_job(
        runtime,
        status,
        title=text,
        job_type=text[:120],
        owner=text,
        actor=text,
        reference=text,
        lock_key=text,
        payload={text: [text]},
        result={text: text},
        error_class=text,
        error_reason_code=text,
        error_message=text,
        traceback=text,
        current_step_key=text,
        current_step_label=text,
        step_index=1,
        step_total=2,
        revision=text,
    )
    change(runtime, uuid, worker_host=text)
    lines: list[dict[str, Any]] = [
        {"message": text, "context": {text: text}},
        {"message": text, "level": text[:30], "stream": text[:30]},
    ]
    add_lines(runtime, uuid, lines)
    attempts = runtime.database.tables.attempts
    runtime.database.run(
        lambda c: c.execute(attempts.update().values(worker_host=text, revision=text))
    )
    return uuid


def plain_counterpart(text: str) -> str:
    return re.sub(r"[^ ]", "x", text)


def pages(host: Host, uuid: str, status: str) -> list[str]:
    deed = "requeue" if status == "failed" else "cancel"
    paths = [
        "/",
        f"/{uuid}",
        f"/{uuid}/log",
        f"/{uuid}/{deed}",
        f"/{uuid}?did=cancel",
        f"/_list?n=0&a={uuid}",
        f"/{uuid}/_live?c=0&v=0&p=0",
    ]
    return [host.poll(f"/jobs{path}").text for path in paths]


@pytest.mark.parametrize("status", ["failed", "cancel_requested"])
@pytest.mark.parametrize("text", CORPUS)
def test_job_data_makes_no_element_and_no_attribute(
    make_host: MakeHost, text: str, status: str
) -> None:
    hosts = [make_host(), make_host()]
    nasty = nasty_job(hosts[0], text, status)
    tame = nasty_job(hosts[1], plain_counterpart(text), status)

    for body, like in zip(
        pages(hosts[0], nasty, status), pages(hosts[1], tame, status), strict=True
    ):
        found, expected = tags_of(body), tags_of(like)
        assert [(tag, set(values)) for tag, values in found] == [
            (tag, set(values)) for tag, values in expected
        ]
        for _, values in found:
            assert not any(name.startswith("on") for name in values)
            assert not str(values.get("href", "")).startswith("javascript")


def test_the_text_is_shown_as_it_is(host: Host) -> None:
    text = CORPUS[0]
    uuid = nasty_job(host, text)

    for body in pages(host, uuid, "failed")[:3]:
        assert html.escape(text) in body


@pytest.mark.parametrize("status", ["failed", "cancel_requested"])
def test_nothing_that_a_browser_obeys_or_swallows_gets_through(host: Host, status: str) -> None:
    uuid = nasty_job(host, "a\x1b\x07\x85\u202e\u2066b", status)

    for body in pages(host, uuid, status):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", body)


def test_halves_of_a_pair_in_json_break_no_page(host: Host) -> None:
    """No text of a row can hold one; what JSON spells can."""
    half = {"\ud800": "\udc80"}
    uuid = add_job(host.runtime, "failed", payload=half, result=half)
    add_lines(host.runtime, uuid, [{"message": "x", "context": half}])

    for path in (f"/{uuid}", f"/{uuid}/log", f"/{uuid}/_live?c=0&v=0&p=0"):
        assert host.poll(f"/jobs{path}").status_code == 200


def weaken(app: Flask) -> None:
    app.jinja_options = {
        "autoescape": False,
        "undefined": StrictUndefined,
        "variable_start_string": "[[",
        "variable_end_string": "]]",
        "block_start_string": "[%",
        "block_end_string": "%]",
        "line_statement_prefix": "#",
        "trim_blocks": False,
    }


def test_the_hosts_jinja_settings_do_not_reach_our_pages(make_host: MakeHost) -> None:
    host, plain = make_host(before=weaken), make_host()
    uuid, other = nasty_job(host, CORPUS[0]), nasty_job(plain, CORPUS[0])

    for body, like in zip(pages(host, uuid, "failed"), pages(plain, other, "failed"), strict=True):
        assert "<script>alert" not in body
        assert tags_of(body) != []
        assert len(tags_of(body)) == len(tags_of(like))


def test_our_filters_do_not_reach_the_hosts_templates(make_host: MakeHost) -> None:
    def own_filter(app: Flask) -> None:
        app.jinja_env.filters["name"] = lambda value: "the host's"

    host = make_host(before=own_filter)
    uuid = add_job(host.runtime, "running", title="Ours")

    assert "Ours" in host.get(f"/{uuid}").text
    assert host.app.jinja_env.filters["name"]("x") == "the host's"
    assert "word" not in host.app.jinja_env.filters
    assert host.app.jinja_env.autoescape is not True


def test_a_hosts_context_processor_neither_runs_nor_breaks_a_page(make_host: MakeHost) -> None:
    def processor(app: Flask) -> None:
        @app.context_processor
        def values() -> dict[str, Any]:
            raise RuntimeError("only for the host's own pages")

    assert make_host(before=processor).get().status_code == 200


def test_untrusted_regions_are_closed_to_htmx(host: Host) -> None:
    body = host.get(f"/{nasty_job(host, CORPUS[4])}").text

    assert re.search(r"<main[^>]* hx-disable>", body)
    assert body.index("</main>") < body.index('id="jr-poll"')
