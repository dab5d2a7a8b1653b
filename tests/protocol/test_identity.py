"""Which process is which: alive, dead, or not to be seen from here."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flask_jobrunner.model.records import NOBODY, Identity
from flask_jobrunner.protocol import identity
from flask_jobrunner.protocol.identity import look, of_pid, this_process, uuid7

LOOK = """
import json, sys
from flask_jobrunner.model.records import Identity
from flask_jobrunner.protocol.identity import look, this_process
seen = Identity(**json.loads(sys.argv[1]))
me = this_process()
print(json.dumps([look(seen), me.pid, me.pid_ns, me.boot, look(me)]))
"""


WAIT = [sys.executable, "-I", "-S", "-c", "input()"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that lives until it is ended."""
    with subprocess.Popen(WAIT, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_this_process_lives() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert me.ticks is not None
    assert me.ticks > 0
    assert me.instance is me.incarnation is None
    assert look(me) == "alive"
    assert look(identity.parent_process()) == "alive"


def test_a_child_lives_until_it_ends_and_a_zombie_is_dead(
    sleeper: subprocess.Popen[bytes],
) -> None:
    child = of_pid(sleeper.pid)
    assert look(child) == "alive"
    assert child.ticks is not None
    assert child.ticks >= (this_process().ticks or 0)

    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    stat = identity.read_stat(sleeper.pid)
    assert stat is not None
    assert stat[0] == "Z"
    assert look(child) == "dead"

    sleeper.wait()
    assert look(child) == "dead"


def test_a_reused_pid_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    child = of_pid(sleeper.pid)
    assert child.ticks is not None
    assert look(replace(child, ticks=child.ticks - 1)) == "dead"
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"boot": "another-boot"}, "dead"),
        ({"host": "elsewhere"}, "unseen"),
        ({"host": "elsewhere", "boot": "another-boot"}, "unseen"),
        ({"host": None}, "unseen"),
        ({"boot": None}, "unseen"),
        ({"pid_ns": "pid:[1]"}, "unseen"),
        ({"pid_ns": None}, "unseen"),
        ({"pid": None}, "unseen"),
        ({"ticks": None}, "unseen"),
    ],
)
def test_what_cannot_be_compared_is_not_seen(change: dict[str, str | None], answer: str) -> None:
    assert look(replace(this_process(), **change)) == answer  # type: ignore[arg-type]


def test_nobody_is_not_seen() -> None:
    assert look(NOBODY) == "unseen"


def test_a_new_incarnation_of_an_instance_proves_the_one_before_it_dead() -> None:
    me = this_process("web-1")
    assert me.incarnation is not None
    before = replace(me, incarnation="boot/ns/1", host="other-container", pid_ns="pid:[1]")
    assert look(before, "web-1") == "dead"
    assert look(before, "web-2") == "unseen"
    assert look(before) == "unseen"
    assert look(me, "web-1") == "alive"
    assert look(replace(before, incarnation=me.incarnation), "web-1") == "unseen"


def test_an_incarnation_changes_with_pid_1(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process("web-1")
    monkeypatch.setattr(identity, "read_stat", lambda pid: ("S", 5 if pid == 1 else me.ticks))
    assert this_process("web-1").incarnation != me.incarnation


@pytest.mark.parametrize(
    ("error", "answer"),
    [(ProcessLookupError, "dead"), (PermissionError, "unseen"), (None, "unseen")],
)
def test_where_proc_is_hidden_only_the_kernel_s_denial_is_proof(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError] | None, answer: str
) -> None:
    me, other = this_process(), replace(this_process(), pid=2**22 + 1)
    stat = identity.read_stat(os.getpid())

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (other.pid, 0)
        if error is not None:
            raise error

    monkeypatch.setattr(
        identity, "read_stat", lambda pid: stat if pid in {os.getpid(), 1} else None
    )
    monkeypatch.setattr("flask_jobrunner.protocol.identity.os.kill", kill)
    assert look(other) == answer
    assert look(me) == "alive"


