"""New databases of each kind."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.servers import mariadb, postgresql


def urls(name: str, stack: ExitStack, number: int = 1) -> list[str] | None:
    """The addresses of so many empty databases, or None where there is no server of this kind."""
    if name == "sqlite":
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return [f"sqlite:///{folder / f'{each}.sqlite'}" for each in range(number)]
    kind = postgresql if name == "postgresql" else mariadb
    if kind.programs() is None:
        return None
    server = kind.start()
    stack.callback(server.server.stop)
    return [stack.enter_context(server.fresh_database()) for _ in range(number)]
