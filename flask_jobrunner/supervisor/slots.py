"""How many jobs may still be taken on this host."""

from __future__ import annotations

from flask_jobrunner.protocol import identity
from flask_jobrunner.runtime import Runtime


def orphans(runtime: Runtime) -> int:
    """The pulled jobs that run on this host and whose supervisor is gone.

    They finish by themselves, and take up the slots of whoever comes after it.
    """
    instance = runtime.config.instance
    here = identity.this_process(instance)
    if here.host is None:
        return 0
    return sum(
        identity.look(job.parent, instance) == "dead"
        and identity.look(job.worker, instance) != "dead"
        for job in runtime.dispatch.running_on(here.host)
    )
