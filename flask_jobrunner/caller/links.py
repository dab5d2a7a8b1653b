"""Absolute addresses of job pages, also where there is no request."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask_jobrunner.model.errors import ConfigError, JobNotFound
from flask_jobrunner.runtime import Runtime

from .prepare import base_url


def url_for(runtime: Runtime, ref: int | str, **values: Any) -> str:
    """See `JobRunner.url_for`. `_anchor` is the fragment, everything else the query."""
    prefix = runtime.config.url_prefix
    if prefix is None:
        raise ConfigError("There is no dashboard: JOBRUNNER_URL_PREFIX is None.")
    seen = runtime.jobs.owned(ref)
    if seen is None:
        raise JobNotFound(f"There is no job {ref}.")
    base = runtime.config.base_url or seen.base_url or base_url(runtime)
    if base is None:
        raise ConfigError(
            "No base URL is known for this job: it was not started from a request. Set "
            "JOBRUNNER_BASE_URL."
        )
    anchor = values.pop("_anchor", None)
    query = urlencode({key: value for key, value in values.items() if value is not None})
    address = f"{base}{prefix}/{seen.job.uuid}"
    return address + (f"?{query}" if query else "") + (f"#{anchor}" if anchor else "")
