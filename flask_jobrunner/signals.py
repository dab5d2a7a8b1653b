"""Blinker signals. Sent after the commit by whoever recorded the change, never from a GET.

The sender is the Flask app; `job` is the record. A receiver's exception is logged, never raised.
`action_taken` is sent for every deed of the dashboard, with `action`, `actor`, `job`, `supervisor`.
"""

from __future__ import annotations

import logging
from typing import Any

from blinker import NamedSignal, Namespace

_namespace = Namespace()

job_created = _namespace.signal("jobrunner-job-created")
job_started = _namespace.signal("jobrunner-job-started")
job_finished = _namespace.signal("jobrunner-job-finished")
cancel_requested = _namespace.signal("jobrunner-cancel-requested")
action_taken = _namespace.signal("jobrunner-action-taken")

log = logging.getLogger("flask_jobrunner")


def send(signal: NamedSignal, app: Any, **values: Any) -> None:
    """Tell every receiver; one that raises keeps nobody else from hearing it."""
    for receiver in signal.receivers_for(app):
        try:
            receiver(app, **values)
        except Exception:
            log.exception("A receiver of %s raised", signal.name)
