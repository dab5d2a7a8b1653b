"""Take the pictures in docs/images: the demo's real jobs, on its real pages.

`python scripts/screenshots.py [FOLDER]` starts the demo in a folder of its own, lets jobs run, fail
and be killed, and photographs the pages, light and dark, on a desktop and on a phone. Needs
Chromium. Fonts are those of this machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.palette import shrink  # noqa: E402
from tests.helpers.browser import DESKTOP, PHONE, running_browser  # noqa: E402

THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZES = (DESKTOP, PHONE)
TALLEST = 1280
HEAVIEST = 200_000  # bytes
NO_SUCH_FILE = '{"import_id": 4711}'


def main() -> None:
    """Take every picture; exits with 1 when one of them is too heavy."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with running_demo() as demo, running_browser() as browser:
        camera = Camera(browser, demo.address, folder)
        camera.take("empty", "/jobs/")
        visit(browser.new_page(), demo, camera)
    for file in folder.glob("*.png"):
        shrink(file)
    heavy = [file.name for file in folder.glob("*.png") if file.stat().st_size > HEAVIEST]
    sys.exit(f"Too heavy: {', '.join(heavy)}" if heavy else 0)


def visit(page: Page, demo: Demo, camera: Camera) -> None:
    """Start jobs as a visitor would, and photograph their pages."""
    address = demo.address
    stubborn = start(page, address, "Start the stubborn job")
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()

    start(page, address, "Start the noisy job")
    wait_for(page, "Succeeded")
    start(page, address, "Start and kill it")
    wait_for(page, "Interrupted")

    demo.run("start", "demo.import_csv", "--payload", NO_SUCH_FILE, "--title", "Import owls.csv")
    page.goto(f"{address}/jobs/")
    page.get_by_role("link", name="Import owls.csv").click()
    wait_for(page, "Failed")
    camera.take("failed", page.url)

    page.goto(address)
    page.locator("[name=watch]").first.uncheck()
    page.get_by_role("button", name="Import birdstrikes.csv").click()
    page.get_by_role("link", name="The job, with its log").click()
    wait_for(page, "Succeeded")
    camera.take("succeeded", page.url)
    page.goto(stubborn)
    wait_for(page, "Cancelled")

    page.goto(address)
    page.locator("[name=seconds]").fill("120")
    page.get_by_role("button", name="Start the smoke job").click()
    page.goto(address)
    page.get_by_role("button", name="Import birdstrikes.csv").click()
    page.get_by_role("link", name="The job, with its log").click()
    expect(page.locator("#jr-progress")).to_contain_text("rows checked", timeout=20_000)
    expect(page.locator("#jr-progress")).to_contain_text(re.compile(r"[3-6]\d%"), timeout=40_000)
    camera.take("running", page.url)
    for number in (1, 2, 3):
        title = f"Nightly report {number} of 3"
        demo.run("enqueue", "demo.smoke", "--payload", '{"seconds": 60}', "--title", title)
    page.goto(f"{address}/jobs/supervisors")
    expect(page.locator("main")).to_contain_text("2 of 2 used", timeout=20_000)
    camera.take("supervisors", page.url)
    camera.take("list", "/jobs/")


def start(page: Page, address: str, button: str) -> str:
    """Press a button of the demo's first page; the address of the job's page."""
    page.goto(address)
    page.get_by_role("button", name=button).click()
    page.wait_for_selector("#jr-state")
    return page.url


def wait_for(page: Page, word: str) -> None:
    """Until the job's page says `word`, and has nothing more to wait for."""
    expect(page.locator("#jr-state")).to_have_text(word, timeout=60_000)
    expect(page.locator("#jr-live-text")).to_have_text("Complete", timeout=60_000)


class Camera:
    """Photographs a page in both themes and at both sizes."""

    def __init__(self, browser: Browser, address: str, folder: Path) -> None:
        self._browser = browser
        self._address = address
        self._folder = folder

    def take(self, name: str, path: str) -> None:
        """`name-light-1280.png` and its three sisters."""
        url = path if path.startswith("http") else self._address + path
        for theme in THEMES:
            for width, height in SIZES:
                page = self._browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme=theme,
                    reduced_motion="reduce",
                )
                page.goto(url)
                # The whole page as one screen, so that what sticks to the bottom stays there.
                tall: int = page.evaluate("document.documentElement.scrollHeight")
                page.set_viewport_size({"width": width, "height": min(max(tall, height), TALLEST)})
                page.wait_for_timeout(500)
                page.screenshot(path=str(self._folder / f"{name}-{theme}-{width}.png"))
                page.close()


@dataclass(frozen=True)
class Demo:
    """A demo that serves, and the environment in which its commands find it."""

    address: str
    environ: dict[str, str]

    def run(self, *arguments: str) -> None:
        """`flask jobs …` for the demo."""
        command = [sys.executable, "-m", "flask_jobrunner", "--app", "demo_app:create_app", "jobs"]
        subprocess.run([*command, *arguments], cwd=ROOT, env=self.environ, check=True)


@contextlib.contextmanager
def running_demo() -> Iterator[Demo]:
    """A demo that starts empty and leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="jobrunner-pictures-") as instance:
        environ = {**os.environ, "DEMO_INSTANCE": instance}
        environ.pop("DATABASE_URL", None)
        command = [sys.executable, "-m", "demo_app", "--port", "0"]
        with subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield Demo(address_of(process), environ)
            finally:
                process.terminate()
                process.communicate(timeout=60)  # it says which jobs it ends


def address_of(process: subprocess.Popen[str]) -> str:
    """The address that the demo prints."""
    for line in process.stdout or ():
        found = re.search(r"http://[\w.:]+", line)
        if found:
            return found[0]
    raise SystemExit("The demo ended before it printed its address.")


if __name__ == "__main__":
    main()
