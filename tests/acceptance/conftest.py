"""Whole paths, with real processes, on each of the three databases."""

from __future__ import annotations

from tests.helpers.job_fixtures import commands, pull

__all__ = ["commands", "pull"]
