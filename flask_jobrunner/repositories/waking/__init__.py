"""How a supervisor hears of a new job without asking for one all the time."""

from .listener import Listener, ListenerLost, Unheard
from .repository import WakeRepository

__all__ = ["Listener", "ListenerLost", "Unheard", "WakeRepository"]
