"""Supervisors with processes that stand by."""

from __future__ import annotations

from tests.helpers.job_fixtures import commands, pull

__all__ = ["commands", "pull"]
