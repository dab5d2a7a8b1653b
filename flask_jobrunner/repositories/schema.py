"""The one row of `meta`, and whether the live tables are the ones this version needs."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import (
    CheckConstraint,
    Connection,
    Constraint,
    Inspector,
    Table,
    UniqueConstraint,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import IntegrityError

from flask_jobrunner.model.errors import SchemaError

from .database import MIGRATE, Database
from .tables import SCHEMA_VERSION


@dataclass(frozen=True, kw_only=True)
class Meta:
    """What tells this database from every other, and which version its tables are."""

    schema_version: int
    fingerprint: str


class MetaRepository:
    """`meta` is made at first use and read once per process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._meta: Meta | None = None

    def ensure(self) -> Meta:
        """The row; raises `SchemaError` when tables are missing or of another version."""
        return self.check() or self._make()

    def check(self) -> Meta | None:
        """The row, or None while nobody has made it; writes nothing. Raises as `ensure` does."""
        if self._meta is None:
            meta = self._read()
            if meta is not None and meta.schema_version != SCHEMA_VERSION:
                raise SchemaError(
                    f"The tables of flask_jobrunner are version {meta.schema_version}, this code "
                    f"needs version {SCHEMA_VERSION}: {MIGRATE}."
                )
            self._meta = meta
        return self._meta

    def forget(self) -> None:
        """Read it anew the next time."""
        self._meta = None

    def _read(self) -> Meta | None:
        meta = self._database.tables.meta
        rows = self._database.rows(select(meta.c.schema_version, meta.c.fingerprint))
        return Meta(**rows[0]) if rows else None

    def _make(self) -> Meta:
        def unit(connection: Connection) -> None:
            connection.execute(
                insert(self._database.tables.meta).values(
                    id=1,
                    schema_version=SCHEMA_VERSION,
                    fingerprint=secrets.token_hex(16),
                    created_at=self._database.now(),
                )
            )

        # A conflict: another process was faster, and its row counts.
        with contextlib.suppress(IntegrityError):
            self._database.run(unit)
        made = self.check()
        if made is None:
            raise SchemaError("The row of the meta table disappeared.")
        return made

    def differences(self) -> list[str]:
        """What the live schema lacks, one sentence each; empty when all is there."""
        return self._database.read(self._compare)

    def _compare(self, connection: Connection) -> list[str]:
        found, missing = inspect(connection), list[str]()
        for table in self._database.tables.all():
            if not found.has_table(table.name, schema=table.schema):
                missing.append(f"table {table.name} is missing")
                continue
            live = _Live(found, table)
            missing += [
                f"column {table.name}.{column.name} is missing"
                for column in table.columns
                if column.name not in live.columns
            ]
            missing += [
                f"index {index.name} is missing"
                for index in table.indexes
                if index.name not in live.indexes
            ]
            missing += live.lacking(table.constraints)
        return missing


class _Live:
    """What one table has in the live database."""

    def __init__(self, found: Inspector, table: Table) -> None:
        name, schema = table.name, table.schema
        self.columns = {column["name"] for column in found.get_columns(name, schema)}
        self.indexes = {index["name"] for index in found.get_indexes(name, schema)}
        self._uniques = {one["name"] for one in found.get_unique_constraints(name, schema)}
        self._checks = {
            one["name"]: one["sqltext"] for one in found.get_check_constraints(name, schema)
        }

    def lacking(self, constraints: Iterable[Constraint]) -> list[str]:
        """The unique and check constraints that are missing, and checks that say another thing."""
        missing = list[str]()
        for constraint in constraints:
            name = constraint.name
            if isinstance(constraint, UniqueConstraint) and name not in self._uniques:
                missing.append(f"unique constraint {name} is missing")
            if isinstance(constraint, CheckConstraint):
                if name not in self._checks:
                    missing.append(f"check {name} is missing")
                elif _words(self._checks[name]) != _words(str(constraint.sqltext)):
                    missing.append(f"check {name} allows other values than this version needs")
        return missing


def _words(text: str) -> set[str]:
    """The texts that a CHECK compares with: all that is alike in how databases print one."""
    return set(re.findall(r"'([^']*)'", text))
