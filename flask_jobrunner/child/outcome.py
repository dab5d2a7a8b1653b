"""What a handler's end means: a result, an exception, a stop."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from flask import Flask

from flask_jobrunner.model.errors import HandlerError, JobCancelled, UnknownJobType
from flask_jobrunner.model.records import NewLine, Outcome
from flask_jobrunner.model.statuses import Reason, StopReason
from flask_jobrunner.model.words import REASON_WORDS
from flask_jobrunner.protocol.encoding import (
    NotEncodable,
    clean_text,
    clip_bytes,
    encode_json,
    safe_repr,
    split_chunks,
)
from flask_jobrunner.protocol.output import unify_newlines

MESSAGE_BYTES = 60_000
FULL_MESSAGE_CHARS = 1 << 20
TRACEBACK_BYTES = 64 << 10
_CHAIN = 12
_FRAMES = 40

OUT_OF_MEMORY = Outcome(
    status="failed",
    reason=Reason.HANDLER_RAISED,
    error_class="MemoryError",
    error_message="The handler ran out of memory.",
)

Mask = Callable[[str], str]


def of_result(app: Flask, value: Any, *, max_bytes: int, max_depth: int, mask: Mask) -> Outcome:
    """Success with the result encoded, or why it cannot be kept."""
    kind = _unfinished(value)
    if kind is not None:
        text = (
            f"The handler returned {kind}: nothing of it was run. A handler is a plain function "
            "that does its work before it returns; asyncio.run() and list() do it inside."
        )
        return Outcome(status="failed", reason=Reason.HANDLER_CONTRACT_MISMATCH, error_message=text)
    try:
        text = encode_json(
            value,
            max_bytes=max_bytes,
            max_depth=max_depth,
            default=getattr(app.json, "default", None),
            what="result",
        )
    except Exception as error:  # noqa: BLE001 - the application's own encoder may raise anything
        return _not_kept(value, error, mask)
    return Outcome(status="succeeded", result_json=text)


def _unfinished(value: object) -> str | None:
    if inspect.iscoroutine(value):
        value.close()  # or Python warns that it was never awaited
        return "a coroutine (it is an async function)"
    if inspect.isawaitable(value):
        return "an awaitable"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "a generator"
    return None


def _not_kept(value: object, error: Exception, mask: Mask) -> Outcome:
    too_large = isinstance(error, NotEncodable) and error.code == "too_large"
    told = f"{error}" if isinstance(error, NotEncodable) else _message(error)
    text = f"{told}. The handler's effects stand. Its result was: {safe_repr(value)}"
    return Outcome(
        status="failed",
        reason=Reason.RESULT_TOO_LARGE if too_large else Reason.RESULT_NOT_ENCODABLE,
        error_class=None if isinstance(error, NotEncodable) else _class(error),
        error_message=clip_bytes(mask(text), MESSAGE_BYTES),
    )


def of_stop(asked: StopReason) -> Outcome:
    """The handler stopped because it was asked to."""
    if asked == "shutdown":
        return Outcome(
            status="interrupted",
            reason=Reason.SHUTDOWN,
            error_message=REASON_WORDS[Reason.SHUTDOWN],
        )
    if asked in ("cancel", "force"):
        return Outcome(status="cancelled")
    reason = Reason.RUN_TIMEOUT if asked == "run_timeout" else Reason.STALLED
    return Outcome(status="failed", reason=reason, error_message=REASON_WORDS[reason])


def of_exception(error: BaseException, asked: StopReason | None, mask: Mask) -> Outcome:
    """What an exception out of the handler means. `asked`: why the job was to stop, if it was."""
    if isinstance(error, MemoryError):
        # Its frames hold what used the memory up, and the rest of the way needs some.
        error.__traceback__ = None
        return OUT_OF_MEMORY
    if isinstance(error, (JobCancelled, KeyboardInterrupt)) and asked is not None:
        return of_stop(asked)
    if isinstance(error, JobCancelled):
        reason, text = Reason.CANCELLED_UNASKED, REASON_WORDS[Reason.CANCELLED_UNASKED]
    elif isinstance(error, SystemExit):
        reason = Reason.HANDLER_EXITED
        text = f"The handler called sys.exit({safe_repr(error.code, 200)}) instead of returning."
    elif isinstance(error, HandlerError):
        return of_preparation(error, mask)
    elif isinstance(error, TypeError) and _was_not_entered(error.__traceback__):
        reason = Reason.HANDLER_CONTRACT_MISMATCH
        text = f"A handler takes one argument, the job's context: {_message(error)}"
    else:
        reason, text = Reason.HANDLER_RAISED, _message(error)
    return failed(error, reason, text, mask)


def of_preparation(error: BaseException, mask: Mask) -> Outcome:
    """The handler could not even be called."""
    if isinstance(error, (HandlerError, UnknownJobType)):
        return failed(error.__cause__ or error, Reason(error.reason_code), str(error), mask)
    return failed(error, Reason.HANDLER_NOT_IMPORTABLE, _message(error), mask)


def of_payload(error: BaseException, mask: Mask) -> Outcome:
    """The stored payload cannot be read, or its validator refused it."""
    return failed(error, Reason.INVALID_PAYLOAD, _message(error), mask)


def failed(error: BaseException, reason: Reason, text: str, mask: Mask) -> Outcome:
    """`failed`, with the exception's class, `text` and the traceback."""
    return Outcome(
        status="failed",
        reason=reason,
        error_class=_class(error),
        error_message=clip_bytes(clean_text(mask(text)), MESSAGE_BYTES),
        traceback=format_traceback(error, mask),
    )


