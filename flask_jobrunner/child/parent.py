"""What the child tells its parent. A parent that is gone changes nothing."""

from __future__ import annotations

from typing import Any

from flask_jobrunner.protocol.messages import dump_message

from .descriptors import PrivateFd
from .steady import Owner


class Parent:
    """The other end of the ack pipe; without one, nobody."""

    def __init__(self, ack: PrivateFd | None, owner: Owner) -> None:
        self._ack = ack
        self._owner = owner

    def tell(self, kind: str, **values: Any) -> bool:
        """Send one message; False when nobody can hear it."""
        if self._ack is None or not self._owner.is_here():
            return False
        return self._ack.write(dump_message(kind, **values))
