"""What is secret is hidden; what is not stays readable; no text costs more than linear time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from flask_jobrunner.protocol.redact import (
    DEFAULT_REDACT_KEYS,
    MASK,
    NODE_LIMIT,
    TEXT_LIMIT,
    LineMasker,
    mask_text,
    mask_value,
)
from tests.helpers.effort import is_about_linear

HIDDEN = [
    ("postgresql://shop:s3cret@db/shop", "postgresql://shop:********@db/shop"),
    ("redis://:s3cret@cache:6379/0", "redis://:********@cache:6379/0"),
    ("mysql://admin@srv:s3cret@srv.test/x", "mysql://admin@srv:********@srv.test/x"),
    ("mysql://u:s3@cret@db/x", "mysql://u:********@db/x"),
    ("mysql://u:s3/cret@db/x", "mysql://u:********@db/x"),
    ("https://0123456789abcdef0123@sentry.test/1", "https://********@sentry.test/1"),
    ("Authorization: Bearer abc.def", "Authorization: ********"),
    ('{"Authorization": "Basic dTpw", "x": 1}', '{"Authorization": "********", "x": 1}'),
    ("sent Bearer a1b2c3d4 to it", "sent Bearer ******** to it"),
    ('curl -H "Cookie: a=b; c=d" https://x.test', 'curl -H "Cookie: ********" https://x.test'),
    ("curl -H 'Authorization: Bearer a b' -v", "curl -H 'Authorization: ********' -v"),
    ("Set-Cookie: session=abc; Path=/", "Set-Cookie: ********"),
    ("password=hunter2", "password=********"),
    ("DB_PASSWORD = 'it\\'s' # why", "DB_PASSWORD = '********' # why"),
    (
        '{"password": null, "token": 12, "c": [1]}',
        '{"password": null, "token": ********, "c": [1]}',
    ),
    ('{\\"api_key\\": \\"abc\\", \\"d\\": 1}', '{\\"api_key\\": \\"********\\", \\"d\\": 1}'),
    ("apiKey=zzz", "apiKey=********"),
    ("X-Api-Key: zzz", "X-Api-Key: ********"),
    ("GET /?access_token=abc&page=1", "GET /?access_token=********&page=1"),
    ("run --password hunter2 --verbose", "run --password ******** --verbose"),
    ("['--api-key', 'k', '-v']", "['--api-key', '********', '-v']"),
    ('os.environ["SECRET_KEY"] = "x"', 'os.environ["SECRET_KEY"] = "********"'),
    ('config={"password": "x"}', 'config={"password": "********"}'),
    ('password = """a\nb""" end', 'password = """********""" end'),
    ("tokens: [1, 2] end", "tokens: [********] end"),
    ("secret = {'a': 1} end", "secret = {********} end"),
    ("password: b'abc'", "password: b'********'"),
    ('password: "cut off', 'password: "********'),
    ("DSN=Driver;UID=a", "DSN=********"),
    ("key AKIAABCDEFGHIJKLMNOP used", "key ******** used"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK", "********"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- rest",
        "-----BEGIN RSA PRIVATE KEY-----********-----END RSA PRIVATE KEY----- rest",
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIE and then the end", "-----BEGIN PRIVATE KEY-----********"),
]

SHOWN = [
    "row 17: price of 12.50 skipped",
    "http://localhost:8080/path?mail=a@b.test",
    "see https://user.test/a and mail me@b.test",
    "ssh://git@github.test/x",
    "Basic authentication failed",
    "words_number=3",
    "password=",
    'password: ""',
    "token: none",
    "KeyError: 'name'",
    "-----BEGIN CERTIFICATE-----",
]

EVIL = [
    "a" * 400_000,
    "password=" * 40_000,
    "://" * 130_000,
    "://a:" * 80_000 + "@",
    '"' * 400_000 + "password",
    'password="' * 40_000,
    'password=\\"' * 40_000,
    "password='''" * 40_000,
    "password=[" * 40_000,
    "-----BEGIN PRIVATE KEY" * 20_000,
    "Bearer " * 60_000,
    "--a " * 100_000 + "password",
    "eyJ" + "a" * 400_000,
    "eyJaaaaaaaa." * 30_000,
    "token:" + " " * 400_000,
    ("://" + "a" * 255 + ":" + "b@") * 1_000,
]


@pytest.mark.parametrize(("text", "masked"), HIDDEN)
def test_secrets_in_text_are_hidden(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize(("text", "masked"), HIDDEN)
def test_masking_twice_changes_nothing(text: str, masked: str) -> None:
    assert mask_text(masked) == masked


@pytest.mark.parametrize("text", SHOWN)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_no_text_costs_more_than_linear_time(text: str) -> None:
    assert is_about_linear(mask_text, text)


def test_lines_are_masked_one_by_one() -> None:
    assert LineMasker().lines(["a", "b"]) == ["a", "b"]
    assert LineMasker().lines(["a", "password=x", "b"]) == ["a", "password=********", "b"]


def test_lines_that_cannot_be_read_are_hidden() -> None:
    assert LineMasker().lines([3]) == [MASK]  # type: ignore[list-item]


BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("prefix", ["", "12:00:01 INFO ", "    7\t"])
def test_a_private_key_is_hidden_although_it_comes_line_by_line(prefix: str) -> None:
    masker = LineMasker()
    key = ["DEK-Info: AES-256-CBC,00FF", "", BODY, BODY, "AbC="]
    shown = [masker.lines([line]) for line in [prefix + BEGIN, *key, END, "after it", BODY]]
    assert [line for lines in shown for line in lines] == [
        prefix + BEGIN + MASK,
        *[MASK] * 5,
        MASK + END,
        "after it",
        BODY,
    ]


def test_a_key_that_has_no_end_hides_no_more_than_what_looks_like_one() -> None:
    lines = LineMasker().lines([BEGIN, BODY, "that was the key", BODY])
    assert lines == [BEGIN + MASK, MASK, "that was the key", BODY]


def test_colours_do_not_hide_a_secret_from_us() -> None:
    coloured = "\x1b[36mpassword\x1b[0m=\x1b[35mhunter2\x1b[0m \x1b[36muser\x1b[0m=me"
    assert mask_text(coloured) == "password=******** user=me"
    assert mask_text("\x1b[31mtoken count 3\x1b[0m") == "\x1b[31mtoken count 3\x1b[0m"


def test_a_long_text_is_cut_rather_than_shown_unchecked() -> None:
    masked = mask_text("x" * TEXT_LIMIT + "password=abc")

    assert masked.endswith("[12 characters not shown]")
    assert "abc" not in masked


def test_what_is_no_text_is_hidden() -> None:
    assert mask_text(None) == MASK  # type: ignore[arg-type]


def test_values_below_secret_keys_are_hidden() -> None:
    value = {
        "user": "ann",
        "dbPassword": "x",
        "nested": [{"API-KEY": 3, "pin": 4}, ({"secrets": {"a": 1}},)],
        "url": "pg://a:b@c",
        "count": 2.5,
    }

    assert mask_value(value) == {
        "user": "ann",
        "dbPassword": MASK,
        "nested": [{"API-KEY": MASK, "pin": 4}, [{"secrets": MASK}]],
        "url": "pg://a:********@c",
        "count": 2.5,
    }


def test_that_a_secret_is_not_set_stays_visible() -> None:
    value = {"password": None, "token": "", "has_token": False}

    assert mask_value(value) == value


def test_short_keys_must_be_whole_words() -> None:
    assert mask_value({"dsn": 1, "db_dsn": 2, "adsn": 3}) == {
        "dsn": MASK,
        "db_dsn": MASK,
        "adsn": 3,
    }


def test_other_keys_may_be_named() -> None:
    keys = (*DEFAULT_REDACT_KEYS, "iban")

    assert mask_value({"IBAN": "x", "a": "iban=y"}, keys) == {"IBAN": MASK, "a": "iban=********"}
    assert mask_text("iban=y") == "iban=y"


def test_a_cycle_and_a_huge_value_end() -> None:
    cycle: list[object] = []
    cycle += [cycle, cycle]

    assert mask_value(cycle)
    assert mask_value([1] * (NODE_LIMIT + 10))[-1] == 1


def test_the_original_is_not_changed() -> None:
    value = {"password": "x", "list": [{"token": "y"}]}
    mask_value(value)

    assert value == {"password": "x", "list": [{"token": "y"}]}


class Hostile(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise RuntimeError

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        return 1


def test_a_value_that_cannot_be_read_is_hidden() -> None:
    assert mask_value({"a": Hostile()}) == MASK


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[01;31m\x1b[Kpass\x1b[m\x1b[Kword=hunter2",  # as `grep --color` shows what it found
        "\x1b[1mtok\x1b[0men: hunter2",
        "\x1b]0;password=hunter2\x07",
        "\x1b]8;;https://user:hunter2@host/\x07a link\x1b]8;;\x07",
    ],
)
def test_terminal_codes_hide_no_secret_from_the_mask(text: str) -> None:
    assert "hunter2" not in mask_text(text)
    assert "hunter2" not in "".join(LineMasker().lines(["first", text, "last"]))
