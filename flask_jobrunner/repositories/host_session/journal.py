"""What one connection has written, savepoint by savepoint."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from .statements import Does, Effect

_order = itertools.count()


@dataclass(slots=True)
class _Level:
    """What was done since one savepoint (or the start) and before the next."""

    savepoint: str = ""
    wrote_at: int = 0
    statement: str = ""
    promises: list[int] = field(default_factory=list)

    def absorb(self, other: _Level) -> None:
        if other.wrote_at >= self.wrote_at and other.statement:
            self.wrote_at, self.statement = other.wrote_at, other.statement
        self.promises += other.promises

    def forget(self) -> None:
        self.wrote_at, self.statement = 0, ""
        self.promises.clear()


class Journal:
    """The writes and promises of one connection that no rollback has undone.

    It holds texts and numbers only: whatever it referred to could keep the connection alive.
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._levels = [_Level()]

    def begin(self) -> int:
        """A session begins on this connection; the number tells its writes from older ones."""
        self._epoch += 1
        return self._epoch

    def note(self, effect: Effect, statement: str) -> None:
        """Take in one statement that is about to be executed."""
        match effect.does:
            case Does.WRITE:
                level = self._levels[-1]
                level.wrote_at, level.statement = self._epoch, statement
            case Does.SAVEPOINT:
                self._levels.append(_Level(effect.savepoint))
            case Does.RELEASE:
                self._fold(effect.savepoint)
            case Does.ROLLBACK_TO:
                self._undo(effect.savepoint)
            case Does.ROLLBACK:
                self._levels = [_Level()]

    def written_since(self, epoch: int) -> str | None:
        """The last write since that number that still stands."""
        for level in reversed(self._levels):
            if level.statement and level.wrote_at >= epoch:
                return level.statement
        return None

    def savepoints(self) -> list[str]:
        """The names of the levels, from the transaction, which has none, to the last savepoint."""
        return [level.savepoint for level in self._levels]

    def promise(self) -> int:
        """A new number, given up again when what was done here so far is rolled back."""
        number = next(_order)
        self._levels[-1].promises.append(number)
        return number

    def keeps(self, number: int) -> bool:
        """Whether nothing has undone what was promised under this number."""
        return any(number in level.promises for level in self._levels)

    def _fold(self, savepoint: str) -> None:
        index = self._find(savepoint)
        if index:
            for level in self._levels[index:]:
                self._levels[index - 1].absorb(level)
            del self._levels[index:]

    def _undo(self, savepoint: str) -> None:
        # The savepoint itself stays: it may be rolled back to again.
        index = self._find(savepoint)
        if index:
            del self._levels[index + 1 :]
            self._levels[index].forget()

    def _find(self, savepoint: str) -> int:
        # An unknown name gives 0: then nothing is taken for undone.
        for index in range(len(self._levels) - 1, 0, -1):
            if self._levels[index].savepoint == savepoint:
                return index
        return 0
