"""The same job with Celery, set up as Flask's documentation shows."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, Task

from benchmarks.peers import application

LATE = "PEERS_ACKS_LATE"


def celery_of(app: Any) -> Any:
    """Tasks run within the application's context."""

    class FlaskTask(Task):  # type: ignore[misc]  # Celery has no types
        def __call__(self, *args: object, **kwargs: object) -> object:
            with app.app_context():
                return self.run(*args, **kwargs)

    made = Celery(app.name, task_cls=FlaskTask)
    service = os.environ[application.SERVICE]
    # Results, too: without them Celery says nothing about any task.
    made.config_from_object({"broker_url": service, "result_backend": service})
    if LATE in os.environ:
        made.conf.task_acks_late = True
    return made


celery = celery_of(application.create_app())
task = celery.task(application.work, name="work")


def prepare() -> None:
    """Nothing is missing."""


def enqueue(number: int) -> str:
    """Put one task into the queue."""
    return str(task.delay(number).id)


def state(reference: str) -> str:
    """Celery calls pending whatever it knows nothing about, such as what runs."""
    found = str(celery.AsyncResult(reference).state)
    return {"PENDING": "unknown"}.get(found, found.lower())
