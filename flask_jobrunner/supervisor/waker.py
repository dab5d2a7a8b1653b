"""Hears of new jobs where the database tells of them, and asks for them in short where not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from select import POLLIN

from flask_jobrunner.model.words import duration
from flask_jobrunner.repositories.waking import Listener, ListenerLost
from flask_jobrunner.runtime import Runtime

from .backoff import Backoff
from .desk import Desk
from .log import Log

ASK_EVERY = 0.2
"""Seconds between two questions whether anything has happened, where nobody tells."""
FAILED_PAUSE = 3.0
PROVE_WITHIN = 2.0
"""Seconds within which a listener that is new has to hear its own echo."""
PROVE_EVERY, ECHO_WITHIN = 30.0, 10.0
"""Seconds between two proofs, and until an echo that does not come means that nothing does."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class Waker:
    """A `Wake` that falls back by itself, and recovers. `desk` is for two pieces of work at once:
    a listener that is tried must not keep it from asking.
    """

    def __init__(
        self,
        runtime: Runtime,
        log: Log,
        *,
        desk: Desk,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime, self._log, self._desk, self._clock = runtime, log, desk, clock
        self._listener: Listener | None = None
        self._pause = Backoff(FIRST_PAUSE, LONGEST_PAUSE, clock)
        self._trying = self._asking = self._echoing = False
        self._told = ""
        self._mark: int | None = None
        self._ask_at = 0.0
        self._prove_at = math.inf
        self._echo, self._echo_by = "", math.inf
        self._hint = False
        self._closed = False

    def left(self, *, looking: bool) -> float:
        """Seconds until something is due."""
        now = self._clock()
        due = [self._prove_at, self._echo_by]
        if self._listener is None and looking and not self._asking:
            due.append(self._ask_at)
        listening = math.inf if self._listener is None else self._listener.left
        trying = math.inf if self._listener or self._trying else self._pause.left
        return max(0.0, min(min(due) - now, listening, trying))

    def interest(self) -> dict[int, int]:
        """What to poll for."""
        return {} if self._listener is None else {self._listener.fd: POLLIN}

    def heard(self, ready: Mapping[int, int], *, looking: bool) -> bool:
        """Whether a new job may be there."""
        self._desk.deliver()
        if self._listener is None:
            self._try()
            self._ask(looking)
        else:
            self._listen(self._listener, ready)
        hint, self._hint = self._hint, False
        return hint

    def close(self) -> None:
        """Hear no more."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    # -- listening --------------------------------------------------------------------------------

    def _try(self) -> None:
        if self._trying or self._closed or self._pause.left > 0:
            return
        self._trying = True
        self._desk.ask(self._open, self._opened, self._failed)

    def _open(self) -> Listener | None:
        return self._runtime.waking.listen_proven(PROVE_WITHIN)

    def _opened(self, listener: Listener | None) -> None:
        if listener is None:  # and it stays so: the database is of that kind
            self._say(f"Asks for new jobs every {duration(ASK_EVERY)}.", "asking")
            return
        if self._closed:
            listener.close()
            return
        self._trying = False
        self._pause.succeed()
        self._listener = listener
        self._next_proof()
        self._hint = True  # what came before it listened told nobody
        self._say(f"Hears of new jobs {listener.how}.", "listening")

    def _failed(self, error: Exception) -> None:
        self._trying = False
        self._pause.fail()
        why = str(error) if isinstance(error, ListenerLost) else type(error).__name__
        text = f"Does not hear of new jobs: {why}. Asks every {duration(ASK_EVERY)} meanwhile."
        self._say(text, "not_listening")

    def _listen(self, listener: Listener, ready: Mapping[int, int]) -> None:
        try:
            if listener.fd in ready or listener.left <= 0:
                self._hint = listener.heard() or self._hint
            self._prove(listener)
        except ListenerLost as error:
            self._listener = None
            self._prove_at = self._echo_by = math.inf
            self._hint = True
            listener.close()
            self._failed(error)

    def _prove(self, listener: Listener) -> None:
        now = self._clock()
        if self._echo and listener.has_echoed(self._echo):
            self._next_proof()
        elif now >= self._echo_by:
            raise ListenerLost("its echo did not come back")
        elif now >= self._prove_at and not self._echoing:
            self._prove_at, self._echoing = math.inf, True
            echoed = partial(self._echoed, listener)
            self._desk.ask(self._runtime.waking.echo, echoed, self._not_echoed)

    def _echoed(self, listener: Listener, word: str) -> None:
        self._echoing = False
        if self._listener is listener:  # another one began to listen after it was told
            self._echo, self._echo_by = word, self._clock() + ECHO_WITHIN

    def _not_echoed(self, _: Exception) -> None:
        """The database does not answer: that proves nothing about what it tells."""
        self._echoing = False
        if self._listener is not None:
            self._next_proof()

    def _next_proof(self) -> None:
        proven = self._listener is not None and self._listener.echoes
        self._prove_at = self._clock() + PROVE_EVERY if proven else math.inf
        self._echo, self._echo_by = "", math.inf

    # -- asking -----------------------------------------------------------------------------------

    def _ask(self, looking: bool) -> None:  # noqa: FBT001 - the one thing it depends on
        if looking and not self._asking and self._clock() >= self._ask_at:
            self._asking = True
            self._desk.ask(self._runtime.waking.mark, self._marked, self._not_marked)

    def _marked(self, mark: int) -> None:
        self._asking = False
        self._ask_at = self._clock() + ASK_EVERY
        self._hint = self._hint or mark != self._mark
        self._mark = mark

    def _not_marked(self, _: Exception) -> None:
        self._asking = False
        self._ask_at = self._clock() + FAILED_PAUSE

    def _say(self, text: str, event: str) -> None:
        if text != self._told:
            self._told = text
            (self._log.warning if event == "not_listening" else self._log.info)(event, text)
