"""The tests' own browser notices what it is there to notice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.helpers.waiting import eventually

if TYPE_CHECKING:
    from tests.helpers.browser import WatchedPage

pytestmark = pytest.mark.browser

PAGES = {
    "/clean": "<title>clean</title><noscript><p id=off>off</p></noscript>",
    "/inline": "<title>inline</title><script>document.title = 'ran'</script>",
    "/broken": "<title>broken</title><script src=/missing.js></script>",
}


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        body = (page or "not here").encode()
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_clean_page_is_clean(browser_page: WatchedPage, address: str) -> None:
    browser_page.page.goto(f"{address}/clean")

    browser_page.assert_clean()
    assert browser_page.page.title() == "clean"


def test_an_inline_script_is_a_violation(browser_page: WatchedPage, address: str) -> None:
    page = browser_page.page
    page.goto(f"{address}/inline")

    eventually(lambda: page.title() and browser_page.policy_violations, message="violation seen")
    assert page.title() == "inline"
    assert browser_page.console_errors


def test_a_missing_file_is_an_error(browser_page: WatchedPage, address: str) -> None:
    page = browser_page.page
    page.goto(f"{address}/broken")

    eventually(lambda: page.title() and browser_page.console_errors, message="error seen")
    assert browser_page.failed_requests == [f"404 {address}/missing.js"]


def test_javascript_can_be_off(browser_page_without_javascript: WatchedPage, address: str) -> None:
    page = browser_page_without_javascript.page
    page.goto(f"{address}/clean")

    assert page.inner_text("#off") == "off"
