"""A tab that nobody sees asks nothing, and asks at once when it is seen again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure
from benchmarks.pages import host_on, opened, serving
from tests.dashboard.seeding import add_job
from tests.helpers.waiting import eventually

SECONDS = 60
AGAIN = 5
HIDE = """(hidden) => {
  const get = () => Boolean(hidden), begun = performance.now();
  Object.defineProperty(document, "hidden", { configurable: true, get });
  document.dispatchEvent(new Event("visibilitychange"));
  return begun;
}"""
ASKED = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/_live'))"


def figures(names: Sequence[str]) -> Iterator[Figure]:
    """Requests while hidden, and how long the first one afterwards takes to begin."""
    # It is the browser that is measured: one database will do.
    with host_on(names[0]) as host, opened() as watched:
        assert host is not None
        page, uuid = watched.page, add_job(host.runtime, "running")
        with serving(host.app) as url:
            page.goto(f"{url}/jobs/{uuid}")
            eventually(lambda: page.evaluate(f"{ASKED}.length"))
            page.evaluate(HIDE, "hidden")
            time.sleep(1)
            before = page.evaluate(f"{ASKED}.length")
            time.sleep(SECONDS)
            asked = page.evaluate(f"{ASKED}.length") - before
            yield Figure(
                measure=f"requests of a hidden tab in {SECONDS} s",
                where=names[0],
                value=asked,
                unit="",
                target=0,
            )
            waits = []
            for _ in range(AGAIN):
                page.evaluate(HIDE, "hidden")
                time.sleep(2)
                shown = page.evaluate(HIDE, "")
                later = f"{ASKED}.map((e) => e.startTime).filter((time) => time >= {shown})"
                asked_at = eventually(lambda later=later: page.evaluate(later))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                waits.append(min(asked_at) - shown)
            yield Figure(
                measure="shown again: longest wait for a request",
                where=names[0],
                value=max(waits),
                unit="ms",
                target=300,
            )
