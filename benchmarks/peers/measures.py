"""The measures beside other tools, by name; each prints its rows and says how many targets missed.

A round of `throughput` and `death` takes long, so they have a fifth of the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.peers import death, latency, loss, throughput


def _throughput(names: Sequence[str], rounds: int) -> int:
    return throughput.run(names, max(1, rounds // 5))


def _death(names: Sequence[str], rounds: int) -> int:
    return death.run(names, max(1, rounds // 5))


def _loss(names: Sequence[str], _: int) -> int:
    return loss.run(names)


MEASURES: dict[str, Callable[[Sequence[str], int], int]] = {
    "latency": latency.run,
    "throughput": _throughput,
    "death": _death,
    "loss": _loss,
}
