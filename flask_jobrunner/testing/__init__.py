"""For a host's own tests: handlers without a database, and views without processes.

`flask_jobrunner.testing.fixtures` has the pytest fixtures; only that module needs pytest.
"""

from flask_jobrunner.model.recorded import RecordedJob
from flask_jobrunner.protocol.leaks import Leak, find_secrets

from .fake_context import FakeContext, SaidLine
from .modes import RecordedJobs, job_mode
from .programs import FakeProgram
from .secrecy import assert_no_secrets

__all__ = [
    "FakeContext",
    "FakeProgram",
    "Leak",
    "RecordedJob",
    "RecordedJobs",
    "SaidLine",
    "assert_no_secrets",
    "find_secrets",
    "job_mode",
]
