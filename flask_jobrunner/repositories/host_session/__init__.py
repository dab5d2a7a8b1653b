"""What the host's own database session holds, and how a job's row joins its transaction.

`watch()` once, early; then `uncommitted(db.session)` before a start on our own connection, or
`join(...)` and `on_root_commit(...)` for a start with `session=`.
"""

from .changes import Uncommitted, uncommitted
from .joined import SessionRefused, join, on_root_commit
from .watching import watch

__all__ = [
    "SessionRefused",
    "Uncommitted",
    "join",
    "on_root_commit",
    "uncommitted",
    "watch",
]
