"""Every page of the dashboard in every state: one list for tests and screenshots alike."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, Route
from werkzeug.test import TestResponse

from tests.browser.conftest import serving
from tests.browser.worlds import World, make_worlds
from tests.dashboard.hosts import host_factory, make_empty_database
from tests.dashboard.seeding import add_job
from tests.helpers.browser import DESKTOP, PHONE

THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZES = (DESKTOP, PHONE)
OURS = {"Sec-Fetch-Site": "same-origin"}
MISSING = "01a22706-15d6-7a3d-b858-606442022120"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One page in one state. `{name}` in its path is the uuid of a job of its world."""

    name: str
    path: str
    world: str = "shop"
    status: int = 200
    press: str = ""
    """The button that is pressed there."""
    act: Callable[[Page, World], None] | None = None
    """What happens while the page is open."""
    noisy: bool = False
    """Whether the browser itself reports on the console what the picture is of."""


def _list_news(page: Page, world: World) -> None:
    for number in (1, 2, 3):
        add_job(world.host.runtime, title=f"Late letter {number}")
    page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
    page.locator(".jr-news").wait_for()


def _server_gone(page: Page, _: World) -> None:
    page.route("**/_live*", lambda route: route.abort())
    page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
    page.locator("[data-state=late], [data-state=stale]").wait_for()


def _signed_out(page: Page, _: World) -> None:
    def login(route: Route) -> None:
        route.fulfill(status=200, content_type="text/html", body="<h1>Sign in</h1>")

    page.route("**/_live*", login)
    page.evaluate("htmx.trigger('#jr-poll', 'jr:now')")
    page.locator("#jr-alert:not(:empty)").wait_for()


def _paused(page: Page, _: World) -> None:
    page.get_by_label("Updates").select_option("off")


def _question(page: Page, _: World) -> None:
    page.locator("[data-jr-ask]").click()
    page.locator(".jr-embed-ask").wait_for()


def _picture(name: str, path: str, **options: Any) -> Picture:
    return Picture(name=name, path=path, **options)


JOBS = (
    "waiting", "untaken", "later", "running", "counting", "quiet", "silent", "late", "cancelling",
    "succeeded", "failed", "cancelled", "interrupted", "lost", "bare", "old", "coloured",
)  # fmt: skip

PICTURES: tuple[Picture, ...] = (
    _picture("list-full", "/jobs/"),
    _picture("list-empty", "/jobs/", world="empty"),
    _picture("list-no-match", "/jobs/?q=heron&status=lost"),
    _picture("list-other-state", "/jobs/?status=running", world="crowd"),
    _picture("list-search", "/jobs/?q=orders&type=orders.import"),
    _picture("list-failed", "/jobs/?status=failed", world="crowd"),
    _picture("list-second-page", "/jobs/?cursor=100", world="crowd"),
    _picture("list-news", "/jobs/?q=letter", world="crowd", act=_list_news),
    _picture("list-read-only", "/jobs/", world="reader"),
    _picture("list-bad-address", "/jobs/?status=nonsense", status=400),
    *(_picture(f"job-{name}", f"/jobs/{{{name}}}") for name in JOBS),
    _picture("job-read-only", "/jobs/{running}", world="reader"),
    _picture("job-paused", "/jobs/{quiet}", act=_paused),
    _picture("job-server-gone", "/jobs/{quiet}", act=_server_gone, noisy=True),
    _picture("job-signed-out", "/jobs/{counting}", act=_signed_out),
    _picture("ask-cancel", "/jobs/{running}/cancel"),
    _picture("ask-cancel-queued", "/jobs/{untaken}/cancel"),
    _picture("ask-requeue", "/jobs/{failed}/requeue"),
    _picture("ask-requeue-lost", "/jobs/{lost}/requeue"),
    _picture("ask-force-stop", "/jobs/{cancelling}/force-stop"),
    _picture("ask-close", "/jobs/{lost}/force-stop"),
    _picture("ask-again", "/jobs/{succeeded}/again"),
    _picture("ask-run", "/jobs/types/orders.import/run"),
    _picture("ask-drain", "/jobs/supervisors/s1/drain"),
    _picture("ask-bulk-cancel", "/jobs/bulk/cancel", world="crowd"),
    _picture("ask-bulk-requeue", "/jobs/bulk/requeue?status=failed", world="crowd"),
    _picture("bulk-told", "/jobs/bulk/cancel?q=of+130", world="bulk", press="Cancel"),
    _picture("log", "/jobs/{running}/log"),
    _picture("log-search", "/jobs/{running}/log?q=postcode&line=12"),
    _picture("log-range", "/jobs/{running}/log?line=8#L8-L14"),
    _picture("log-no-match", "/jobs/{running}/log?q=heron&find=next"),
    _picture("log-filtered", "/jobs/{running}/log?level=warning"),
    _picture("log-attempts", "/jobs/{interrupted}/log"),
    _picture("log-errors", "/jobs/{failed}/log"),
    _picture("log-removed", "/jobs/{old}/log"),
    _picture("log-empty", "/jobs/{bare}/log"),
    _picture("log-colours", "/jobs/{coloured}/log"),
    _picture("types", "/jobs/types"),
    _picture("types-empty", "/jobs/types", world="empty"),
    _picture("type", "/jobs/types/orders.import"),
    _picture("type-one-run", "/jobs/types/stock.sync"),
    _picture("type-not-run", "/jobs/types/stock.count"),
    _picture("supervisors", "/jobs/supervisors"),
    _picture("supervisors-none", "/jobs/supervisors", world="empty"),
    _picture("prefs", "/jobs/prefs"),
    _picture("prefs-kept", "/jobs/prefs", press="Keep preferences"),
    _picture("error-not-allowed", "/jobs/{running}/cancel", world="reader", status=403),
    _picture("error-list-not-allowed", "/jobs/", world="stranger", status=403),
    _picture("error-not-configured", "/jobs/", world="closed", status=403),
    _picture("error-no-job", f"/jobs/{MISSING}", status=404),
    _picture("error-no-file", "/jobs/{succeeded}/artifacts/other.csv", status=404),
    _picture("error-file-gone", "/jobs/{succeeded}/artifacts/preview.png", status=410),
    _picture("error-too-late", "/jobs/{succeeded}/cancel", status=409),
    _picture("error-nothing-to-do", "/jobs/bulk/cancel", world="empty", status=409),
    _picture("error-database", "/jobs/", world="away", status=503),
    _picture("open-in-debug-mode", "/jobs/", world="developer"),
    _picture("widget-running", "/orders/{running}"),
    _picture("widget-succeeded", "/orders/{succeeded}"),
    _picture("widget-failed", "/orders/{failed}"),
    _picture("widget-absent", f"/orders/{MISSING}"),
    _picture("widget-question", "/orders/{counting}", act=_question),
    _picture("widget-my-jobs", "/account"),
)


