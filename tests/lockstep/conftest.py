"""The three databases, with our tables and one clock."""

from __future__ import annotations

from tests.helpers.store_fixtures import shared_mariadb, shared_postgresql, shared_sqlite

__all__ = ["shared_mariadb", "shared_postgresql", "shared_sqlite"]
