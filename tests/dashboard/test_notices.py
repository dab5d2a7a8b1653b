"""What a job's page says before anything else, and only while it is true."""

from __future__ import annotations

import html
import re

import pytest

from tests.dashboard.hosts import Host, MakeHost
from tests.dashboard.seeding import SECOND, add_job, add_lines, change
from tests.dashboard.test_job_page import shown
from tests.dashboard.test_live import opened, poller


def notices(host: Host, path: str) -> list[str]:
    body = host.get(f"/{path}").text
    found = re.findall(r'<p class="jr-notice[^>]*>(.*?)</p>', body, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", "", one)).split()) for one in found]


def cancelled(host: Host, *, heard: bool, **columns: object) -> str:
    now = host.runtime.database.clock()
    return add_job(
        host.runtime,
        "cancel_requested",
        stop_reason="cancel",
        cancel_requested_at=now - 4 * SECOND,
        heartbeat_at=now - (0 if heard else 5 * SECOND),
        **columns,  # type: ignore[arg-type]  # whatever columns a test sets
    )


def test_a_cancel_tells_who_when_and_that_the_process_has_heard(host: Host) -> None:
    (told,) = notices(host, cancelled(host, heard=True))

    assert re.match(r"Cancel requested by anna, \d+ \w{3}, \d\d:\d\d:\d\d UTC\. ", told)
    assert told.endswith(
        "Its process knows. The job stops at its next checkpoint; work already done is kept."
    )


def test_a_process_that_has_not_heard_is_said_to_and_the_page_follows(host: Host) -> None:
    uuid = cancelled(host, heard=False)
    (told,) = notices(host, uuid)
    assert told.endswith("Its process has not heard of it yet. It will with its next heartbeat.")

    url, now = opened(host, uuid), host.runtime.database.clock()
    jobs = host.runtime.database.tables.jobs
    host.runtime.database.run(lambda c: c.execute(jobs.update().values(heartbeat_at=now)))

    assert "Its process knows." in host.poll(url).text


def test_with_a_grace_the_notice_says_when_the_process_is_ended(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_CANCEL_GRACE=90, JOBRUNNER_TIMEZONE="Asia/Kolkata")

    (told,) = notices(host, cancelled(host, heard=True))

    assert re.search(r"If it goes on, its process is ended at about .*:\d\d IST\.$", told)


def test_a_cancel_that_was_just_made_is_told_once(host: Host) -> None:
    uuid = cancelled(host, heard=True)

    (told,) = notices(host, f"{uuid}?did=cancel")

    assert told.startswith("Cancel requested by anna,")
    assert host.get(f"/{uuid}?did=cancel").text.count('id="jr-did"') == 1
    assert 'id="jr-did"' not in host.get(f"/{uuid}").text


def test_a_forced_stop_says_so(host: Host) -> None:
    uuid = cancelled(host, heard=True)
    change(host.runtime, uuid, stop_reason="force")

    (told,) = notices(host, uuid)

    assert told.startswith("Forced to stop by anna,")
    assert told.endswith("Its process is being ended.")


def test_a_lost_job_says_when_it_was_last_heard_of(host: Host) -> None:
    uuid = add_job(host.runtime, "lost", heartbeat_at=host.runtime.database.clock())

    assert re.match(r"The worker last reported at .* UTC\.", notices(host, uuid)[0])


def test_a_duration_in_a_notice_grows(host: Host) -> None:
    uuid, now = add_job(host.runtime, "running"), host.runtime.database.clock()
    change(host.runtime, uuid, heartbeat_at=now - 25 * SECOND, lease_until=now - 10 * SECOND)

    body = host.get(f"/{uuid}").text

    assert f'not reported for <span data-since="{(now - 25 * SECOND) // 1000}">25 s</span>' in body


def test_a_job_that_waits_for_its_time_says_which(host: Host) -> None:
    soon = host.runtime.database.clock() + 600 * SECOND
    first = add_job(host.runtime, "queued", claim_mode="trusted", not_before=soon)
    again = add_job(host.runtime, "queued", claim_mode="trusted", not_before=soon, attempt=2)

    assert notices(host, first)[0].startswith("It does not start before ")
    assert notices(host, again)[0].startswith("It runs again at ")


@pytest.mark.parametrize(("kept", "number"), [(3600, 1), (30 * 86400, 0), (None, 0)])
def test_a_job_that_will_soon_be_removed_says_when(
    make_host: MakeHost, kept: int | None, number: int
) -> None:
    host = make_host(JOBRUNNER_JOB_RETENTION=kept)
    uuid = add_job(host.runtime, "succeeded")

    told = notices(host, uuid)

    assert len(told) == number
    assert all(one.startswith("This job will be removed at ") for one in told)
    assert ("Kept until" in shown(host, uuid)) is (kept is not None)
    assert "Kept until" not in shown(host, add_job(host.runtime, "lost"))


def test_a_log_that_goes_before_its_job_says_when(make_host: MakeHost) -> None:
    host = make_host(JOBRUNNER_JOB_RETENTION=9 * 86400, JOBRUNNER_LOG_RETENTION=86400)
    uuid = add_job(host.runtime, "succeeded")
    assert "Log kept until" not in shown(host, uuid)
    add_lines(host.runtime, uuid, ["one"])

    assert "Log kept until" in shown(host, uuid)


def test_a_command_is_shown_as_one_and_said_once(host: Host) -> None:
    uuid = add_job(host.runtime, "queued", claim_mode="trusted", claim_deadline=None)

    body = host.get(f"/{uuid}").text

    assert "run <code>flask jobs work</code>." in body
    assert "`" not in body
    supervisors = host.get("/supervisors").text
    assert "nobody takes" not in supervisors, "the page says so itself, with the command"
    assert "`" not in supervisors


def test_code_in_a_sentence_is_escaped(host: Host) -> None:
    uuid = add_job(host.runtime, "failed", error_class="E", error_message="`<b>` is no `tag")

    body = host.get(f"/{uuid}").text

    assert "<code>&lt;b&gt;</code> is no <code>tag</code>" in body


@pytest.mark.parametrize("lines", [1, 1200])
def test_a_log_that_was_removed_is_not_waited_for(host: Host, lines: int) -> None:
    uuid = add_job(host.runtime, "running")
    url = opened(host, uuid)
    add_lines(host.runtime, uuid, [f"line {n}" for n in range(lines)])
    long_ago = host.runtime.database.clock() - 60 * SECOND
    change(host.runtime, uuid, status="succeeded", finished_at=long_ago, updated_at=long_ago)
    logs = host.runtime.database.tables.logs
    host.runtime.database.run(lambda c: c.execute(logs.delete()))

    assert poller(host.poll(url).text) is None
    assert poller(host.get(f"/{uuid}").text) is None
    word = "The only line of this log was" if lines == 1 else "The 1,200 lines of this log were"
    assert f"{word} removed; " in shown(host, uuid)


def test_what_the_application_hides_is_hidden_in_the_first_line_as_well(
    make_host: MakeHost,
) -> None:
    host = make_host(JOBRUNNER_REDACT_KEYS=("pin",))
    uuid = add_job(
        host.runtime, "failed", error_class="Refused", error_message="refused: pin=4711 was wrong"
    )

    for path in (f"/{uuid}", "/", "/index.json", f"/{uuid}.json"):
        body = host.get(path).text
        assert "was wrong" in body
        assert "4711" not in body, path