def error_lines(
    outcome: Outcome, full_message: str, chunk_bytes: int, at: int
) -> Iterator[NewLine]:
    """The whole message as lines of level error; the row keeps at most 60,000 bytes of it."""
    told = {"error_class": outcome.error_class, "error_reason_code": outcome.reason}
    context = encode_json(told, max_bytes=4000, max_depth=2)
    for piece in split_chunks(unify_newlines(full_message), chunk_bytes):
        yield NewLine(piece, "error", "", None, context, at)


def full_message(error: BaseException | None, outcome: Outcome, mask: Mask) -> str:
    """The message uncut, as far as that is bearable."""
    short = outcome.error_message or ""
    if error is None or isinstance(error, MemoryError) or len(short) < MESSAGE_BYTES // 4:
        return short
    return clean_text(mask(_message(error)))


def _class(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else _dotted(kind)
    return clip_bytes(clean_text(name), 255)


def _dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as second:  # noqa: BLE001 - an exception whose own text fails
        return f"(the text of this {type(error).__qualname__} raised {type(second).__name__})"
    if len(text) > FULL_MESSAGE_CHARS:
        left_out = len(text) - FULL_MESSAGE_CHARS
        text = f"{text[:FULL_MESSAGE_CHARS]} [{left_out:,} characters left out]"
    return text or f"({type(error).__qualname__} without a message)"


def format_traceback(error: BaseException, mask: Mask) -> str:
    """The traceback with its causes: bounded in frames, causes and bytes, and never failing."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < _CHAIN:
        seen.add(id(current))
        parts.append(_one(current))
        cause, context = current.__cause__, current.__context__
        if cause is not None:
            joint = "\nThe above exception was the direct cause of the following exception:\n\n"
        else:
            joint = "\nDuring handling of the above exception, another exception occurred:\n\n"
        current = cause if cause is not None or current.__suppress_context__ else context
        if current is not None:
            parts.append(joint)
    if parts[-1].startswith("\n"):
        parts.append("(further causes left out)\n")
    text = clean_text(mask("".join(reversed(parts))))
    if len(text) > TRACEBACK_BYTES:
        # The end says what happened.
        text = "[…]\n" + text[-TRACEBACK_BYTES // 4 * 3 :]
    return clip_bytes(text, TRACEBACK_BYTES)


def _one(error: BaseException) -> str:
    try:
        stack = _own_frames_left_out(error.__traceback__)
        frames = traceback.extract_tb(stack)
        if len(frames) > _FRAMES:
            left_out = f"  […] {len(frames) - _FRAMES} frames left out\n"
            shown = traceback.format_list(frames[: _FRAMES // 4])
            shown += [left_out, *traceback.format_list(frames[-_FRAMES * 3 // 4 :])]
        else:
            shown = traceback.format_list(frames)
    except Exception:  # noqa: BLE001 - a broken traceback must not lose the error itself
        shown = ["  (the traceback cannot be shown)\n"]
    notes = getattr(error, "__notes__", None)
    lines = [f"{_class(error)}: {_message(error)[:4000]}\n"]
    lines += [f"{safe_str(note)}\n" for note in notes] if isinstance(notes, list) else []
    lines += [f"  | {_class(one)}: {_message(one)[:500]}\n" for one in _members(error)]
    return "Traceback (most recent call last):\n" + "".join(shown + lines)


def _members(error: BaseException) -> tuple[BaseException, ...]:
    return error.exceptions[:10] if isinstance(error, BaseExceptionGroup) else ()


def safe_str(value: object) -> str:
    """`str(value)` of at most 2000 characters; never raises."""
    try:
        return str(value)[:2000]
    except Exception:  # noqa: BLE001 - notes are the handler's own objects
        return safe_repr(value)


def _own_frames_left_out(stack: TracebackType | None) -> TracebackType | None:
    """Without the frames of this package above the handler."""
    current = stack
    while current is not None and _is_ours(current):
        current = current.tb_next
    return current or stack


def _was_not_entered(stack: TracebackType | None) -> bool:
    """Whether the call itself failed: no frame is the handler's."""
    current = stack
    while current is not None and _is_ours(current):
        current = current.tb_next
    return current is None


def _is_ours(stack: TracebackType) -> bool:
    return str(stack.tb_frame.f_globals.get("__name__", "")).startswith("flask_jobrunner.")
