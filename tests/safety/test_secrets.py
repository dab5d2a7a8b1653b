"""What is secret is in no answer of any route: not in a page, a fragment, JSON, or a header."""

from __future__ import annotations

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import add_job, add_lines, change
from tests.safety.ground import MISSING
from tests.safety.routes import POLL, calls

TOKEN, HASH = "workertoken" + "e" * 21, "abcdef01" * 8
MARKED = "marked-as-secret"
KEY = "the-key-of-the-application"


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with a secret of each kind."""
    return make_host(SECRET_KEY=KEY, JOBRUNNER_FORCE_STOP=True)


def with_secrets(host: Host, status: str) -> str:
    """A job that has a secret wherever one may get to."""
    uuid = add_job(
        host.runtime,
        status,
        payload={"password": MARKED, "nested": [{"api_key": MARKED}], "order": "kept-4711"},
        title=f"Sync with token={MARKED}",
        lock_key=f"postgresql://app:{MARKED}@db/app",
        reference=f"api_key={MARKED}",
        owner=f"password={MARKED}",
        result={"token": MARKED, "dsn": f"postgresql://app:{MARKED}@db/app"},
        error_class="E",
        error_message=f"password={MARKED} is wrong\nAuthorization: Bearer {MARKED}",
        traceback=f"connect('postgresql://app:{MARKED}@db/app')",
    )
    columns = {"worker_token": TOKEN} if status != "queued" else {"worker_token_hash": HASH}
    change(host.runtime, uuid, **columns)
    add_lines(host.runtime, uuid, [{"message": "a line", "context": {"secret": MARKED, "n": 5}}])
    return uuid


@pytest.mark.parametrize("status", ["queued", "failed", "lost"])
def test_no_answer_holds_a_secret(
    host: Host, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    uuid, told = with_secrets(host, status), ""

    # The deeds come last: what follows shows the job as it was.
    for headers, method in ((POLL, "GET"), ({}, "GET"), (POLL, "POST")):
        for one in calls(host, uuid, method):
            answer = one.ask(host, headers, {"c": "0", "v": "0", "after_seq": "0"})
            whole = answer.text + str(answer.headers)
            for secret in (MARKED, TOKEN, HASH, KEY):
                assert secret not in whole, (one, secret)
            told += whole

    assert "kept-4711" in told
    assert "a line" in told
    assert MARKED not in caplog.text
    assert TOKEN not in caplog.text


def test_an_error_of_the_server_tells_nothing(make_host: MakeHost) -> None:
    def broken(action: str, job: object) -> bool:
        raise RuntimeError(MARKED)

    host = make_host(authorize=broken)

    for one in calls(host, MISSING, "GET"):
        answer = one.ask(host)
        assert answer.status_code in (404, 500), one
        assert MARKED not in answer.text
