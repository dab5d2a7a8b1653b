"""Uploaded files: what is refused before anything is stored."""

from __future__ import annotations

import csv
from typing import IO

from . import strikes

MAX_BYTES = 5 * 1024 * 1024
MAX_ROWS = 50_000
NAME_MAX_BYTES = 150


class UploadRefused(Exception):
    """The file cannot be imported; the message is for the person who chose it."""


def read_upload(stream: IO[bytes]) -> bytes:
    """The bytes of an upload that is worth storing.

    Raises `UploadRefused` for a file that is empty, larger than `MAX_BYTES`, not UTF-8, not CSV,
    without rows, with more than `MAX_ROWS`, or without a column that the import needs.
    """
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UploadRefused(f"The file is larger than {MAX_BYTES // 1024**2} MiB.")
    if not data.strip():
        raise UploadRefused("The file is empty.")
    _refuse_bad_table(decoded(data))
    return data


def decoded(data: bytes) -> str:
    """The text of a file. Raises `UploadRefused` when it is not UTF-8 text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UploadRefused(
            f"The file is not UTF-8 text: line {line} has a byte that cannot be read. "
            "Save it as “CSV UTF-8” and try again."
        ) from error
    if "\0" in text:
        raise UploadRefused("The file is not CSV: it holds NUL characters, which text does not.")
    return text


def shown_name(file_name: str) -> str:
    """What to call an upload: the file's own name without its folders, printable and short."""
    base = file_name.replace("\\", "/").rpartition("/")[2]
    printable = "".join(character for character in base if character.isprintable())
    return printable.encode()[:NAME_MAX_BYTES].decode(errors="ignore").strip() or "unnamed.csv"


def _refuse_bad_table(text: str) -> None:
    try:
        header, rows = strikes.read(text)
        _refuse_bad_header(header)
        count = sum(1 for _ in rows)
    except csv.Error as error:
        raise UploadRefused(f"The file is not CSV: {error}.") from error
    if not count:
        raise UploadRefused("The file has a header and no rows.")
    if count > MAX_ROWS:
        raise UploadRefused(f"The file has {count:,} rows; the most is {MAX_ROWS:,}.")


def _refuse_bad_header(header: list[str]) -> None:
    if len(header) < 2:
        raise UploadRefused(
            "The file is not CSV: its first line has no commas, so it names no columns."
        )
    twice = sorted({name for name in header if header.count(name) > 1 and name in strikes.COLUMNS})
    if twice:
        raise UploadRefused(f"The header names a column twice: {', '.join(twice)}.")
    missing = [name for name in strikes.COLUMNS if name not in header]
    if missing:
        raise UploadRefused(
            f"The header lacks {len(missing)} of the {len(strikes.COLUMNS)} columns that a "
            f"wildlife-strike file has: {', '.join(missing)}."
        )
