"""Contrast of every pair of colours that meet, computed from the stylesheet; and its weight."""

from __future__ import annotations

import ast
import gzip
import re
from pathlib import Path

import pytest

import flask_jobrunner

STATIC = Path(flask_jobrunner.__file__).parent / "static"
STATES = (
    "queued",
    "running",
    "cancel_requested",
    "succeeded",
    "failed",
    "cancelled",
    "interrupted",
    "lost",
)
TEXT = [
    *[("ink", ground) for ground in ("canvas", "panel", "sunken", "log", "mark")],
    *[("muted", ground) for ground in ("canvas", "panel", "sunken", "log")],
    *[("link", ground) for ground in ("canvas", "panel", "sunken", "log")],
    *[(state, f"{state}-bg") for state in STATES],
    ("on-accent", "accent"),
    ("on-danger", "danger"),
    ("danger", "panel"),
    ("log-warning", "log"),
    ("log-error", "log"),
    ("lost", "log"),
    ("log-warning", "sunken"),
    ("log-error", "sunken"),
    ("log-warning", "mark"),
    ("log-error", "mark"),
    ("muted", "mark"),
    # Terminal colours, also as a ground under the text of the log's own ground.
    *[(f"a{number}", ground) for number in range(16) for ground in ("log", "sunken", "mark")],
]
PARTS = [
    ("border", "panel"),
    ("border", "canvas"),
    ("focus", "panel"),
    ("focus", "canvas"),
    ("focus", "log"),
    ("running", "queued-bg"),
    ("succeeded", "queued-bg"),
    ("failed", "queued-bg"),
    ("succeeded", "panel"),
    ("failed", "panel"),
    ("accent", "panel"),
]


def themes() -> dict[str, dict[str, str]]:
    css = (STATIC / "tokens.css").read_text(encoding="utf-8")
    light, _, dark = css.partition("@media (prefers-color-scheme: dark)")
    first = tokens(light)
    return {"light": first, "dark": first | tokens(dark)}


def tokens(css: str) -> dict[str, str]:
    return dict(re.findall(r"--jr-([\w-]+):\s*(#[0-9a-f]{6})", css))


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(theme: str) -> None:
    colours = themes()[theme]
    weak = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in TEXT}

    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_parts_stand_out_from_what_is_beside_them(theme: str) -> None:
    colours = themes()[theme]
    weak = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in PARTS}

    assert {pair: ratio for pair, ratio in weak.items() if ratio < 3.0} == {}


def test_whoever_wants_it_dark_gets_the_same_colours() -> None:
    css = (STATIC / "dark.css").read_text(encoding="utf-8")
    dark = (STATIC / "tokens.css").read_text(encoding="utf-8").partition("@media")[2]

    assert tokens(css) == tokens(dark)
    assert len(tokens(css)) > 40


def test_every_colour_is_a_token() -> None:
    for sheet in STATIC.glob("*.css"):
        if sheet.name not in ("tokens.css", "dark.css"):
            css = sheet.read_text(encoding="utf-8")
            assert re.findall(r"#[0-9a-fA-F]{3,8}\b", css) == [], sheet.name
            used = set(re.findall(r"var\(--jr-([\w-]+)\)", css))
            assert used <= set(themes()["light"]) | {"sans", "mono", "shadow"}, sheet.name


def test_every_rule_is_below_our_own_class() -> None:
    for sheet in STATIC.glob("*.css"):
        css = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        css = re.sub(r"@keyframes jr-\w+ \{(?:[^{}]*\{[^{}]*\})+\s*\}", "", css)
        for selectors in re.findall(r"(?:^|[{}])\s*([^{}@;]+?)\s*\{", css):
            for selector in re.split(r",(?![^(]*\))", selectors):
                assert selector.strip().startswith(".jr"), (sheet.name, selector)


def sheets_of_pages() -> dict[str, list[Path]]:
    """The stylesheets that each page loads, with the one for those who want it dark."""
    found = {}
    for template in (STATIC.parent / "templates" / "flask_jobrunner").glob("[!_]*.html"):
        own = re.search(r"set sheets = (\(.*?\))", template.read_text(encoding="utf-8"))
        if own:
            names = ("tokens.css", "frame.css", "dark.css", *ast.literal_eval(own[1]))
            found[template.name] = [STATIC / name for name in names]
    return found


def weight(files: list[Path]) -> tuple[int, int]:
    """(bytes, bytes packed)."""
    text = b"".join(file.read_bytes() for file in files)
    return len(text), len(gzip.compress(text, 9))


def test_styles_and_scripts_keep_to_their_weight() -> None:
    scripts = weight(
        [
            file
            for file in STATIC.glob("*.js")
            if not file.name.startswith("embed") and ".min." not in file.name
        ]
    )

    assert len(sheets_of_pages()) >= 8
    for page, sheets in sheets_of_pages().items():
        styles = weight(sheets)
        assert styles[0] <= 26_000, page
        assert styles[1] <= 6_144, page
    # More than a log that only grows: earlier lines, ranges, times, announcements.
    assert scripts[0] <= 20_000
    assert scripts[1] <= 6_656


def test_what_the_widgets_add_to_a_page_of_the_application_is_small() -> None:
    styles, scripts = ([*STATIC.glob(f"embed*.{kind}")] for kind in ("css", "js"))

    assert weight(styles)[1] <= 1_500
    assert weight(scripts)[1] <= 4_000
