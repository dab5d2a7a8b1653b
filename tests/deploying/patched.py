"""An application whose module lets gevent patch everything, as applications below gevent may."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

from tests.deploying.served import create_app  # noqa: E402 - that is the point

__all__ = ["create_app"]
