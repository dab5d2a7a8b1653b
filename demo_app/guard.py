"""What the demo's own pages need to be safe in a browser: two hooks, no dependency."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, abort, request

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    "img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def init_app(app: Flask) -> None:
    """Refuse forms that other sites send, and let the pages run nothing that is not theirs."""
    app.before_request(_refuse_other_sites)
    app.after_request(_add_headers)


def _refuse_other_sites() -> None:
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site not in (None, "same-origin", "none"):
        abort(403, "This form was sent by another site.")
    # A browser without Fetch Metadata still names the origin; a program names neither.
    if site is None and origin is not None and urlsplit(origin).netloc != request.host:
        abort(403, "This form was sent by another site.")


def _add_headers(response: Response) -> Response:
    # The dashboard sends a policy of its own, which stands.
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response
