"""`flask jobs list`."""

from __future__ import annotations

from flask_jobrunner import JobRunner
from flask_jobrunner.cli.output import width_of
from tests.helpers.commands import Commands
from tests.host_acts import script


def seed(jobs: JobRunner) -> None:
    jobs.run_inline("host.nothing", owner="ann")
    jobs.run_inline("host.script", script(("progress", 3, 1000), ("raise", "ValueError", "no")))
    jobs.run_inline("host.script", title="A title 你好 that is long " * 4, reference="import:7")


def test_rows_are_whole_and_hold_the_uuid_where_nobody_reads_a_terminal(
    commands: Commands, host_jobs: JobRunner
) -> None:
    seed(host_jobs)
    newest, failed, oldest = host_jobs.find().jobs
    answer = commands("list")
    header, first, second, third = answer.out.splitlines()

    assert answer.exit_code == 0
    assert header.split() == [
        "ID",
        "STATUS",
        "TYPE",
        "TITLE",
        "PROGRESS",
        "CREATED",
        "TOOK",
        "UUID",
    ]
    assert first.endswith(newest.uuid)
    assert (newest.title or "").strip() in first
    assert second.split()[:3] == [str(failed.id), "failed", "host.script"]
    assert "3/1,000" in second
    assert third.endswith(oldest.uuid)
    assert "\x1b" not in answer.out


def test_filters_narrow(commands: Commands, host_jobs: JobRunner) -> None:
    seed(host_jobs)

    def ids(*arguments: str) -> list[int]:
        return [job["id"] for job in commands("list", "--json", *arguments).json()["jobs"]]

    assert ids() == [3, 2, 1]
    assert ids("--status", "failed") == [2]
    assert ids("--status", "failed", "--status", "succeeded", "--type", "host.script") == [3, 2]
    assert ids("--owner", "ann") == [1]
    assert ids("--reference", "import:7") == [3]
    assert ids("--actor", "nobody") == []


def test_a_page_ends_with_the_way_to_the_next(commands: Commands, host_jobs: JobRunner) -> None:
    seed(host_jobs)
    first = commands("list", "--limit", "2")
    page = commands("list", "--limit", "2", "--json").json()
    rest = commands("list", "--json", "--cursor", page["next_cursor"]).json()

    assert f"--cursor {page['next_cursor']}" in first.err
    assert [job["id"] for job in rest["jobs"]] == [1]
    assert rest["next_cursor"] is None


def test_nothing_found_is_said_beside_the_output(commands: Commands) -> None:
    everything, some = commands("list"), commands("list", "--status", "lost")

    assert (everything.out, some.out) == ("", "")
    assert (everything.err, some.err) == ("No jobs.\n", "No such jobs.\n")
    assert everything.exit_code == 0


def test_a_bad_cursor_or_status_is_a_usage_error(commands: Commands) -> None:
    assert commands("list", "--cursor", "x").exit_code == 2
    assert commands("list", "--status", "done").exit_code == 2
    assert commands("list", "--limit", "0").exit_code == 2


def test_on_a_terminal_the_table_fits_and_has_colours(
    commands: Commands, host_jobs: JobRunner
) -> None:
    seed(host_jobs)
    with commands.terminal("list", columns=70) as terminal:
        assert terminal.exit_code() == 0
        lines = terminal.read().splitlines()

    assert max(map(width_of, lines)) <= 70
    assert "\x1b[31mfailed\x1b[0m" in terminal.seen
    assert "…" in terminal.seen


def test_no_color_is_respected_on_a_terminal(commands: Commands, host_jobs: JobRunner) -> None:
    seed(host_jobs)
    with commands.terminal("list", NO_COLOR="1") as terminal:
        assert terminal.exit_code() == 0

    assert "failed" in terminal.seen
    assert "\x1b" not in terminal.seen
