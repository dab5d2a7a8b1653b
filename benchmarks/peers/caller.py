"""The web process of one contestant: enqueues when told to, and says what the tool says of a job.

A line of JSON in, a line of JSON out. It is a process of its own, since the tools are installed
beside the project, not in its environment.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Obey until the input ends."""
    tool: Any = importlib.import_module(sys.argv[1])
    tool.prepare()
    _say(None)
    for line in sys.stdin:
        order, value = json.loads(line)
        _say(_enqueued(tool, value) if order == "enqueue" else tool.state(value))


def _enqueued(tool: Any, number: int) -> dict[str, object]:
    called = time.time_ns()
    reference = tool.enqueue(number)
    return {"called": called, "returned": time.time_ns(), "reference": reference}


def _say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
