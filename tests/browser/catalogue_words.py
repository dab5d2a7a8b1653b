"""What the jobs of the catalogue were given, printed and came to."""

from __future__ import annotations

from typing import Any

PAYLOAD = {
    "file": "orders-2026-11-30.csv",
    "shop": 17,
    "options": {"skip_duplicates": True, "notify": ["anna@example.org"]},
    "api_token": "not-for-a-page",
}
RESULT = {"rows": 12480, "inserted": 12477, "skipped": 3, "total": "184230.50"}
MESSAGE = "The supplier's price list has no column 'net_price'"
TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/shop/handlers/prices.py", line 41, in update
    changed = apply(read_rows(source), prices)
  File "/srv/shop/handlers/prices.py", line 78, in read_rows
    raise MissingColumn(source.name, "net_price")
shop.errors.MissingColumn: The supplier's price list has no column 'net_price'
"""

Line = str | dict[str, Any]


def import_lines(rows: int) -> list[Line]:
    """What an import says while it runs."""
    told: list[Line] = [
        "Reading orders-2026-11-30.csv (1.9 MB, 12,480 rows)",
        {"message": "Using 4 rules for the shop 17", "level": "debug"},
    ]
    for number in range(1, rows):
        told.append({"message": f"checked {number * 200:,} rows", "stream": "stdout"})
        if number % 9 == 0:
            told.append(
                {
                    "message": f"Row {number * 200 + 7}: no postcode, taken from the city",
                    "level": "warning",
                    "context": {"row": number * 200 + 7, "city": "Uppsala"},
                }
            )
    return told


def failing_lines() -> list[Line]:
    """What a job says before it fails."""
    return [
        "Fetching the price list of the supplier Nordbok",
        {"message": "received 48,112 bytes in 310 ms", "stream": "stdout"},
        {"message": "DeprecationWarning: read_rows() will want an encoding", "stream": "stderr"},
        {"message": MESSAGE, "level": "error"},
    ]


def coloured_lines() -> list[Line]:
    """What a test runner prints to a terminal."""
    names = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
    told: list[Line] = [
        {"message": f"\x1b[{base + number}m{base + number} {name}\x1b[0m", "stream": "stdout"}
        for base in (30, 90)
        for number, name in enumerate(names)
    ]
    told += [
        {"message": f"\x1b[1;37;4{number}m on {name} \x1b[0m", "stream": "stdout"}
        for number, name in enumerate(names)
    ]
    rest = (
        "\x1b[1mbold\x1b[0m \x1b[2mfaint\x1b[0m \x1b[3mitalic\x1b[0m \x1b[9mstruck\x1b[0m",
        "\x1b[32m✓\x1b[0m 212 passed \x1b[33m⚠ 3 skipped\x1b[0m \x1b[1;31m✗ 1 failed\x1b[0m",
        "downloading  10%\rdownloading  55%\rdownloading 100%",
        "one very long line " * 40,
    )
    return told + [{"message": text, "stream": "stdout"} for text in rest]