def test_one_that_shows_itself_at_the_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    me, answers = this_process(), [None, identity.read_stat(os.getpid())]
    monkeypatch.setattr(identity, "this_process", lambda _instance: me)
    monkeypatch.setattr(identity, "read_stat", lambda _pid: answers.pop(0))
    assert look(me) == "alive"


def test_without_proc_nobody_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also for a moment: a process out of file descriptors must not find every owner dead."""
    me = this_process("web-1")
    identity._read_boot_id.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(identity, "_PROC", tmp_path)
        blind = this_process("web-1")
        assert (blind.boot, blind.pid_ns, blind.ticks) == (None, None, None)
        assert blind.incarnation is None
        assert look(me, "web-1") == "unseen"
        assert look(blind) == "unseen"
    assert this_process("web-1") == me
    assert look(me, "web-1") == "alive"
    assert look(blind, "web-1") == "unseen"


def test_a_command_s_name_may_hold_anything(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 ("
    sleep = shutil.which("sleep")
    assert sleep is not None
    program.symlink_to(sleep)
    with subprocess.Popen([str(program), "60"]) as process:
        try:
            stat = identity.read_stat(process.pid)
            assert stat is not None
            assert stat[0] in "SRD"
            assert stat[1] >= (this_process().ticks or 0)
            assert look(of_pid(process.pid)) == "alive"
        finally:
            process.kill()


def from_inside(prefix: list[str], seen: Identity) -> list[object]:
    """What a Python that `prefix` starts says about `seen` and itself."""
    argv = [*prefix, sys.executable, "-c", LOOK, json.dumps(dataclasses.asdict(seen))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0 and "unshare" in done.stderr + done.stdout:
        pytest.skip(f"namespaces are not permitted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    answer: list[object] = json.loads(done.stdout)
    return answer


def test_another_pid_namespace_sees_nobody_of_ours(sleeper: subprocess.Popen[bytes]) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    child = of_pid(sleeper.pid)
    answer, pid, namespace, boot, itself = from_inside(
        ["unshare", "--pid", "--fork", "--mount-proc"], child
    )
    assert answer == "unseen"
    assert itself == "alive"
    assert boot == child.boot
    assert namespace != child.pid_ns
    # And the other way: its pid is a number of some process here, and proves nothing.
    inside = replace(child, pid=int(str(pid)), pid_ns=str(namespace), ticks=1)
    assert look(inside) == "unseen"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can look as somebody else")
def test_another_user_with_hidepid_may_not_look(sleeper: subprocess.Popen[bytes]) -> None:
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs unshare and setpriv")
    # A proc of its own, in a mount namespace of its own: the machine's stays as it is.
    hidden = 'mount -t proc -o hidepid=2 proc /proc || exit 9; exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", hidden, "unshare"]
    prefix += ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    answer, *_, itself = from_inside(prefix, of_pid(sleeper.pid))
    assert answer == "unseen"
    assert itself == "alive"


def test_uuid7_is_what_the_rfc_says() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid.UUID(uuid7()) for _ in range(2000)]
    after = time.time_ns() // 1_000_000
    assert len(set(made)) == 2000
    for one in made:
        assert one.variant == uuid.RFC_4122
        assert one.version == 7
        assert before <= one.int >> 80 <= after
    # All 74 random bits vary.
    varied = made[0].int ^ made[0].int
    for one in made:
        varied |= one.int ^ made[0].int
    assert varied & (1 << 62) - 1 == (1 << 62) - 1
    assert varied >> 64 & 0xFFF == 0xFFF


def test_uuid7_sorts_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for millisecond in (1, 2, 1_700_000_000_000, 1_700_000_000_001, (1 << 48) - 1):
        monkeypatch.setattr(time, "time_ns", lambda ms=millisecond: ms * 1_000_000)
        texts.append(uuid7())
    assert texts == sorted(texts)
    assert all(text == str(uuid.UUID(text)) for text in texts)
