"""Who may see and do what. Closed until the host says otherwise.

`Viewer` asks the host's three hooks for one request. Nothing about a job leaves this module
before both `scope` and `authorize` agreed; what may not be seen is answered like what is not
there.
"""

from __future__ import annotations

import ipaddress
from typing import NoReturn

from flask import Response, abort, current_app, request
from werkzeug.exceptions import Forbidden, NotFound
from werkzeug.wrappers import Response as BaseResponse

from flask_jobrunner.model.records import Job, OwnedJob
from flask_jobrunner.recovery.settle import settle_seen
from flask_jobrunner.runtime import Runtime, current_runtime

AUTHORIZE_EXAMPLE = """\
@jobs.authorize
def may(action, job):  # "view_list", "view_job", "cancel", …; job is None for a list
    return current_user.is_authenticated and current_user.is_admin"""

ACTION_WORDS = {
    "view_list": "see the list of jobs",
    "view_job": "see this job",
    "view_payload": "see what this job was given",
    "view_log": "read this job's log",
    "download": "download files of this job",
    "cancel": "cancel this job",
    "requeue": "requeue this job",
    "force_stop": "force this job to stop",
    "start": "start jobs",
    "view_supervisors": "see the supervisors",
    "drain": "drain and resume supervisors",
}


class NotConfigured(Forbidden):
    """The host has not said who may see the dashboard."""


class NotAllowed(Forbidden):
    """The host's `authorize` said no to an action."""

    def __init__(self, action: str) -> None:
        super().__init__(description=f"You may not {ACTION_WORDS.get(action, action)}.")
        self.action = action


class NoSuchFile(NotFound):
    """The job may be seen, and the file is not there."""


def admit() -> None:
    """Let the request in, or raise: without `@jobs.authorize` there is nobody to ask."""
    if current_runtime().hooks.authorize is None and not open_for_development():
        raise NotConfigured


def open_for_development() -> bool:
    """Debug mode, no hook, and the developer's own browser on the developer's own machine."""
    if current_runtime().hooks.authorize is not None or not current_app.debug:
        return False
    # A proxy on this machine would make every visitor look local; a foreign name that resolves
    # to this machine would let any web page read along.
    forwarded = any(name in request.headers for name in ("Forwarded", "X-Forwarded-For"))
    host = request.host.rsplit(":", 1)[0].strip("[]")
    return not forwarded and _is_loopback(request.remote_addr or "") and _is_loopback(host)


def viewer() -> Viewer:
    """Who looks. Ask once in a view: the host's `scope` may cost a query."""
    return Viewer(current_runtime())


class Viewer:
    """The host's answers for one request."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        scope = runtime.hooks.current_scope()
        self.scope = None if scope is None else str(scope)

    def may(self, action: str, job: OwnedJob | None = None) -> bool:
        """Whether an action is allowed; a response instead of an answer means no."""
        return self._ask(action, job) is True

    def demand(self, action: str, job: OwnedJob | None = None) -> None:
        """Go on, or end the request with the host's response or a 403."""
        answer = self._ask(action, job)
        if isinstance(answer, BaseResponse):
            abort(answer)
        if not answer:
            raise NotAllowed(action)

    def may_with(self, action: str, job: Job) -> bool:
        """The same of a job that was read for a list."""
        return self.sees(job) and self._ask(action, job) is True

    def find(self, uuid: int | str) -> OwnedJob:
        """The job, or the one answer for "not there" and "not for you"."""
        owned = self.runtime.jobs.owned(uuid)
        if owned is None or not self.sees(owned.job):
            self._absent()
        answer = self._ask("view_job", owned)
        if isinstance(answer, BaseResponse):
            abort(answer)
        if not answer:
            self._absent()
        return owned

    def look(self, uuid: int | str) -> OwnedJob:
        """The job to be shown: settled first, so that a dead owner's row does not say running."""
        owned = self.find(uuid)
        return settle_seen(self.runtime, owned) or owned

    def sees(self, job: Job) -> bool:
        """Whether a job of the list belongs to those that this viewer is shown."""
        return self.scope is None or job.owner == self.scope

    def shows(self, job: Job) -> bool:
        """Whether this viewer may see a job that a listing has found."""
        return self.sees(job) and self._ask("view_job", job) is True

    def send_away(self) -> None:
        """End the request where the host answers with a response, such as a sign-in page."""
        answer = self._ask("view_list", None)
        if isinstance(answer, BaseResponse):
            abort(answer)

    def actor(self) -> str | None:
        """Who acts, for events and ownership."""
        return self.runtime.hooks.current_actor()

    def _absent(self) -> NoReturn:
        # A login page for jobs that exist and a 404 for those that do not would tell them apart.
        self.send_away()
        raise NotFound(description="This job was deleted, or never existed.")

    def _ask(self, action: str, about: OwnedJob | Job | None) -> bool | Response | BaseResponse:
        hook = self.runtime.hooks.authorize
        if hook is None:
            return open_for_development()
        job = about.job if isinstance(about, OwnedJob) else about
        answer = current_app.ensure_sync(hook)(action, job)
        if answer is None or isinstance(answer, (bool, BaseResponse)):
            return answer if answer is not None else False
        # A tuple such as ("No", 403) is true for Python: guessing would open the door.
        raise TypeError(
            "The function given to @jobs.authorize must return True, False or a response; for "
            f"{action!r} it returned {type(answer).__name__}."
        )


def _is_loopback(address: str) -> bool:
    if address == "localhost" or address.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
