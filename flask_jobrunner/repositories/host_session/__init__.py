"""What the host's own database session holds, and how a job's row joins its transaction.

`watch()` once, early; then `uncommitted(db.session)` before a start on our own connection, or
`join(...)` and `on_root_commit(...)` for a start with `session=`. `outside` and `own_scope` are
for a host's tests, where jobs and sessions share a connection.
"""

from .aside import outside, own_scope
from .changes import Uncommitted, existing_session, uncommitted
from .joined import SessionRefused, bind_of, join, on_root_commit
from .watching import watch

__all__ = [
    "SessionRefused",
    "Uncommitted",
    "bind_of",
    "existing_session",
    "join",
    "on_root_commit",
    "outside",
    "own_scope",
    "uncommitted",
    "watch",
]
