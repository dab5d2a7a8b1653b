"""`store`: each of the three databases, with our tables and no rows."""

from __future__ import annotations

from tests.helpers.store_fixtures import shared_mariadb, shared_postgresql, shared_sqlite, store

__all__ = ["shared_mariadb", "shared_postgresql", "shared_sqlite", "store"]
