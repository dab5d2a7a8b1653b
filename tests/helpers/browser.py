"""Debian's Chromium, driven without a download, and pages that keep what went wrong in them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.servers import binaries

INSTALL = "install Chromium (Debian: apt-get install chromium)"

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A container's /dev/shm may have 64 MB only.
    "--disable-dev-shm-usage",
)

PATIENT = 60_000
"""Milliseconds until a click or an expectation fails: machines that test are busy."""
DESKTOP = (1280, 800)
PHONE = (390, 844)

REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  window.reportPolicyViolation(
    `${event.violatedDirective} blocked ${event.blockedURI} at ${event.sourceFile}:` +
    `${event.lineNumber} ${event.sample}`);
});
"""


@dataclass
class WatchedPage:
    """A page and everything that went wrong in it so far."""

    page: Page
    console_errors: list[str] = field(default_factory=list)
    policy_violations: list[str] = field(default_factory=list)
    failed_requests: list[str] = field(default_factory=list)

    def on_policy_violation(self, text: str) -> None:
        self.policy_violations.append(text)

    def assert_clean(self) -> None:
        """Fail when the page had a script or console error, or broke the content policy."""
        assert self.policy_violations == []
        assert self.console_errors == []
        assert self.failed_requests == []


@dataclass(frozen=True)
class Pages:
    """Opens pages in one running browser; each has cookies of its own."""

    browser: Browser
    close_later: contextlib.ExitStack

    def open(
        self,
        *,
        javascript: bool = True,
        size: tuple[int, int] = DESKTOP,
        color_scheme: Literal["light", "dark"] = "light",
        scale: float = 1,
        heeds_policies: bool = True,
    ) -> WatchedPage:
        """A new page; `size` in CSS pixels, `scale` in device pixels for each of them.

        Without `heeds_policies` a Content Security Policy hides no fault of a page.
        """
        context = self.browser.new_context(
            java_script_enabled=javascript,
            viewport={"width": size[0], "height": size[1]},
            device_scale_factor=scale,
            color_scheme=color_scheme,
            reduced_motion="reduce",
            bypass_csp=not heeds_policies,
        )
        self.close_later.callback(context.close)
        context.set_default_timeout(PATIENT)
        watched = WatchedPage(context.new_page())
        if javascript:
            context.expose_function("reportPolicyViolation", watched.on_policy_violation)
            context.add_init_script(REPORT_VIOLATIONS)
        _watch(watched)
        return watched


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium, started once and closed at the end with all its pages."""
    program = binaries.find("chromium")
    assert program is not None, INSTALL
    expect.set_options(timeout=PATIENT)
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=list(ARGUMENTS)) as browser,
    ):
        yield browser


def _watch(watched: WatchedPage) -> None:
    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            watched.console_errors.append(f"{message.text} ({message.location.get('url')})")

    watched.page.on("console", on_console)
    watched.page.on("pageerror", lambda error: watched.console_errors.append(str(error)))
    watched.page.on(
        "response",
        lambda response: (
            watched.failed_requests.append(f"{response.status} {response.url}")
            if response.status >= 400
            else None
        ),
    )
