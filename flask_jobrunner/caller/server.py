"""What the server around this process does to it, where that changes how jobs are launched."""

from __future__ import annotations

import logging
import sys
from functools import lru_cache

log = logging.getLogger("flask_jobrunner")


@lru_cache(maxsize=1)
def threads_rest() -> bool:
    """Whether this process's threads stand still between requests; says so once.

    uWSGI without `enable-threads` keeps the interpreter's lock while it waits for requests (its
    newer versions never do). The module exists inside uWSGI's processes only.
    """
    uwsgi = sys.modules.get("uwsgi")
    rest = uwsgi is not None and not getattr(uwsgi, "has_threads", True)
    if rest:
        log.warning(
            "uWSGI runs without threads: how jobs ended is recorded by a command of its own, which "
            "takes longer, and their watchers are waited for in later requests only. Set "
            "`enable-threads = true` in uWSGI's configuration."
        )
    return rest
