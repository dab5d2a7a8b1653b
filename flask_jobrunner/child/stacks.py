"""Where the threads are: what faulthandler wrote while the process lives becomes lines."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from flask_jobrunner.model.records import NewLine
from flask_jobrunner.protocol.stacks import stack_lines
from flask_jobrunner.shim.evidence import STORED, unstored

from .descriptors import PrivateFd
from .steady import Clock

SETTLED = 0.2
"""Seconds after which what has not grown was written to its end."""
STACKS_BYTES = 64 << 10
TITLE = "The stacks of the process's threads at this moment:"


class Stacks:
    """`file` is faulthandler's. What is stored is marked in it, so that nobody stores it again:
    whatever the process cannot store itself any more, its parent's report brings.
    """

    def __init__(
        self,
        file: PrivateFd | None,
        *,
        clock: Clock,
        keys: Sequence[str],
        add_line: Callable[[NewLine], object],
    ) -> None:
        self._file, self._clock = file, clock
        self._keys, self._add_line = keys, add_line
        self._stored = 0
        self._grew = (0, 0.0)
        self._asked = False

    def ask_once(self) -> None:
        """Write the stacks, the first time that this is called.

        Not by the signal: that would cut short a C function that waits, and end the process of a
        handler that has given every signal its default effect.
        """
        if not self._asked and self._file is not None and self._file.is_ours():
            self._asked = True
            with suppress(OSError, ValueError, RuntimeError):
                faulthandler.dump_traceback(self._file.number, all_threads=True)

    def store(self, now: float) -> None:
        """Log what was written since the last time, once it is whole."""
        if self._file is None or not self._file.is_ours():
            return
        size = os.fstat(self._file.number).st_size
        if size == self._stored:
            return
        if size != self._grew[0]:
            self._grew = (size, now)
        elif now - self._grew[1] >= SETTLED:
            self._log(size)

    def _log(self, size: int) -> None:
        assert self._file is not None  # noqa: S101 - `store` has looked
        begin = max(self._stored, size - STACKS_BYTES)
        data = unstored(os.pread(self._file.number, size - begin, begin), begin)
        lines, at = stack_lines(data.decode("ascii", "replace"), self._keys), self._clock.now()
        for text in [TITLE, *lines] if lines else []:
            self._add_line(NewLine(text, "info", at=at))
        self._file.write(STORED % size)
        self._stored = os.fstat(self._file.number).st_size
