"""Every page is well-formed, has one heading, its landmarks, unique ids, and names for controls."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from flask_jobrunner.model.statuses import JobStatus
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines
from tests.dashboard.test_supervisors import add_supervisor

VOID = {"meta", "link", "input", "br", "img", "hr"}
# Closed by what follows in HTML; we close them all the same.
SVG = {"use", "rect", "path", "circle"}


class Outline(HTMLParser):
    """Open elements must be closed in order; ids, headings and landmarks are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if len({name for name, _ in attrs}) != len(attrs):
            self.wrong.append(f"an attribute twice in <{tag}>")
        if self.open[-1:] == ["p"] and tag in {"div", "p", "ul", "ol", "dl", "pre", "section"}:
            self.wrong.append(f"<{tag}> inside <p>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SVG:
            self.wrong.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")


def outline(body: str) -> Outline:
    parser = Outline()
    parser.feed(body)
    parser.close()
    return parser


def paths(host: Host) -> list[str]:
    found = [
        "/types",
        "/types/reports.build",
        "/?q=no&type=a",
        "/",
        "/?status=lost",
        "/?status=nonsense",
        "/01a22706-15d6-7a3d-b858-606442022120",
    ]
    for status in JobStatus:
        uuid = add_job(
            host.runtime,
            status,
            payload={"a": 1},
            result={"rows": 3} if status == "succeeded" else None,
            error_class="ValueError" if status == "failed" else None,
            error_message="no" if status in ("failed", "interrupted", "lost") else None,
            traceback="Traceback" if status == "failed" else None,
            step_index=1,
            step_total=3,
            progress_done=1,
            progress_total=2,
        )
        add_lines(host.runtime, uuid, ["one", {"message": "two", "level": "warning"}])
        found += [f"/{uuid}", f"/{uuid}/log", f"/{uuid}/cancel", f"/{uuid}/requeue"]
    return found


@pytest.fixture
def pages(host: Host) -> dict[str, Outline]:
    empty = {
        path: outline(host.get(path).text) for path in ("/", "/supervisors", "/types", "/prefs")
    }
    add_supervisor(host)
    add_job(host.runtime, "running", dispatch_by="s1", claim_mode="trusted")
    shown = {"/ of supervisors": outline(host.get("/supervisors").text)}
    return empty | shown | {path: outline(host.get(path).text) for path in paths(host)}


def test_every_element_is_closed_and_no_id_is_used_twice(pages: dict[str, Outline]) -> None:
    for path, page in pages.items():
        assert page.wrong == [], path
        assert page.open == [], path
        assert len(page.ids) == len(set(page.ids)), path


def test_one_heading_and_the_landmarks(pages: dict[str, Outline]) -> None:
    for path, page in pages.items():
        tags = [tag for tag, _ in page.tags]
        # The figures of a plot have titles of their own.
        assert tags[: tags.index("body")].count("title") == 1, path
        for landmark in ("h1", "header", "main", "footer"):
            assert tags.count(landmark) == 1, (path, landmark)


def test_what_is_referred_to_is_there(pages: dict[str, Outline]) -> None:
    for path, page in pages.items():
        ids = set(page.ids)
        for tag, values in page.tags:
            target = values.get("href") or ""
            if target.startswith("#"):
                assert target[1:] in ids, (path, tag, target)
            for name in ("aria-labelledby", "data-copy"):
                if values.get(name):
                    assert values[name] in ids, (path, tag, values[name])


def test_controls_and_regions_that_scroll_have_names(pages: dict[str, Outline]) -> None:
    for path, page in pages.items():
        for tag, values in page.tags:
            if tag == "progress" or values.get("role") in ("log", "region"):
                assert values.get("aria-label"), (path, tag)
            if tag == "button":
                assert values.get("type") in ("button", "submit"), path
            if tag == "nav":
                assert values.get("aria-label"), path


def test_a_table_keeps_its_meaning_where_it_is_shown_as_cards(host: Host) -> None:
    add_job(host.runtime, "running")
    tags = outline(host.get().text).tags

    roles = {tag: values.get("role") for tag, values in tags}
    assert roles["table"] == "table"
    assert roles["tr"] == "row"
    assert roles["td"] == "cell"
    assert roles["th"] == "columnheader"