def path_of(picture: Picture, world: World) -> str:
    """The address below the host's root."""
    return picture.path.format_map(world.names)


@contextlib.contextmanager
def open_worlds(folder: Path) -> Iterator[dict[str, World]]:
    """The worlds, with their files in `folder`."""
    empty = make_empty_database(folder / "empty.sqlite")
    with host_factory(folder, empty) as make:
        yield make_worlds(make, folder / "files")


def answer(worlds: dict[str, World], picture: Picture) -> TestResponse:
    """The same page without a browser; a button is pressed by sending its form."""
    world = worlds[picture.world]
    path, client = path_of(picture, world).partition("#")[0], world.host.app.test_client()
    headers = {"X-Forwarded-For": "203.0.113.7"} if world.forwarded else {}
    shown = client.get(path, headers=headers)
    assert shown.status_code == picture.status, picture.name
    if picture.press:
        fields = dict(
            re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', shown.text)
        )
        shown = client.post(path, data=fields, headers=headers | OURS, follow_redirects=True)
        assert shown.status_code == 200, picture.name
    return shown


@dataclass(frozen=True)
class Stage:
    """The worlds, served."""

    worlds: dict[str, World]
    urls: dict[str, str]

    def show(self, page: Page, picture: Picture) -> None:
        """Bring a page to what the picture is of."""
        page.set_default_timeout(60_000)
        world = self.worlds[picture.world]
        page.goto(self.urls[picture.world] + path_of(picture, world))
        if picture.press:
            page.get_by_role("button", name=picture.press).click()
            page.wait_for_load_state()
        if picture.act is not None:
            picture.act(page, world)


def views(page: Page) -> Iterator[tuple[Literal["light", "dark"], tuple[int, int]]]:
    """One open page in each theme and at each size; as a phone it is touched."""
    touch = page.context.new_cdp_session(page)
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for width, height in SIZES:
            touched = {"enabled": (width, height) == PHONE, "maxTouchPoints": 1}
            touch.send("Emulation.setTouchEmulationEnabled", touched)
            page.set_viewport_size({"width": width, "height": height})
            yield theme, (width, height)
    touch.detach()


@contextlib.contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """The worlds on ports of this machine."""
    with open_worlds(folder) as worlds, serving() as serve:
        urls = {}
        for name, world in worlds.items():
            if world.forwarded:
                _put_behind_a_proxy(world)
            urls[name] = serve(world.host.app).url
        yield Stage(worlds, urls)


def _put_behind_a_proxy(world: World) -> None:
    inner = world.host.app.wsgi_app

    def forwarded(environ: dict[str, Any], start_response: Any) -> Any:
        return inner({**environ, "HTTP_X_FORWARDED_FOR": "203.0.113.7"}, start_response)

    world.host.app.wsgi_app = forwarded  # type: ignore[method-assign]  # as Flask's docs wrap it
