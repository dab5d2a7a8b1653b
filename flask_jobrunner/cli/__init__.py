"""`flask jobs …`: one file a group of commands, loaded when it is called."""

from .group import jobs

__all__ = ["jobs"]
