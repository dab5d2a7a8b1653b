"""RQ's default worker, whose forks find the application built, as its documentation advises."""

from __future__ import annotations

from rq import Queue, Worker

from benchmarks.peers.on_rq import connection

if __name__ == "__main__":
    Worker([Queue(connection=connection)], connection=connection).work()
