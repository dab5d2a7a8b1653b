"""`ctx.run()`, with real programs: their lines, their ends, and the end that a stop makes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from flask_jobrunner import JobCancelled, ProgramFailed
from flask_jobrunner.child import program
from flask_jobrunner.child.program import Command, Listener, run_program
from flask_jobrunner.child.steady import Clock
from flask_jobrunner.model.records import NewLine
from flask_jobrunner.model.results import ProgramResult
from flask_jobrunner.protocol.redact import DEFAULT_REDACT_KEYS
from tests.helpers.waiting import eventually


class Sink:
    def __init__(self) -> None:
        self.lines: list[NewLine] = []
        self.step_key: str | None = "step"

    def record(self, line: NewLine) -> None:
        self.lines.append(line)

    def set_step(self, step_key: str | None) -> None:
        self.step_key = step_key


class Rig:
    """Runs programs and keeps what they wrote."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.stopping: Callable[[], bool] = lambda: False

    def run(
        self,
        *argv: str,
        check: bool = True,
        on_line: Callable[[str, str], Any] | None = None,
        **command: Any,
    ) -> ProgramResult:
        listener = Listener(
            sink=self.sink,
            clock=Clock(),
            chunk_bytes=16384,
            redact_keys=DEFAULT_REDACT_KEYS,
            is_stopping=self.stopping,
            on_line=on_line,
        )
        return run_program(Command(argv=argv, **command), listener, check=check)

    def sh(self, script: str, **options: Any) -> ProgramResult:
        return self.run("sh", "-c", script, **options)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line.stream, line.message) for line in self.sink.lines]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_lines_come_from_both_streams_and_belong_to_the_step(rig: Rig) -> None:
    result = rig.sh("echo out; sleep 0.2; echo err >&2; sleep 0.2; printf 'no end'")
    assert rig.said == [("stdout", "out"), ("stderr", "err"), ("stdout", "no end")]
    assert {line.step_key for line in rig.sink.lines} == {"step"}
    assert {line.level for line in rig.sink.lines} == {"info"}
    assert (result.returncode, result.ok, result.lines) == (0, True, 3)
    assert result.last_lines == ("out", "err", "no end")
    assert 0.3 < result.seconds < 60


def test_each_line_is_told_as_it_was_written_and_stored_masked(rig: Rig) -> None:
    told: list[tuple[str, str]] = []
    rig.sh("echo password=hunter2", on_line=lambda *line: told.append(line))
    assert told == [("stdout", "password=hunter2")]
    assert rig.said == [("stdout", "password=********")]


def test_another_exit_code_raises_with_the_last_lines(rig: Rig) -> None:
    with pytest.raises(ProgramFailed) as caught:
        rig.sh("seq 1 50; echo token=abcdef >&2; exit 3")
    failed = caught.value
    assert failed.returncode == 3
    assert not failed.timed_out
    assert len(failed.last_lines) == program.LAST_LINES
    assert "token=********" in failed.last_lines
    assert str(failed).startswith("sh ended with exit code 3.\nIts last lines:\n")
    assert "abcdef" not in str(failed)


def test_secrets_in_the_command_are_masked(rig: Rig) -> None:
    with pytest.raises(ProgramFailed) as caught:
        rig.run(
            "false", "--password", "hunter2", "--token=abc123", "postgresql://u:pw9x@db/x", "-v"
        )
    masked = ("false", "--password", "********", "--token=********", "postgresql://u:********@db/x")
    assert caught.value.argv == (*masked, "-v")
    assert str(caught.value) == "false ended with exit code 1. It wrote nothing."


def test_without_check_the_exit_code_is_the_answer(rig: Rig) -> None:
    assert rig.sh("exit 7", check=False).returncode == 7
    assert rig.sh("kill -9 $$", check=False).returncode == -9


def test_a_signal_is_named(rig: Rig) -> None:
    with pytest.raises(ProgramFailed, match=r"was ended by signal 11 \(SIGSEGV\)"):
        rig.sh("kill -SEGV $$")


@pytest.mark.parametrize(
    ("argv", "options", "text"),
    [
        (["no-such-program-here"], {}, "no-such-program-here was not found"),
        (["true"], {"cwd": "/no/such/folder"}, "there is no folder /no/such/folder"),
        (["/etc/passwd"], {}, "could not be started: Permission denied"),
    ],
)
def test_what_cannot_be_started_says_why(
    rig: Rig, argv: list[str], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ProgramFailed, match=text) as caught:
        rig.run(*argv, **options)
    assert caught.value.returncode is None
    assert caught.value.__cause__ is not None


def test_no_shell_reads_the_words(rig: Rig) -> None:
    rig.run("echo", "$HOME; `id` && *")
    assert rig.said == [("stdout", "$HOME; `id` && *")]
    with pytest.raises(TypeError, match="list of words"):
        run_program(Command(argv="ls -l"), Listener(**vars_of(rig)), check=True)
    with pytest.raises(ValueError, match="needs a program"):
        rig.run()


def vars_of(rig: Rig) -> dict[str, Any]:
    return {
        "sink": rig.sink,
        "clock": Clock(),
        "chunk_bytes": 100,
        "redact_keys": (),
        "is_stopping": lambda: False,
    }


