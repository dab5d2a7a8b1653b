"""Routes and hooks. Nothing here imports a view before a request asks for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from flask import Blueprint, Flask, Response, current_app, request

from flask_jobrunner.model.errors import ConfigError, DatabaseAway, LockBusy

NAME = "jobrunner"
STATIC_MAX_AGE = 365 * 86400
"""Seconds. The address of every file holds a digest of its content, so it may be kept."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """One address and the function, by name, that answers it."""

    rule: str
    endpoint: str
    view: str
    methods: tuple[str, ...] = ("GET",)


ROUTES = (
    Route(rule="/", endpoint="index", view="views:index"),
    Route(rule="/_list", endpoint="list_live", view="fragments:list_live"),
    Route(rule="/supervisors", endpoint="supervisors", view="views:supervisors"),
    Route(rule="/_supervisors", endpoint="supervisors_live", view="fragments:supervisors_live"),
    Route(rule="/types", endpoint="types", view="type_views:types"),
    Route(rule="/types/<job_type>", endpoint="type", view="type_views:one_type"),
    Route(rule="/prefs", endpoint="prefs", view="preference_views:prefs", methods=("GET", "POST")),
    Route(rule="/<uuid:uuid>", endpoint="detail", view="views:detail"),
    Route(rule="/<uuid:uuid>/_live", endpoint="job_live", view="fragments:job_live"),
    Route(rule="/<uuid:uuid>/log", endpoint="log", view="log_views:window"),
    Route(rule="/<uuid:uuid>/log.txt", endpoint="log_text", view="log_views:as_text"),
    Route(rule="/<uuid:uuid>/log.ndjson", endpoint="log_ndjson", view="log_views:as_ndjson"),
    Route(rule="/<uuid:uuid>/_lines", endpoint="log_earlier", view="log_views:earlier"),
    Route(rule="/<uuid:uuid>/artifacts/<name>", endpoint="artifact", view="download:artifact"),
    Route(rule="/<uuid:uuid>/embed", endpoint="embed", view="embed:job_fragment"),
    Route(rule="/_mine", endpoint="mine", view="mine:mine_fragment"),
    Route(rule="/index.json", endpoint="index_json", view="api:index"),
    Route(rule="/<uuid:uuid>.json", endpoint="job_json", view="api:job"),
    Route(rule="/supervisors.json", endpoint="supervisors_json", view="api:supervisors"),
    Route(rule="/types.json", endpoint="types_json", view="api:types"),
    *(
        Route(rule=rule, endpoint=endpoint, view=view, methods=("GET", "POST"))
        for rule, endpoint, view in (
            ("/<uuid:uuid>/cancel", "cancel", "actions:cancel"),
            ("/<uuid:uuid>/requeue", "requeue", "actions:requeue"),
            ("/<uuid:uuid>/force-stop", "force_stop", "force:force_stop"),
            ("/<uuid:uuid>/again", "again", "again:again"),
            ("/types/<job_type>/run", "run_type", "run_now:run"),
            ("/supervisors/<supervisor>/drain", "drain", "drain:drain"),
            ("/bulk/cancel", "bulk_cancel", "bulk:cancel"),
            ("/bulk/requeue", "bulk_requeue", "bulk:requeue"),
        )
    ),
)


def make_blueprint(name: str = NAME) -> Blueprint:
    """A blueprint with every route; another `name` allows a second mount in one app."""
    # The package is its root, so that templates and static files lie beside the other floors.
    blueprint = _Dashboard(
        name,
        "flask_jobrunner",
        static_folder="static",
        static_url_path="/static",
        template_folder="templates",
    )
    for route in ROUTES:
        blueprint.add_url_rule(
            route.rule, route.endpoint, _lazily(route.view), methods=list(route.methods)
        )
    blueprint.before_request(_guard)
    blueprint.after_request(_finish)
    blueprint.app_context_processor(_lazily("mount:offer_widgets"))
    # By code: a handler for all of them would come after the host's own handler of one.
    for code in (400, 403, 404, 405, 409, 410, 413, 416, 422, 503):
        blueprint.register_error_handler(code, _lazily("problems:http_problem"))
    blueprint.register_error_handler(LockBusy, _lazily("problems:database_problem"))
    blueprint.register_error_handler(DatabaseAway, _lazily("problems:database_problem"))
    return blueprint


def register(app: Flask, prefix: str) -> None:
    """Mount the dashboard. Raises `ConfigError` when its place or its name is taken."""
    check_collision(app, prefix)
    if NAME in app.blueprints:
        raise ConfigError(
            f"The app already has a blueprint named {NAME!r}; rename it, or turn the dashboard "
            "off (JOBRUNNER_URL_PREFIX = None) and mount flask_jobrunner.dashboard.make_blueprint "
            "under another name."
        )
    app.register_blueprint(make_blueprint(), url_prefix=prefix)


def check_collision(app: Flask, prefix: str) -> None:
    """Raise `ConfigError` when the host has rules of its own below `prefix`, naming them."""
    taken = collisions(app, prefix)
    if taken:
        raise ConfigError(
            f"The app already has rules below {prefix}: {', '.join(taken)}. Give the dashboard "
            "another place (JOBRUNNER_URL_PREFIX = '/admin/jobs'), or none (None)."
        )


def collisions(app: Flask, prefix: str) -> list[str]:
    """The host's own rules at or below `prefix`."""
    return sorted(
        rule.rule
        for rule in app.url_map.iter_rules()
        if (rule.rule == prefix or rule.rule.startswith(f"{prefix}/"))
        and not _is_ours(app, rule.endpoint)
    )


def _is_ours(app: Flask, endpoint: str) -> bool:
    return is_mount(app, endpoint.rpartition(".")[0])


def is_mount(app: Flask, name: str) -> bool:
    """Whether the blueprint of that name is a dashboard."""
    return isinstance(app.blueprints.get(name), _Dashboard)


class _Dashboard(Blueprint):
    def get_send_file_max_age(self, filename: str | None) -> int | None:  # noqa: ARG002
        return STATIC_MAX_AGE if "v" in request.args else None


def _lazily(view: str) -> Callable[..., Any]:
    module, _, name = view.partition(":")

    def call(*arguments: Any, **values: Any) -> Any:
        return getattr(import_module(f"flask_jobrunner.dashboard.{module}"), name)(
            *arguments, **values
        )

    return call


def _guard() -> Any:
    if is_static():
        return None
    from . import access, csrf

    access.admit()
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        csrf.check(current_app)
    return None


def _finish(response: Response) -> Response:
    from . import headers

    return headers.add(response, static=is_static())


def is_static() -> bool:
    """Whether this request asks for one of our files, which hold no secret."""
    return (request.endpoint or "").endswith(".static")
