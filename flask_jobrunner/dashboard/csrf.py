"""Whether an unsafe request comes from one of our own pages.

Browsers say so themselves (Fetch Metadata, then Origin); where neither is sent, a signed token
in the form and a cookie of the same page decide. A host's Flask-WTF checks besides: we send its
token and never exempt ourselves.
"""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, after_this_request, request, url_for
from itsdangerous import BadData, URLSafeTimedSerializer
from werkzeug.exceptions import Forbidden

from flask_jobrunner.runtime import current_runtime

FIELD = "jobrunner_token"
COOKIE = "jobrunner_csrf"
TOKEN_LIFE = 12 * 3600
"""Seconds that a confirm page may stay open."""


class CrossOrigin(Forbidden):
    """The request cannot be shown to come from one of our pages."""

    def __init__(self, failed: str, advice: str) -> None:
        super().__init__(description=failed)
        self.failed = failed
        self.advice = advice


def check(app: Flask) -> None:
    """Raise `CrossOrigin` unless the request comes from our own origin."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise CrossOrigin(
                f"The browser says that the request comes from another site "
                f"(Sec-Fetch-Site: {_shown(site)}).",
                "Send the form from the dashboard's own page.",
            )
        return
    origin = request.headers.get("Origin")
    if origin is not None and origin != "null":
        _check_origin(origin)
        return
    _check_token(app)


def fields(app: Flask) -> list[tuple[str, str]]:
    """The hidden fields of a form. Call it for pages only: it may set cookies."""
    found: list[tuple[str, str]] = []
    signer = _signer(app)
    if signer is not None:
        found.append((FIELD, signer.dumps(_nonce())))
    if "csrf" in app.extensions:
        # Flask-WTF's global, whatever it is bound to in this app.
        make_token: Any = app.jinja_env.globals.get("csrf_token")
        if callable(make_token):
            found.append((app.config.get("WTF_CSRF_FIELD_NAME", "csrf_token"), make_token()))
    return found


def _check_origin(origin: str) -> None:
    allowed = {_origin_of(request.host_url), *current_runtime().config.trusted_origins}
    if _origin_of(origin) not in allowed:
        raise CrossOrigin(
            f"The request comes from {_shown(origin)}, and this app believes to be at "
            f"{_shown(_origin_of(request.host_url))}.",
            "If that is one and the same, the app stands behind a proxy it does not know of: "
            "pass Host and X-Forwarded-Proto on and wrap the app in werkzeug's ProxyFix, or "
            "list the origin in JOBRUNNER_TRUSTED_ORIGINS.",
        )


def _check_token(app: Flask) -> None:
    signer = _signer(app)
    if signer is None:
        raise CrossOrigin(
            "The browser does not say where the request comes from, and the app has no "
            "SECRET_KEY to sign a token with.",
            "Set SECRET_KEY, or serve the app over HTTPS.",
        )
    try:
        nonce = signer.loads(request.form.get(FIELD, ""), max_age=TOKEN_LIFE)
    except BadData:
        nonce = None
    kept = request.cookies.get(COOKIE, "")
    if not (isinstance(nonce, str) and kept and secrets.compare_digest(nonce, kept)):
        raise CrossOrigin(
            "The form's token is missing, too old, or of another browser.",
            "Open the page again and repeat the step; the browser has to accept cookies.",
        )


def _signer(app: Flask) -> URLSafeTimedSerializer | None:
    if not app.secret_key:
        return None
    return URLSafeTimedSerializer(app.secret_key, salt="flask_jobrunner.csrf")


def _nonce() -> str:
    """The browser's own random value: a token stolen elsewhere does not fit its cookie."""
    kept = request.cookies.get(COOKIE, "")
    nonce = kept if 32 <= len(kept) <= 64 and kept.isascii() else secrets.token_urlsafe(32)

    @after_this_request
    def keep(response: Response) -> Response:
        response.set_cookie(
            COOKIE,
            nonce,
            max_age=TOKEN_LIFE,
            path=url_for(".index"),
            secure=request.is_secure,
            httponly=True,
            samesite="Strict",
        )
        return response

    return nonce


def _origin_of(address: str) -> str:
    """`https://example.org` from an address or origin; default ports left out."""
    try:
        parts = urlsplit(address.lower())
        port = parts.port
    except ValueError:
        return "-"
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + ("" if port in (None, default) else f":{port}")


def _shown(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
