"""Supervisors for the matrix."""

from __future__ import annotations

from tests.acceptance.conftest import pull

__all__ = ["pull"]
