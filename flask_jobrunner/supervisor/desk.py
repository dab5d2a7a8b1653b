"""Work beside the loop: whatever may wait, for a database or for processes that end slowly."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")
Task = tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]


class Desk:
    """A few threads that work, while what came of it is dealt with by the loop alone.

    `ring` wakes the loop; `around` surrounds each piece of work. The threads are daemons: a
    supervisor that ends does not wait for a database.
    """

    def __init__(
        self,
        name: str,
        ring: Callable[[], None],
        *,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        limit: int = 1,
    ) -> None:
        self._name = name
        self._ring = ring
        self._around = around
        self._limit = limit
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads = 0
        self.open = 0
        """Pieces of work that were asked for and are not dealt with yet."""

    @property
    def is_free(self) -> bool:
        """Whether work that is asked for now begins at once."""
        return self.open < self._limit

    def ask(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Have `work` done; then `then` or `failed` is called in `deliver`."""
        self.open += 1
        if self._threads < min(self.open, self._limit):
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except RuntimeError as error:  # no more threads for this user
                if not self._threads:
                    self._done.put(functools.partial(failed, error))
                    self._ring()
                    return
            else:
                self._threads += 1
        self._tasks.put((work, then, failed))

    def deliver(self) -> None:
        """Deal with what has come of the work so far."""
        while True:
            try:
                call = self._done.get_nowait()
            except queue.Empty:
                return
            self.open -= 1
            call()

    def _run(self) -> None:
        while True:
            work, then, failed = self._tasks.get()
            try:
                with self._around():
                    call = functools.partial(then, work())
            except BaseException as error:  # noqa: BLE001 - the loop hears of it
                told = error if isinstance(error, Exception) else RuntimeError(repr(error))
                call = functools.partial(failed, told)
            self._done.put(call)
            self._ring()
