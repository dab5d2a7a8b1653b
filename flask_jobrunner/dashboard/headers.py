"""Response headers. Only blanks are filled, so that the host's own policy wins."""

from __future__ import annotations

from flask import Response

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)


def add(response: Response, *, static: bool) -> Response:
    """Fill in what the response does not say yet."""
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        # Without a referrer, and on plain http, a form would arrive with `Origin: null`.
        "Referrer-Policy": "same-origin",
    }
    if not static:
        headers["Cache-Control"] = "no-store"
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response
