"""What a statement does is told from its text, and in doubt it is a write."""

from __future__ import annotations

import pytest

from flask_jobrunner.repositories.host_session.statements import (
    WRITE,
    Does,
    Effect,
    effect_of,
    headline,
)

WRITES = [
    "INSERT INTO orders (name) VALUES (?)",
    "  \n update orders set name = 'a'",
    "DELETE FROM orders",
    "REPLACE INTO orders VALUES (1)",
    "MERGE INTO orders USING x ON true WHEN MATCHED THEN DELETE",
    "INSERT INTO orders (name) VALUES (%s) RETURNING id",
    "/* route: shop */ UPDATE orders SET name = 'a'",
    "-- from the shop\nUPDATE orders SET name = 'a'",
    "/* a */ -- b\n /* c */ DELETE FROM orders",
    "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone",
    "WITH new AS (\n  INSERT INTO orders (name) VALUES ('x') RETURNING id\n) SELECT * FROM new",
    "WITH a AS (SELECT 1) UPDATE orders SET name = 'x' WHERE id IN (SELECT * FROM a)",
    "WITH a AS (SELECT id FROM orders FOR UPDATE) UPDATE orders SET name = 'x'",
    "WITH a AS (SELECT '\\') UPDATE orders SET name = ' x'",
    "WITH a AS (SELECT 'it\\'s') INSERT INTO orders (name) SELECT 'b'",
    "WITH a AS (SELECT 5--3) UPDATE orders SET name = 'x'",
    'WITH a AS (SELECT 1) INSERT/**/INTO"orders" SELECT 1',
    "WITH a AS (SELECT 1) REPLACE INTO orders SELECT 1",
    "WITH a AS (SELECT 1) SELECT * INTO copies FROM a",
    "SELECT * INTO copies FROM orders",
    "SELECT 1; UPDATE orders SET name = 'a'",
    "SAVEPOINT a; INSERT INTO orders VALUES (1)",
    "BEGIN; DELETE FROM orders; END",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "ANALYZE UPDATE orders SET name = 'a'",
    "SET STATEMENT max_statement_time = 1 FOR UPDATE orders SET name = 'a'",
    "/*! INSERT INTO orders VALUES (1) */",
    "CALL close_the_month()",
    "DO $$ BEGIN DELETE FROM orders; END $$",
    "COPY orders FROM STDIN",
    "TRUNCATE orders",
    "CREATE TABLE copies (id INTEGER)",
    "ALTER TABLE orders ADD COLUMN note TEXT",
    "{call something}",
    "INSERT INTO orders VALUES " + ", ".join(["(1)"] * 5000),
]

READS = [
    "",
    "  \n ",
    "-- nothing",
    "/* nothing */ ;",
    "SELECT 1",
    "select(1)",
    "(SELECT 1) UNION (SELECT 2)",
    "SELECT name FROM orders WHERE name = 'DELETE FROM orders; UPDATE x'",
    "SELECT id FROM orders WHERE id = 1 FOR UPDATE",
    "SELECT id FROM orders FOR NO KEY UPDATE SKIP LOCKED",
    "SELECT count(*) INTO @n FROM orders",
    "SELECT 'put into a box' FROM orders;",
    "WITH a AS (SELECT id FROM orders FOR UPDATE) SELECT * FROM a",
    "WITH a AS (SELECT updated_at, deleted FROM orders) SELECT * FROM a",
    'WITH a AS (SELECT "delete", o.update FROM o) SELECT * FROM a',
    "WITH a AS (SELECT replace(name, 'a', 'b'), insert(name, 1, 1, 'x') FROM o) SELECT 1",
    "WITH a AS (SELECT 1 /* delete me */) -- update it\n SELECT 1",
    "WITH a AS (SELECT $q$ delete from orders $q$) SELECT 1",
    "VALUES (1), (2)",
    "TABLE orders",
    "SHOW TABLES",
    "PRAGMA table_info(orders)",
    "SET LOCAL statement_timeout = 1000",
    "SET NAMES utf8mb4",
    "EXPLAIN SELECT 1",
    "EXPLAIN DELETE FROM orders",
    "EXPLAIN ANALYZE SELECT * FROM orders",
    "ANALYZE orders",
    "BEGIN",
    "COMMIT",
    "LOCK TABLE orders IN SHARE MODE",
    "PREPARE TRANSACTION 'x'",
    "ROLLBACK PREPARED 'x'",
    "SELECT 1 FROM orders WHERE name IN (" + ", ".join(["'delete '"] * 5000) + ")",
]


@pytest.mark.parametrize("statement", WRITES)
def test_a_statement_that_may_change_data_is_a_write(statement: str) -> None:
    assert effect_of(statement) == WRITE
    assert effect_of(statement.lower()) == WRITE


@pytest.mark.parametrize("statement", READS)
def test_a_statement_that_only_reads_or_sets_up_is_none(statement: str) -> None:
    assert effect_of(statement) is None
    assert effect_of(statement.lower()) is None


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("SAVEPOINT sa_savepoint_1", Effect(Does.SAVEPOINT, "sa_savepoint_1")),
        ('savepoint "Mine"', Effect(Does.SAVEPOINT, "mine")),
        ("RELEASE SAVEPOINT sa_savepoint_1", Effect(Does.RELEASE, "sa_savepoint_1")),
        ("RELEASE `mine`", Effect(Does.RELEASE, "mine")),
        ("ROLLBACK TO SAVEPOINT sa_savepoint_1", Effect(Does.ROLLBACK_TO, "sa_savepoint_1")),
        ("rollback work to mine", Effect(Does.ROLLBACK_TO, "mine")),
        ("ROLLBACK", Effect(Does.ROLLBACK)),
        ("/* x */ ROLLBACK TRANSACTION;", Effect(Does.ROLLBACK)),
    ],
)
def test_savepoints_are_read_from_their_statements(statement: str, effect: Effect) -> None:
    assert effect_of(statement) == effect


def test_a_headline_is_one_short_line_without_the_text_of_literals() -> None:
    statement = "\n  UPDATE users\n SET password = 'hunter2'"

    assert headline(statement) == "UPDATE users"
    assert headline("-- nightly\n/* job */ DELETE FROM users") == "DELETE FROM users"
    assert headline("UPDATE users SET password = 'it''s \\' x', n = 1") == (
        "UPDATE users SET password = '…', n = 1"
    )
    assert headline("UPDATE users SET password = 'hunter2") == "UPDATE users SET password = '…'"
    assert len(headline("INSERT INTO t VALUES " + "(1), " * 500)) == 120


def test_odd_texts_do_not_take_long() -> None:
    for text in ("/* a */ " * 50_000 + "1", "WITH a " + "/*" * 50_000, "WITH a " + "'" * 50_001):
        effect_of(text)
