"""The process that asks, in which a fault may be armed: `asker.py WHAT …`.

`start PAYLOAD` and `session PAYLOAD` stay until their input ends, as a web server does; `enqueue
PAYLOAD`, `cancel JOB` and `requeue JOB` end at once.
"""

from __future__ import annotations

import json
import sys

from tests.host_app import create_app, db, jobs

LOCK = "matrix"


def main(what: str, argument: str) -> None:
    """Do it once."""
    if what == "start":
        jobs.start("host.script", json.loads(argument), lock_key=LOCK)
    elif what == "session":
        jobs.start("host.script", json.loads(argument), lock_key=LOCK, session=db.session)
        db.session.commit()
    elif what == "enqueue":
        jobs.enqueue("host.script", json.loads(argument), lock_key=LOCK)
    elif what == "cancel":
        jobs.cancel(argument)
    elif what == "requeue":
        jobs.requeue(argument)


if __name__ == "__main__":
    with create_app().app_context():
        main(*sys.argv[1:])
        if sys.argv[1] in ("start", "session", "requeue"):
            sys.stdin.read()
