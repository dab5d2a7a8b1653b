"""Hosts that use what other people's hosts use, served and looked at."""

from __future__ import annotations

from tests.browser.conftest import empty_database, host, make_host, serve, served

__all__ = ["empty_database", "host", "make_host", "serve", "served"]
