"""Views of a host in `record` and `inline` mode, in every way in which hosts keep their data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_jobrunner import (
    ConfigError,
    InvalidPayload,
    UncommittedChanges,
    UnknownJobType,
    job_created,
    job_finished,
)
from tests.testing.hosts import Shop

both_modes = pytest.mark.parametrize("mode", ["record", "inline"])
inline = pytest.mark.parametrize("mode", ["inline"])
record = pytest.mark.parametrize("mode", ["record"])


def post(shop: Shop, path: str) -> dict[str, Any]:
    """What a view answers, from a request with a context of its own."""
    answer = shop.app.test_client().post(path)
    assert answer.status_code == 200, answer.text
    values: dict[str, Any] = answer.json
    return values


@both_modes
@pytest.mark.parametrize(("call", "status"), [("start", "started"), ("enqueue", "queued")])
def test_a_view_behaves_as_when_all_went_well(
    shop: Shop, mode: str, call: str, status: str
) -> None:
    with shop.app.app_context():
        number = shop.add("tea")
    answer = post(shop, f"/orders/{number}/{call}/orders.pack")

    assert (answer["status"], answer["ok"], answer["name"]) == (status, True, "tea")
    with shop.app.app_context():
        (seen,) = shop.jobs.recorded()
        assert (seen.kind, seen.job_type, seen.payload) == (call, "orders.pack", {"order": number})
        assert (seen.title, seen.lock_key) == ("Pack", f"order:{number}")
        job = shop.jobs.get(answer["job"])
        assert job is not None
        assert job.status == ("queued" if mode == "record" else "succeeded")
        again = post(shop, f"/orders/{number}/{call}/orders.pack")
        assert again["status"] == ("already_active" if mode == "record" else status)
    assert shop.names() == (["tea"] if mode == "record" else ["tea, packed, packed"])
