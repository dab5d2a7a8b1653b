"""10,000 lines at 200 a second in an open page: nothing shifts, halts or is missing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from playwright.sync_api import CDPSession

from benchmarks.figures import Figure
from benchmarks.pages import host_on, opened, serving
from tests.dashboard.hosts import Host
from tests.dashboard.seeding import add_job, add_lines

LINES = 10_000
RATE = 200
AT_ONCE = 50
WATCH = """
window.seen = { shift: 0, long: 0 };
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.seen.shift += entry.value;
}).observe({ type: "layout-shift" });
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    window.seen.long = Math.max(window.seen.long, entry.duration);
  }
}).observe({ type: "longtask" });
"""
IDS = "[...document.querySelectorAll('#jr-log p[id^=L]')].map((e) => Number(e.id.slice(1)))"


def figures(names: Sequence[str]) -> Iterator[Figure]:
    """On a processor of full speed, and on one of a quarter of it."""
    for slower, long_task in ((1, 100), (4, 200)):
        # It is the browser that is measured: one database will do.
        with host_on(names[0]) as host:
            assert host is not None
            yield from _tail(host, slower, long_task)


def _tail(host: Host, slower: int, long_task: float) -> Iterator[Figure]:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["line 1"])
    with serving(host.app) as url, opened() as watched:
        page = watched.page
        session = page.context.new_cdp_session(page)
        page.goto(f"{url}/jobs/{uuid}")
        page.wait_for_selector("#L1")
        session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        before = _heap(session)
        page.evaluate(WATCH)
        writer = threading.Thread(target=_write, args=(host, uuid))
        writer.start()
        page.wait_for_selector(f"#L{LINES}", state="attached", timeout=180_000)
        writer.join()
        seen, found = page.evaluate("window.seen"), page.evaluate(IDS)
        told = (
            ("layout shift", seen["shift"], "", 0.0),
            ("longest task", seen["long"], "ms", long_task),
            ("lines missing, twice or out of order", _wrong(found), "", 0),
            ("lines in the page", len(found), "", LINES),
            ("growth of the heap", (_heap(session) - before) / (1 << 20), "MiB", 30),
        )
        for label, value, unit, target in told:
            yield Figure(
                measure=f"{LINES:,} lines, {RATE}/s, processor 1/{slower}: {label}",
                where=host.runtime.database.dialect,
                value=value,
                unit=unit,
                target=target,
            )


def _write(host: Host, uuid: str) -> None:
    begun = time.monotonic()
    for start in range(2, LINES + 1, AT_ONCE):
        lines = range(start, min(start + AT_ONCE, LINES + 1))
        add_lines(host.runtime, uuid, [f"line {n} of this job, as long as usual" for n in lines])
        time.sleep(max(0.0, begun + lines[-1] / RATE - time.monotonic()))


def _wrong(found: list[int]) -> int:
    return (
        sum(a != b for a, b in zip(found, range(1, LINES + 1), strict=False)) + LINES - len(found)
    )


def _heap(session: CDPSession) -> int:
    session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    return used
