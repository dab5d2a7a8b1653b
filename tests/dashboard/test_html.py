"""Every page is well-formed, has one heading, its landmarks, unique ids, and names for controls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import BaseLoader, Environment

import flask_jobrunner
from flask_jobrunner.dashboard.blueprint import ROUTES
from tests.browser.catalogue import PICTURES, answer, open_worlds, path_of
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job

FOR_SCRIPTS_ALONE = {
    "_earlier.html",
    "_embed_ask.html",
    "_list_live.html",
    "_live.html",
    "_supervisors_live.html",
}
NO_PAGES = {
    "embed",
    "index_json",
    "job_json",
    "job_live",
    "list_live",
    "log_earlier",
    "log_ndjson",
    "log_text",
    "mine",
    "supervisors_json",
    "supervisors_live",
    "types_json",
}
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


@dataclass(frozen=True)
class Seen:
    """The answers, and what was needed to make them."""

    pages: dict[str, Outline]
    templates: set[str]
    endpoints: set[str]


class Noting(BaseLoader):
    """Remembers which templates were asked for."""

    def __init__(self, inner: BaseLoader, names: set[str]) -> None:
        self.inner = inner
        self.names = names

    def get_source(self, environment: Environment, template: str) -> Any:
        self.names.add(template)
        return self.inner.get_source(environment, template)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Every picture of the catalogue."""
    with open_worlds(tmp_path_factory.mktemp("worlds")) as worlds:
        templates, endpoints = set[str](), set[str]()
        for world in worlds.values():
            loader = world.host.app.jinja_env.loader
            assert loader is not None
            world.host.app.jinja_env.loader = Noting(loader, templates)
        pages = {picture.name: outline(answer(worlds, picture).text) for picture in PICTURES}
        for picture in PICTURES:
            world = worlds[picture.world]
            path = path_of(picture, world).partition("?")[0]
            endpoints.add(world.host.app.url_map.bind("localhost").match(path)[0])
        yield Seen(pages, templates, endpoints)


@pytest.fixture
def pages(seen: Seen) -> dict[str, Outline]:
    return seen.pages


def test_a_picture_shows_every_template_and_every_page(seen: Seen) -> None:
    folder = Path(flask_jobrunner.__file__).parent / "templates" / "flask_jobrunner"
    templates = {f"flask_jobrunner/{file.name}" for file in folder.glob("*.html")}
    endpoints = {f"jobrunner.{route.endpoint}" for route in ROUTES}

    assert templates - seen.templates == {f"flask_jobrunner/{name}" for name in FOR_SCRIPTS_ALONE}
    assert endpoints - seen.endpoints == {f"jobrunner.{name}" for name in NO_PAGES}


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
        ours = () if path.startswith("widget") else ("header", "footer")
        for landmark in ("h1", "main", *ours):
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
