"""What hears of new jobs, whatever the database."""

from __future__ import annotations

from typing import Protocol


class ListenerLost(Exception):
    """Nothing more will be heard here; another listener may hear."""


class Unheard(ListenerLost):
    """It could be opened, and does not hear its own echo."""


class Listener(Protocol):
    """A descriptor for the loop's poll, and what may have become of it.

    Nothing here waits, but for `close`. A hint may be wrong: it says where to look, not what
    there is.
    """

    fd: int
    how: str
    """Completes "Hears of new jobs …"."""
    echoes: bool
    """Whether it can be cut off without a sign, so that what it hears has to be proven."""

    @property
    def left(self) -> float:
        """Seconds until `heard` should be asked although nothing is there to be read."""

    def heard(self) -> bool:
        """Whether a new job may be there. Raises `ListenerLost`."""

    def has_echoed(self, word: str) -> bool:
        """Whether this echo was heard lately; others' may have come before it or behind it."""

    def close(self) -> None:
        """Give everything back."""
