"""The demo's jobs. Importing this module registers them with `demo_app.extensions.jobs`."""

from __future__ import annotations

from . import faults, import_csv, long_log, noisy, smoke

__all__ = ["faults", "import_csv", "long_log", "noisy", "smoke"]
