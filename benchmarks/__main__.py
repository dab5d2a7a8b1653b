"""`make bench`: print each measure as median (10th to 90th percentile), ratio and target.

With a name, as in `python -m benchmarks tail`, the figures of what people see in a browser, or
ours beside other tools: `latency`, `throughput`, `death`, `loss`, or `peers` for these four. With
`all` every figure there is, one after the other, and at the end how many targets were missed.

Both sides of a ratio are taken in turns in this one run, so that it says something about the code
and little about the machine. PostgreSQL and MariaDB are measured where they are installed; their
servers here do not wait for the disk, which is to the advantage of the bare side.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

import sqlalchemy as sa

from benchmarks import answers, databases, download, hidden, host_app, tail, visible
from benchmarks.figures import Figure, report
from benchmarks.measures import Bench
from benchmarks.peers.measures import MEASURES as PEERS
from benchmarks.timing import HEADER

DATABASES = ("sqlite", "postgresql", "mariadb")
BY_NAME: dict[str, Callable[[Sequence[str]], Iterator[Figure]]] = {
    "answers": answers.figures,
    "download": download.figures,
    "hidden": hidden.figures,
    "line": answers.line_figures,
    "tail": tail.figures,
    "visible": visible.figures,
}

NAMES = ("all", "jobs", *BY_NAME, "peers", *PEERS)
GROUPS = {"all": ("jobs", *BY_NAME, *PEERS), "peers": tuple(PEERS)}


def main() -> int:
    """Measure; answers 1 when a target is not met and `--strict` was asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES, default="jobs")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--database", choices=DATABASES, action="append")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    print(_machine())
    wanted = GROUPS.get(options.name, (options.name,))
    missed = {name: _measured(name, options, title=len(wanted) > 1) for name in wanted}
    if len(wanted) > 1:
        print("Missed: " + (", ".join(f"{k} {n}" for k, n in missed.items() if n) or "nothing"))
    return 1 if any(missed.values()) and options.strict else 0


def _measured(name: str, options: argparse.Namespace, *, title: bool) -> int | str:
    """How many targets were missed. Of several measures, one that fails does not end the rest."""
    if not title:
        return _rows(name, options)
    print(f"\n{name}", flush=True)
    try:
        return _rows(name, options)
    except Exception:  # noqa: BLE001 - the next one may have all it needs
        traceback.print_exc()
        return "failed"


def _rows(name: str, options: argparse.Namespace) -> int:
    names = options.database or ("sqlite", "postgresql")
    if name == "jobs":
        return _jobs(options)
    if name in PEERS:
        return PEERS[name](names, options.rounds)
    return report(BY_NAME[name](names))


def _jobs(options: argparse.Namespace) -> int:
    print(HEADER)
    missed = 0
    for name in options.database or DATABASES:
        with bench_on(name) as bench:
            if bench is None:
                print(f"{name}: not installed, not measured")
                continue
            for comparison in bench.measures(options.rounds, options.lines):
                print(comparison.line(), flush=True)
                missed += not comparison.is_met
    return missed


@contextmanager
def bench_on(name: str) -> Iterator[Bench | None]:
    """The application on a new database of this kind, or None where there is no server."""
    with ExitStack() as stack:
        urls = databases.urls(name, stack, 2)
        if urls is None:
            yield None
            return
        app = host_app.made(urls[0])
        second = sa.create_engine(urls[1])
        stack.callback(second.dispose)
        with app.app_context():
            host_app.db.create_all()
            host_app.db.metadata.create_all(second)
            stack.callback(host_app.db.engine.dispose)
        yield Bench(name, app, second)


def _machine() -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("Flask", "SQLAlchemy"))
    return (
        f"Python {platform.python_version()}, {libraries}, {os.cpu_count()} cores, "
        f"{platform.system()} {platform.release()}"
    )


if __name__ == "__main__":
    sys.exit(main())
