"""`FakeContext`: what a handler may call is what `JobContext` has, and nothing needs a database."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest
from flask import Flask, url_for

from flask_jobrunner import JobCancelled, JobContext, OwnershipLost, ProgramFailed
from flask_jobrunner.testing import FakeContext, FakeProgram


def export(ctx: JobContext) -> int:
    """A handler as hosts write them."""
    ctx.set_step("read", "Read", 1, 2)
    rows = 0
    for row in ctx.track(ctx.payload["rows"], "rows"):
        ctx.debug("row", number=row, password="hunter2")
        rows += 1
    ctx.set_step("write", "Write", 2, 2)
    ctx.heartbeat()
    ctx.check()
    if not rows:
        ctx.warning("nothing to export")
    ctx.stdout("done\n")
    return rows


def test_a_handler_is_called_like_a_function() -> None:
    ctx = FakeContext({"rows": [1, 2, 3]})

    assert export(ctx) == 3
    assert [step[0] for step in ctx.steps] == ["read", "write"]
    assert ctx.progress_calls == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert (ctx.shown.step_key, ctx.shown.step_index, ctx.shown.done) == ("write", 2, 3)
    assert (ctx.heartbeats, ctx.messages("warning")) == (1, [])
    first, *_, last = ctx.lines
    assert (first.level, first.message, first.step_key) == ("debug", "row", "read")
    assert first.context == {"number": 1, "password": "********"}
    assert (last.message, last.stream, last.step_key) == ("done", "stdout", "write")


def test_a_payload_is_an_empty_mapping_unless_there_is_one() -> None:
    assert FakeContext().payload == {}
    with pytest.raises(KeyError):
        export(FakeContext())
    ctx = FakeContext({"rows": []})
    assert export(ctx) == 0
    assert ctx.messages("warning") == ["nothing to export"]


def test_a_cancel_comes_when_the_test_says() -> None:
    ctx = FakeContext({"rows": range(5)}, cancel_after=2)
    with pytest.raises(JobCancelled):
        export(ctx)
    assert [line.context for line in ctx.lines if line.context] == [
        {"number": 0, "password": "********"},
        {"number": 1, "password": "********"},
    ]

    ctx = FakeContext({"rows": [1]})
    assert not ctx.is_cancellation_requested()
    ctx.cancel()
    assert ctx.is_cancellation_requested()
    with pytest.raises(JobCancelled):
        export(ctx)


def test_a_job_that_was_lost_is_told_so() -> None:
    ctx = FakeContext({"rows": []})
    ctx.lose()
    assert ctx.is_cancellation_requested()
    with pytest.raises(OwnershipLost):
        export(ctx)


def test_what_it_is_about_is_given_or_made_up() -> None:
    ctx = FakeContext(attempt=3, title="T", owner="ann", reference="r:1", fence=9, job_type="a.b")
    assert (ctx.attempt, ctx.title, ctx.owner, ctx.reference) == (3, "T", "ann", "r:1")
    assert (ctx.fence, ctx.job_type, ctx.job_id) == (9, "a.b", 1)
    assert FakeContext().job_uuid != ctx.job_uuid


def test_it_is_of_the_application_that_is_there() -> None:
    app = Flask("shop")
    app.add_url_rule("/orders", "orders")
    assert FakeContext(app=app).app is app
    with app.app_context():
        ctx = FakeContext(base_url="https://shop.test/sub")
    assert ctx.app is app
    with ctx.request_context():
        assert url_for("orders", _external=True) == "https://shop.test/sub/orders"
    assert FakeContext().app is not app


def test_a_program_is_real_unless_the_test_has_one() -> None:
    ctx, heard = FakeContext(), list[tuple[str, str]]()
    result = ctx.run(
        [sys.executable, "-c", "print('real')"], on_line=lambda *line: heard.append(line)
    )
    assert (result.returncode, heard) == (0, [("stdout", "real")])
    assert ctx.messages() == ["real"]


PROGRAMS = {
    "ffmpeg": FakeProgram(stdout="frame 1\nframe 2\n", stderr="slow\n"),
    "/opt/bin/scan": FakeProgram(returncode=3, stderr="no\n"),
    "slow": FakeProgram(timed_out=True, stdout="half\n"),
    "gone": FakeProgram(missing=True),
}


def test_a_program_of_the_test_s_says_its_lines_and_ends() -> None:
    ctx, heard = FakeContext(programs=PROGRAMS), list[tuple[str, str]]()
    result = ctx.run(["/usr/bin/ffmpeg", "-i", "x"], on_line=lambda *line: heard.append(line))

    assert (result.ok, result.lines, result.last_lines) == (True, 3, ("frame 1", "frame 2", "slow"))
    assert heard == [("stdout", "frame 1"), ("stdout", "frame 2"), ("stderr", "slow")]
    assert [line.stream for line in ctx.lines] == ["stdout", "stdout", "stderr"]
    assert ctx.ran == [("/usr/bin/ffmpeg", "-i", "x")]
    assert ctx.run(["/opt/bin/scan"], check=False).returncode == 3


@pytest.mark.parametrize(
    ("argv", "returncode", "timed_out", "last"),
    [("/opt/bin/scan", 3, False, ("no",)), ("slow", None, True, ("half",)), ("gone", None, 0, ())],
)
def test_a_program_of_the_test_s_fails_as_a_real_one(
    argv: str, returncode: int | None, timed_out: bool, last: tuple[str, ...]
) -> None:
    with pytest.raises(ProgramFailed) as failed:
        FakeContext(programs=PROGRAMS).run([argv])
    assert (failed.value.returncode, failed.value.timed_out) == (returncode, timed_out)
    assert (failed.value.last_lines, failed.value.argv) == (last, (argv,))


def test_no_program_is_run_by_accident() -> None:
    ctx = FakeContext(programs=PROGRAMS)
    with pytest.raises(AssertionError, match=r"asked for rm; the test has programs for: .*ffmpeg"):
        ctx.run(["rm", "-rf", "x"])
    ctx.cancel()
    with pytest.raises(JobCancelled):
        ctx.run(["ffmpeg"])


def public(owner: type) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


def test_what_it_redefines_takes_what_the_real_one_takes() -> None:
    shared = public(FakeContext).keys() & public(JobContext).keys()

    assert shared == {"set_step", "progress", "run"}
    for name in shared:
        real, fake = getattr(JobContext, name), getattr(FakeContext, name)
        assert inspect.signature(fake) == inspect.signature(real), name


def test_it_is_one_and_hides_nothing_of_it() -> None:
    ctx = FakeContext()
    assert isinstance(ctx, JobContext)
    assert set(JobContext.__annotations__) <= set(vars(ctx))
    assert set(JobContext.__annotations__) & public(FakeContext).keys() == set()


def copy_in_capitals(ctx: JobContext) -> None:
    """Reads a file and leaves one."""
    with ctx.artifact("out.txt", encoding="utf-8") as file:
        file.write(ctx.file("in.txt").read_text().upper())


def test_files_are_given_and_kept() -> None:
    ctx = FakeContext(files={"in.txt": b"text"})
    copy_in_capitals(ctx)

    assert ctx.artifacts == {"out.txt": b"TEXT"}


def test_a_file_that_was_not_given_and_a_bad_name_fail_as_in_a_job() -> None:
    with pytest.raises(FileNotFoundError, match=r"no input 'in\.txt'; it was given 'other'"):
        copy_in_capitals(FakeContext(files={"other": b""}))
    ctx = FakeContext()
    with pytest.raises(ValueError, match="no slashes"), ctx.artifact("a/b"):
        pass

    def half() -> None:
        with ctx.artifact("a") as file:
            file.write(b"half")
            raise LookupError

    with pytest.raises(LookupError):
        half()
    assert ctx.artifacts == {}