def test_folder_environment_and_input(rig: Rig, tmp_path: Path) -> None:
    script = "pwd; echo $COLOUR; echo ${HOME:-none}; cat"
    path = os.environ["PATH"]
    rig.sh(script, cwd=tmp_path, env={"COLOUR": "blue", "PATH": path}, input="in\nput ä")
    assert [text for _, text in rig.said] == [str(tmp_path), "blue", "none", "in", "put ä"]


def test_without_input_there_is_an_end_at_once(rig: Rig) -> None:
    assert rig.run("cat").lines == 0


def test_a_large_input_and_output_do_not_wait_for_each_other(rig: Rig) -> None:
    data = b"x" * 99 + b"\n"
    assert rig.run("cat", input=data * 30_000).lines == 30_000
    assert rig.run("true", input=data * 30_000).ok


@pytest.mark.parametrize("trap", ["", "trap '' TERM;", "kill -STOP $$;"])
def test_a_stop_ends_the_whole_group(rig: Rig, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    monkeypatch.setattr(program, "STOP_GRACE", 0.5)
    rig.stopping = lambda: len(rig.sink.lines) >= 2
    if "STOP" in trap:
        trap, stop = "", "kill -STOP $$; "
    else:
        stop = ""
    started = time.monotonic()
    with pytest.raises(JobCancelled):
        rig.sh(f"{trap} sleep 600 & echo $!; echo $$; {stop} wait; sleep 600")
    assert time.monotonic() - started < 20
    for _, pid in rig.said[:2]:
        eventually(partial(is_gone, int(pid)))


def test_last_words_after_a_stop_are_kept(rig: Rig) -> None:
    rig.stopping = lambda: bool(rig.sink.lines)
    with pytest.raises(JobCancelled):
        rig.sh("trap 'echo tidied up; exit' TERM; echo ready; while :; do sleep 0.05; done")
    assert ("stdout", "tidied up") in rig.said


def test_a_timeout_ends_it_and_is_told(rig: Rig) -> None:
    with pytest.raises(ProgramFailed, match=r"sleep ran longer than 0\.3 s") as caught:
        rig.run("sleep", "600", timeout=0.3, check=False)
    assert caught.value.timed_out
    assert caught.value.returncode == -signal.SIGTERM


def test_a_listener_that_raises_ends_it(rig: Rig) -> None:
    def refuse(_stream: str, line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError) as caught:
        rig.sh("echo $$; exec sleep 600", on_line=refuse)
    assert is_gone(int(str(caught.value)))


def test_what_it_leaves_running_does_not_keep_us(rig: Rig) -> None:
    started = time.monotonic()
    rig.sh("sleep 600 & echo $!")
    assert time.monotonic() - started < 30
    pid = int(rig.said[0][1])
    assert not is_gone(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_program_that_closes_its_output_is_waited_for(rig: Rig) -> None:
    started = time.monotonic()
    rig.sh("exec >&- 2>&-; sleep 0.6")
    assert time.monotonic() - started >= 0.6


def test_it_leaves_no_descriptors_and_no_zombies_behind(rig: Rig) -> None:
    def open_ones() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    rig.run("true")
    before = open_ones()
    for _ in range(5):
        rig.run("true", input="x")
        with pytest.raises(ProgramFailed):
            rig.run("no-such-program-here")
    assert open_ones() == before


def test_binary_and_overwritten_output(rig: Rig) -> None:
    script = r"printf '\377\000 \033[31mred\033[0m\n10%%\r20%%\r30%%\n' >&2"
    rig.sh(script)
    assert rig.said == [
        ("stderr", "\ufffd\\u0000 \x1b[31mred\x1b[0m"),
        ("stderr", "30%"),
    ]


def test_a_python_program_that_raises(rig: Rig) -> None:
    with pytest.raises(ProgramFailed, match="ZeroDivisionError"):
        rig.run(sys.executable, "-c", "print('before', flush=True); 1 / 0")
    assert rig.said[0] == ("stdout", "before")


def test_a_private_key_is_hidden_in_the_log(rig: Rig) -> None:
    body = "A" * 64
    rig.sh(f"echo -----BEGIN PRIVATE KEY-----; echo {body}; echo -----END PRIVATE KEY-----")
    assert body not in "".join(text for _, text in rig.said)


def test_what_on_line_refuses_is_in_the_log_with_all_that_came_with_it(rig: Rig) -> None:
    def refuse(_stream: str, line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="one"):
        rig.sh(r"printf 'one\ntwo\nthree\n'; sleep 60", on_line=refuse)
    assert [text for _, text in rig.said] == ["one", "two", "three"]


def test_a_program_that_ended_in_time_is_not_late_because_of_its_listener(rig: Rig) -> None:
    result = rig.sh("echo a", on_line=lambda *_: Event().wait(1.2), timeout=1)
    assert result.ok


def test_a_program_that_left_its_group_is_ended_too(rig: Rig) -> None:
    leave = "import os, time; os.setpgid(0, os.getpgid(os.getppid())); time.sleep(30)"
    with pytest.raises(ProgramFailed) as caught:
        rig.run(sys.executable, "-c", leave, timeout=1)
    assert caught.value.returncode == -signal.SIGTERM
