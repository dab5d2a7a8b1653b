"""One job's page: what stands on it for each status."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import SECOND, add_job, add_lines, change


def shown(host: Host, uuid: str) -> str:
    """The page's text, without markup."""
    body = host.get(f"/{uuid}").text
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_a_running_job(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "running",
        age=131,
        title="Import orders",
        owner="ben",
        reference="import:43",
        lock_key="orders",
        step_index=1,
        step_total=3,
        current_step_label="Import rows",
        progress_done=50,
        progress_total=200,
    )

    text = shown(host, uuid)

    assert "Running for 2 min " in text
    assert "on web-1, pid" in text
    assert "Step 1 of 3 Import rows" in text
    assert "25% 50 of 200" in text
    assert "left" in text
    assert "Started by anna" in text
    assert "Owner ben" in text
    assert "Reference import:43" in text
    assert "Lock key orders" in text
    assert "Cancel job" in text
    assert "Queued by anna" in text
    assert "+400 ms Started" in text


def test_the_durations_that_still_grow_are_marked_for_the_script(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    job = host.runtime.jobs.get(uuid)
    assert job is not None
    assert job.started_at is not None
    since = int(job.started_at.timestamp() * 1000)

    body = host.get(f"/{uuid}").text

    assert body.count(f'data-since="{since}"') == 2
    assert "data-since" not in host.get(f"/{add_job(host.runtime, 'succeeded')}").text


def test_a_failed_job_says_so_before_anything_else(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "failed",
        error_class="ValueError",
        error_reason_code="handler_raised",
        error_message="line 7: 'x' is no amount",
        traceback='Traceback (most recent call last):\n  File "a.py", line 7, in run\n',
        report={"exit_code": 1},
    )

    text, body = shown(host, uuid), host.get(f"/{uuid}").text

    assert "Failed after 12.3 s. The handler raised an exception." in text
    assert "ValueError: line 7: 'x' is no amount Show the error" in text
    assert 'File "a.py", line 7, in run' in text
    assert "Took 12.3 s, exit code 1." in text
    assert "Requeue job" in text
    assert (
        body.index("Show the error") < body.index('id="jr-h-log"') < body.index('id="jr-h-error"')
    )


def test_an_interrupted_job_tells_what_killed_it(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "interrupted",
        error_reason_code="process_died",
        error_message="The process was killed by signal 9 (SIGKILL).",
        report={"exit_code": None, "signal": 9, "peak_rss": 1_900_000_000},
    )

    text = shown(host, uuid)

    assert "Interrupted after 12.3 s" in text
    assert (
        "Killed by signal 9 (SIGKILL), 12.3 s after the process began, peak memory 1.9 GB." in text
    )


def test_a_succeeded_job_shows_its_result(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded", result={"rows": 12840, "total": 12.5})

    text = shown(host, uuid)

    assert "Finished after 12.3 s." in text
    assert '{ "rows": 12840, "total": 12.5 }' in text
    assert "Cancel job" not in text
    assert "Requeue job" not in text


def test_a_succeeded_job_is_over_with_its_last_step(host: Host) -> None:
    steps: dict[str, Any] = {"current_step_key": "bake", "step_index": 2, "step_total": 2}

    over = host.get(f"/{add_job(host.runtime, 'succeeded', **steps)}").text
    still = host.get(f"/{add_job(host.runtime, 'running', **steps)}").text

    assert (over.count('<li class="jr-done">'), over.count('<li class="jr-now">')) == (2, 0)
    assert (still.count('<li class="jr-done">'), still.count('<li class="jr-now">')) == (1, 1)


@pytest.mark.parametrize("value", [0, False, "", [], {}, "text", 3.5, None])
def test_any_json_value_is_a_result(host: Host, value: Any) -> None:
    uuid = add_job(host.runtime, "succeeded")
    change(host.runtime, uuid, result_json=json.dumps(value))

    body = host.get(f"/{uuid}").text

    assert html.escape(json.dumps(value), quote=True).replace("&quot;", "&#34;") in body


def test_numbers_are_exact_and_keys_keep_their_order(host: Host) -> None:
    payload = {"z": 9007199254740993, "a": 123456789012345678901234567890}

    text = shown(host, add_job(host.runtime, "running", payload=payload))

    assert '"z": 9007199254740993, "a": 123456789012345678901234567890' in text


def test_secrets_are_masked_in_payload_result_error_and_context(host: Host) -> None:
    secret = "hunter2hunter2"
    uuid = add_job(
        host.runtime,
        "failed",
        payload={"user": {"password": secret}},
        result={"api_token": secret},
        error_class="ConnectionError",
        error_reason_code="handler_raised",
        error_message=f"postgresql://app:{secret}@db/shop does not answer",
    )
    add_lines(host.runtime, uuid, [{"message": "login", "context": {"password": secret}}])

    for path in (f"/{uuid}", f"/{uuid}/log", "/", f"/{uuid}/_live?c=0&v=0"):
        assert secret not in host.poll(f"/jobs{path}").text, path
    assert "********" in host.get(f"/{uuid}").text


def test_a_long_value_is_folded_and_a_very_long_one_cut(host: Host) -> None:
    folded = host.get(f"/{add_job(host.runtime, 'running', payload={'k': 'x' * 5000})}").text
    cut = host.get(f"/{add_job(host.runtime, 'running', payload={'k': 'x' * 400_000})}").text

    assert "<details><summary>5.0 kB</summary>" in folded
    assert "400.0 kB, the first 65.5 kB are shown" in cut
    assert len(cut) < 100_000


def test_a_late_worker_is_a_notice_and_no_verdict(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    now = host.runtime.database.clock()
    change(host.runtime, uuid, heartbeat_at=now - 25 * SECOND, lease_until=now - 10 * SECOND)

    text = shown(host, uuid)

    assert "The worker has not reported for 25 s ." in text
    assert "Running for" in text


def test_a_cancel_request_says_who_asked(host: Host) -> None:
    text = shown(host, add_job(host.runtime, "cancel_requested", stop_reason="cancel"))

    assert "Cancel requested by anna, " in text
    assert "Cancel job" not in text


def test_a_job_that_waits_long_says_what_will_happen(host: Host) -> None:
    text = shown(host, add_job(host.runtime, "queued", age=40))

    assert "No process has taken this job yet." in text
    assert "it ends as failed" in text


def test_a_fresh_job_waits_without_a_warning(host: Host) -> None:
    text = shown(host, add_job(host.runtime, "queued", age=1))

    assert "No process has taken" not in text
    assert "Waiting for the first line" in text


def test_a_job_without_lines_says_so_at_the_end(host: Host) -> None:
    assert "This job wrote no log" in shown(host, add_job(host.runtime, "succeeded"))


def test_times_carry_their_zone(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_TIMEZONE="America/New_York")

    body = host.get(f"/{add_job(host.runtime, 'succeeded')}").text

    assert re.search(r'<time datetime="[^"]+Z">\d+ \w{3} \d{4}, \d\d:\d\d:\d\d E[SD]T</time>', body)


def test_clocks_that_disagree_are_told_and_give_no_negative_time(host: Host) -> None:
    uuid = add_job(host.runtime, "succeeded", waited=-5.0)

    text = shown(host, uuid)

    assert "clock skew" in text
    assert not re.search(r"[-\u2212]\d+(\.\d)? (s|ms|min)\b", text)


def test_more_done_than_there_is_to_do_ends_at_the_total(host: Host) -> None:
    text = shown(host, add_job(host.runtime, "running", progress_done=15, progress_total=10))

    assert "100% 10 of 10" in text


def test_no_pace_is_told_where_it_cannot_be_known(host: Host) -> None:
    for values in ({"step_index": 2, "step_total": 3}, {"progress_done": 0}, {"ran": 1, "age": 3}):
        told: dict[str, Any] = {"progress_done": 50, "progress_total": 200, "age": 130} | values
        assert "left" not in shown(host, add_job(host.runtime, "running", **told))


def test_progress_without_a_total_is_told_as_a_number(host: Host) -> None:
    uuid = add_job(host.runtime, "running", progress_done=15)

    assert "15 done" in shown(host, uuid)
    assert re.search(
        r'<progress class="jr-bar-running" aria-label="Progress"></progress>',
        host.get(f"/{uuid}").text,
    )


def test_a_deed_is_told_from_its_event_not_from_the_address(host: Host) -> None:
    uuid = add_job(host.runtime, "cancel_requested")

    assert "Cancel requested by anna," in shown(host, f"{uuid}?did=cancel")
    assert "jr-did" not in host.get(f"/{uuid}?did=requeue").text
    assert "jr-did" not in host.get(f"/{uuid}?did=nonsense").text


def test_an_earlier_attempt_keeps_its_story(host: Host) -> None:
    uuid = add_job(
        host.runtime,
        "failed",
        error_class="ValueError",
        error_message="first",
        traceback="first traceback",
    )
    change(
        host.runtime,
        uuid,
        attempt=2,
        status="queued",
        finished_at=None,
        error_class=None,
        error_message=None,
        worker_token=None,
    )

    text = shown(host, uuid)

    assert "Attempt 1 Failed" in text
    assert "first traceback" in text


def test_a_page_of_a_thousand_lines_fits_the_budget(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(
        host.runtime, uuid, [f"Row {n:>6} of 10,000 imported: {'x' * 30}" for n in range(1500)]
    )

    answer = host.get(f"/{uuid}")

    assert answer.text.count("<p id=") == 1000
    assert 'id="L1500"' in answer.text
    assert 'id="L500"' not in answer.text
    assert "Lines 501 to 1,500" in answer.text
    assert len(answer.data) <= 160 * 1024


def test_the_first_lines_end_at_half_a_megabyte(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["y" * 3000 for _ in range(400)])

    body = host.get(f"/{uuid}").text

    assert 'id="L400"' in body
    assert 150 < body.count("<p id=") < 200


def test_a_very_long_line_is_cut_and_whole_on_the_full_page(host: Host) -> None:
    uuid = add_job(host.runtime, "running")
    add_lines(host.runtime, uuid, ["z" * 16_345])

    body, whole = host.get(f"/{uuid}").text, host.get(f"/{uuid}/log").text

    assert "z" * 4001 not in body
    assert "+12,345 characters, see the full page" in body
    assert "z" * 16_345 in whole


def test_a_link_to_a_line_leads_to_the_page_that_has_it(host: Host) -> None:
    uuid = add_job(host.runtime, "running")

    answer = host.get(f"/{uuid}?line=5000")

    assert answer.status_code == 303
    assert answer.location == f"/jobs/{uuid}/log?line=5000"
