"""Take a picture of every page in every state, light and dark, on a desktop and on a phone.

`python scripts/screenshots.py [NAME …]` writes them to build/screenshots, with an index.html that
shows them side by side; with names, only those whose name begins so. The few of them that the
README shows go to docs/images as well. What they show is the tests' own catalogue,
`tests/browser/catalogue.py`. Needs Chromium. Fonts are those of this machine.
"""

from __future__ import annotations

import contextlib
import html
import sys
import tempfile
from itertools import product
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.palette import shrink  # noqa: E402
from tests.browser.catalogue import PICTURES, SIZES, THEMES, open_stage, views  # noqa: E402
from tests.helpers.browser import DESKTOP, Pages, running_browser  # noqa: E402

FOLDER = ROOT / "build" / "screenshots"
IMAGES = ROOT / "docs" / "images"
IN_README = {"list-full": "list", "job-running": "job"}
TALLEST = 2400
README_HEIGHT = 960
HEAVIEST = 200_000  # bytes


def main() -> None:
    """Take every picture that was asked for; exits with 1 when one for the README is too heavy."""
    wanted = tuple(sys.argv[1:])
    for folder in (FOLDER, IMAGES):
        folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="jobrunner-pictures-") as place,
        open_stage(Path(place)) as stage,
        running_browser() as browser,
    ):
        taken = [picture for picture in PICTURES if picture.name.startswith(wanted or ("",))]
        for picture in taken:
            with contextlib.ExitStack() as close_later:
                page = Pages(browser, close_later).open().page
                stage.show(page, picture)
                for theme, (width, height) in views(page):
                    photograph(page, FOLDER / f"{picture.name}-{theme}-{width}.png", TALLEST)
                    if picture.name in IN_README and (width, height) == DESKTOP:
                        file = IMAGES / f"{IN_README[picture.name]}-{theme}.png"
                        photograph(page, file, README_HEIGHT)
                        shrink(file)
    (FOLDER / "index.html").write_text(index([p.name for p in taken]), encoding="utf-8")
    heavy = [file.name for file in IMAGES.glob("*.png") if file.stat().st_size > HEAVIEST]
    sys.exit(f"Too heavy: {', '.join(heavy)}" if heavy else 0)


def photograph(page: Page, file: Path, tallest: int) -> None:
    """The whole page as one screen, so that what sticks to the bottom stays there."""
    tall: int = page.evaluate("document.documentElement.scrollHeight")
    width: int = page.evaluate("innerWidth")
    page.set_viewport_size({"width": width, "height": min(tall, tallest)})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
    page.screenshot(path=str(file))


def index(names: list[str]) -> str:
    """A page with all of them."""
    rows = []
    for name in names:
        images = (
            f'<a href="{file}"><img src="{file}" alt="{file}" loading="lazy"></a>'
            for theme, (width, _) in product(THEMES, SIZES)
            for file in [html.escape(f"{name}-{theme}-{width}.png")]
        )
        rows.append(f"<h2>{html.escape(name)}</h2><p>{''.join(images)}</p>")
    style = "img{height:420px;margin:4px;border:1px solid #888;vertical-align:top}"
    return f"<!doctype html><title>Pictures</title><style>{style}</style>{''.join(rows)}"


if __name__ == "__main__":
    main()
