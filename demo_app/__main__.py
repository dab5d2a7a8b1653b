"""`python -m demo_app`: migrate, start a supervisor, serve on this machine, print the address."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import sys
import time

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from . import MIGRATIONS, create_app
from .extensions import db, jobs
from .supervisor import running_supervisor

HOST = "127.0.0.1"
DEFAULT_PORT = 5000
FAREWELL = 20.0
"""Seconds; more than the stubborn job has after a cancel."""
ACTIVE = ("queued", "running", "cancel_requested")


class QuietHandler(WSGIRequestHandler):
    """Says nothing about requests that went well: the one line to read is the address."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log server errors only."""
        if str(code).startswith("5"):
            super().log_request(code, size)


def main(arguments: list[str] | None = None) -> int:
    """Serve until Ctrl-C; answers the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo_app", description=__doc__)
    parser.add_argument(
        "--port", type=int, help=f"default: {DEFAULT_PORT}, or a free one when that is taken"
    )
    port: int | None = parser.parse_args(arguments).port
    try:
        listener = listen(port)
    except OSError as error:
        print(f"Port {port} cannot be used: {os.strerror(error.errno or 0)}.", file=sys.stderr)
        return 2
    app = create_app()
    with app.app_context():
        bring_database_up_to_date()
    with running_supervisor(app.instance_path):
        with listener:
            serve(app, listener)
        with app.app_context():
            stop_jobs()
    return 0


def listen(port: int | None) -> socket.socket:
    """A socket on the port; without one, on the default port or else on any free one."""
    try:
        return socket.create_server((HOST, DEFAULT_PORT if port is None else port))
    except OSError as error:
        if port is not None or error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return socket.create_server((HOST, 0))


def bring_database_up_to_date() -> None:
    """Migrate; where Flask-Migrate is not installed, create what is missing."""
    try:
        from flask_migrate import upgrade
    except ImportError:
        db.create_all()
    else:
        upgrade(directory=str(MIGRATIONS))


def serve(app: Flask, listener: socket.socket) -> None:
    """Print the address and answer requests until Ctrl-C."""
    host, port = listener.getsockname()
    server = make_server(
        host, port, app, threaded=True, request_handler=QuietHandler, fd=listener.fileno()
    )
    # Also where the shell has started us in the background, which ignores Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    print(f"http://{host}:{port}/", flush=True)
    try:
        server.serve_forever()
    finally:
        server.server_close()


def stop_jobs() -> None:
    """Ask the jobs that are left to stop, and wait a little.

    A job outlives the application that started it, which is what one wants of a deploy; but who
    has ended a demo expects nothing of it to go on.
    """
    active = jobs.find(status=ACTIVE, limit=200).jobs
    asked = [job.uuid for job in active if jobs.cancel(job.uuid, actor="end of the demo").ok]
    if asked:
        text = "Stopping the jobs that still run; Ctrl-C leaves them to themselves."
        print(text, flush=True)
    end = time.monotonic() + FAREWELL
    try:
        for uuid in asked:
            jobs.wait(uuid, max(0.0, end - time.monotonic()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(main())
