"""What is refused before anything is stored."""

from __future__ import annotations

import io

import pytest

from demo_app import strikes, uploads

HEADER = ",".join(strikes.COLUMNS)
ROW = "LOGAN INTL,B-727,None,1999-01-02,DELTA,Massachusetts,Climb,Small,Rock pigeon,Day,0,0,0,"


def read(data: bytes) -> bytes:
    """What the view does with an upload."""
    return uploads.read_upload(io.BytesIO(data))


def test_a_good_file_is_taken_as_it_is() -> None:
    data = f"\ufeff{HEADER}\r\n{ROW}\r\n".encode()

    assert read(data) == data


BAD_FILES = {
    "nothing": (b"", "The file is empty"),
    "blank": (b" \r\n\n", "The file is empty"),
    "too large": (b"x" * (uploads.MAX_BYTES + 1), "larger than 5 MiB"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0", "not UTF-8 text: line 1"),
    "latin-1": (f"{HEADER}\nMünchen".encode("latin-1"), "not UTF-8 text: line 2"),
    "utf-16": (HEADER.encode("utf-16"), "not UTF-8"),
    "a NUL": (b"a,b\0c\n", "NUL"),
    "a web page": (b"<html><body>Hello</body></html>", "not CSV: its first line has no commas"),
    "semicolons": (HEADER.replace(",", ";").encode(), "not CSV: its first line has no commas"),
    "an open quote": (f'{HEADER}\n"never closed'.encode(), "not CSV: unexpected end of data"),
    "other columns": (b"a,b\n1,2\n", "lacks 14 of the 14 columns"),
    "one column less": (HEADER.replace(strikes.SPEED, "v").encode(), f"lacks 1 .*{strikes.SPEED}"),
    "a column twice": (f"{HEADER},{strikes.DATE}\n".encode(), "names a column twice: Flight Date"),
    "no rows": (f"{HEADER}\n\n".encode(), "a header and no rows"),
    "too many rows": (f"{HEADER}\n".encode() + b"x\n" * 50_001, "50,001 rows; the most is 50,000"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_its_reason(name: str) -> None:
    data, message = BAD_FILES[name]

    with pytest.raises(uploads.UploadRefused, match=message):
        read(data)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("strikes.csv", "strikes.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\My files\\strikes 1.csv", "strikes 1.csv"),
        ("a\0b\udc80\u202ec.csv", "abc.csv"),
        ("\n", "unnamed.csv"),
        ("folder/", "unnamed.csv"),
        ("鳥" * 100, "鳥" * 50),
    ],
)
def test_an_upload_is_called_by_a_name_that_can_be_shown(given: str, shown: str) -> None:
    assert uploads.shown_name(given) == shown
