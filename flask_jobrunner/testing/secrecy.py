"""Asserting that nothing secret got out."""

from __future__ import annotations

from flask_jobrunner.protocol.leaks import find_secrets


def assert_no_secrets(text: str, *secrets: str) -> None:
    """Fail if `text` (a page, a log, a command's output) holds one of `secrets` in any form.

    The message says which one, by its number from 0 on, in which form and at which character, and
    never the secret. Raises `ValueError` for a secret of fewer than four characters.
    """
    __tracebackhide__ = True
    found = find_secrets(text, secrets)
    if found:
        places = ", ".join(
            f"secret {leak.secret} ({leak.form}) at character {leak.place}" for leak in found
        )
        raise AssertionError(f"The text gives away {places}.")
