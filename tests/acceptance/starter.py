"""A process that starts jobs of the tests' host application: `starter.py race|hold …`.

Prints one JSON line. `race GO KEY COUNT`: waits for the file GO, then COUNT threads start a job
with the lock key at once. `hold PAYLOAD`: starts one job and stays, as a web server does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flask import Flask

from tests.host_app import create_app, jobs


def race(app: Flask, go: str, key: str, count: str) -> list[dict[str, str]]:
    """What each of `count` starts at once answered."""
    together = threading.Barrier(int(count))
    print("ready", flush=True)
    while not Path(go).exists():
        time.sleep(0.002)

    def start(_: int) -> dict[str, str]:
        with app.app_context():
            together.wait()
            # The holder goes on until the test has counted.
            payload = {"do": [["wait_for_file", f"{go}.over"]]}
            result = jobs.start("host.script", payload, lock_key=key)
            return {"status": result.status, "uuid": result.job.uuid}

    with ThreadPoolExecutor(int(count)) as pool:
        return list(pool.map(start, range(int(count))))


def hold(app: Flask, payload: str) -> dict[str, str]:
    """The uuid of the job that was started."""
    with app.app_context():
        return {"uuid": jobs.start("host.script", json.loads(payload)).job.uuid}


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    host = create_app()
    answer = race(host, *arguments) if command == "race" else hold(host, *arguments)
    print(json.dumps(answer), flush=True)
    if command == "hold":
        time.sleep(600)
