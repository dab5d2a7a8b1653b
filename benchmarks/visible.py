"""How soon a line that a job prints can be seen in a page that is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks import databases, host_app
from benchmarks.figures import Figure, percentile
from benchmarks.pages import opened, serving
from tests.helpers.waiting import eventually

LINES = 200
PAUSE = 0.05
SECONDS = 1.5
SHARE = 95
WATCH = """
window.seen = [];
const log = document.getElementById("jr-log");
new MutationObserver(() => requestAnimationFrame(() => {
  const now = Date.now() / 1000;
  for (const line of log.querySelectorAll("p[id^=L]:not([data-seen])")) {
    line.dataset.seen = "";
    const [, number, at] = line.lastElementChild.textContent.match(/^(\\d+) ([\\d.]+)$/) || [];
    if (at) window.seen.push([Number(number), now - Number(at)]);
  }
})).observe(log, { childList: true });
"""


def figures(names: Sequence[str]) -> Iterator[Figure]:
    """Of the lines of a real job, from `print` to the frame in which the browser has them."""
    for name in names:
        with ExitStack() as stack:
            found = databases.urls(name, stack)
            if found is None:
                continue
            app = host_app.made(found[0])
            with app.app_context():
                host_app.db.create_all()
                stack.callback(host_app.db.engine.dispose)
                url = stack.enter_context(serving(app))
                page = stack.enter_context(opened()).page
                started = host_app.jobs.start("print-slowly", {"lines": LINES, "pause": PAUSE})
                assert started.ok, started
                page.goto(f"{url}/jobs/{started.job.uuid}")
                page.evaluate(WATCH)
                page.wait_for_selector(f"text=/^{LINES - 1} /", state="attached", timeout=120_000)
                last = f"window.seen.some(([number]) => number === {LINES - 1})"
                eventually(lambda page=page, last=last: page.evaluate(last))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                waits = dict(page.evaluate("window.seen"))
                host_app.jobs.wait(started.job.uuid, timeout=60)
            seen = list(waits.values())
            # Lines from before the page was open are none of its doing.
            yield _figure("lines seen", name, len(seen), "", LINES * 0.9, more=True)
            in_time = 100 * sum(wait <= SECONDS for wait in seen) / len(seen)
            yield _figure(f"seen within {SECONDS} s", name, in_time, "%", SHARE, more=True)
            yield _figure("p95 from print to page", name, percentile(seen, 95), "s", SECONDS)


def _figure(
    measure: str, where: str, value: float, unit: str, target: float, *, more: bool = False
) -> Figure:
    return Figure(
        measure=measure, where=where, value=value, unit=unit, target=target, more_is_better=more
    )
