"""Every page in every state, in both themes and at both sizes: no fault that a machine can find.

One page is loaded once, and then looked at in all its ways: axe-core's rules, scrolling sideways,
the size of what one touches, the content policy, errors on the console.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.catalogue import PICTURES, Picture, Stage, open_stage, views
from tests.helpers.browser import DESKTOP, PHONE, Pages, WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HERE = Path(__file__).parent / "axe"
AXE = HERE / "axe-4.14.1.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules that a theme may break; the others were asked already when it changes."""
RUN = """async (options) => {
  const found = await axe.run(document, {...options, resultTypes: ["violations"]});
  return found.violations.flatMap((one) => one.nodes.slice(0, 3).map(
    (node) => `${one.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}"""
SMALL = """([selector, least]) => [...document.querySelectorAll(selector)]
  .filter((e) => e.checkVisibility() && getComputedStyle(e).display !== "inline")
  .map((e) => [e.textContent.trim() || e.name, e.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < least || box.width < least))
  .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""
TOUCHED = "a, button, select, summary, input:not([type=radio], [type=checkbox])"
NARROWEST = 320
"""CSS pixels: a small phone, and a desktop of 1280 at a zoom of 400 %."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Every host of the catalogue, served."""
    with open_stage(tmp_path_factory.mktemp("stage")) as opened:
        yield opened


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_without_fault(stage: Stage, browser_pages: Pages, picture: Picture) -> None:
    watched = browser_pages.open()
    page = watched.page
    stage.show(page, picture)
    page.evaluate(AXE.read_text("utf-8"))

    found = {f"{theme} {size[0]}": faults(page, theme, size) for theme, size in views(page)}
    page.set_viewport_size({"width": NARROWEST, "height": 640})
    found[f"{NARROWEST}"] = sticking_out(page)

    assert {way: told for way, told in found.items() if told} == {}
    assert watched.policy_violations == []
    assert unexpected_errors(watched, picture) == []


def faults(page: Page, theme: str, size: tuple[int, int]) -> list[str]:
    only = TAGS if theme == "light" else COLOURS
    found: list[str] = page.evaluate(RUN, {"runOnly": only})
    if theme == "light":
        found += sticking_out(page) + too_small(page, TOUCHED, 24)
    if size == PHONE:
        found += too_small(page, ".jr-button, .jr-small-button", 44)
    return found


def too_small(page: Page, selector: str, least: int) -> list[str]:
    found: list[str] = page.evaluate(SMALL, [selector, least])
    return [f"smaller than {least}: {told}" for told in found]


def sticking_out(page: Page) -> list[str]:
    pixels: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [f"the page is {pixels} pixels too wide"] if pixels > 0 else []


def unexpected_errors(watched: WatchedPage, picture: Picture) -> list[str]:
    """A browser reports an answer of 4xx or 5xx as an error of the page."""
    if picture.noisy:
        return []
    errors = watched.console_errors
    if picture.status >= 400:
        errors = [text for text in errors if "Failed to load resource" not in text]
    return errors


def test_the_rules_find_what_is_wrong(browser_pages: Pages) -> None:
    page = browser_pages.open(size=DESKTOP).page
    css = "a { display: block; height: 9px; color: #ccc } body { margin: 0; width: 1400px }"
    page.set_content(f"<style>{css}</style><a href='x'>Pale</a>")
    page.evaluate(AXE.read_text("utf-8"))

    names = {told.partition(":")[0] for told in faults(page, "light", DESKTOP)}

    assert names >= {"color-contrast", "html-has-lang", "document-title", "smaller than 24"}
    assert sticking_out(page) == ["the page is 120 pixels too wide"]


def test_the_rules_are_those_that_their_note_says() -> None:
    note = (HERE / "VENDORED.md").read_text("utf-8")

    assert AXE.name in note
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() in note
