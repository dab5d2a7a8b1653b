"""The registry: who may be registered, and how a job type finds its function."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from flask_jobrunner import JobRunner
from flask_jobrunner.handlers import Handler, HandlerRegistry
from flask_jobrunner.model.errors import ConfigError, HandlerError, UnknownJobType
from flask_jobrunner.model.statuses import Reason


@pytest.fixture
def registry() -> HandlerRegistry:
    """An empty registry."""
    return HandlerRegistry()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """An importable module without anything in it."""
    made = types.ModuleType("hosts_jobs")
    monkeypatch.setitem(sys.modules, "hosts_jobs", made)
    return made


def handler(job_type: str, function: Callable[..., Any] | None, **options: Any) -> Handler:
    """A handler with defaults."""
    return Handler(job_type=job_type, function=function, **options)


def build(ctx: Any) -> Any:
    """A function that hands back its context."""
    return ctx


def other(ctx: Any) -> Any:
    """Another one."""
    return ctx


class Runs:
    """A class with run(ctx)."""

    def run(self, ctx: Any) -> Any:
        """Hand back the context."""
        return ctx


class RunsNot:
    """A class without."""


class WantsMore:
    """A class that cannot be made without arguments."""

    def __init__(self, needed: int) -> None:
        self.needed = needed

    def run(self, ctx: Any) -> Any:
        """Never reached."""
        return ctx


def test_the_same_function_again_replaces_itself(registry: HandlerRegistry) -> None:
    """A factory called twice registers twice."""
    registry.add(handler("a.b", build))
    registry.add(handler("a.b", build, title="Again"))

    assert registry.find("a.b").title == "Again"


def test_another_function_needs_a_job_type_of_its_own(registry: HandlerRegistry) -> None:
    """Two handlers of one id are a mistake that names both."""
    registry.add(handler("a.b", build))

    with pytest.raises(ConfigError, match=r"build.*other"):
        registry.add(handler("a.b", other))


def test_an_unknown_type_names_the_known_ones(registry: HandlerRegistry) -> None:
    """So that a typing mistake is seen."""
    registry.add(handler("a.b", build))
    registry.add(handler("c.d", other))

    with pytest.raises(UnknownJobType, match=r"Known: a\.b, c\.d\."):
        registry.find("a.c")
    assert UnknownJobType.reason_code == Reason.HANDLER_NOT_REGISTERED


@pytest.mark.parametrize(
    "job_type", ["", " ", " a", "a ", "a\nb", "x" * 129, "ü" * 65, "a/b", ".", "..", 3, None]
)
def test_a_bad_job_type_is_refused(registry: HandlerRegistry, job_type: Any) -> None:
    """It must fit a column, a URL and a line."""
    with pytest.raises(ConfigError, match="job type"):
        registry.add(handler(job_type, build))


@pytest.mark.parametrize("job_type", ["a", "reports.build", "x" * 128, "größe.ändern"])
def test_a_good_job_type_is_taken(registry: HandlerRegistry, job_type: str) -> None:
    """Also one with letters beyond ASCII."""
    registry.add(handler(job_type, build))

    assert list(registry) == [job_type]


@pytest.mark.parametrize("function", [build, Runs])
def test_a_function_and_a_class_with_run_are_called_with_the_context(
    function: Callable[..., Any],
) -> None:
    """Both shapes of a handler."""
    assert handler("a.b", function).call("context") == "context"


@pytest.mark.parametrize("function", [None, RunsNot, WantsMore])
def test_what_cannot_be_run_says_so(function: Any) -> None:
    """With the reason code that the row will have."""
    with pytest.raises(HandlerError) as caught:
        handler("a.b", function).call(None)

    assert caught.value.reason_code == Reason.HANDLER_CONTRACT_MISMATCH


def test_a_dotted_path_is_imported_when_it_is_resolved(
    registry: HandlerRegistry, module: types.ModuleType
) -> None:
    """Not before: a web process need not import what jobs need."""
    module.build = build  # type: ignore[attr-defined]  # a module made here
    registry.add_path("a.b", "hosts_jobs:build")

    assert registry.find("a.b").function is None
    assert registry.resolve("a.b").call(1) == 1


def test_a_path_to_a_decorated_function_keeps_the_options_of_the_decorator(
    registry: HandlerRegistry, module: types.ModuleType
) -> None:
    """Importing its module registers it."""
    module.build = build  # type: ignore[attr-defined]  # a module made here
    registry.add(handler("a.b", build, run_budget=3.0))
    registry.add_path("a.b", "hosts_jobs:build")

    assert registry.resolve("a.b").run_budget == 3.0


@pytest.mark.parametrize("path", ["no_such_module:build", "hosts_jobs:missing"])
def test_a_path_that_leads_nowhere_says_so(
    registry: HandlerRegistry, module: types.ModuleType, path: str
) -> None:
    """With the reason code that the row will have."""
    registry.add_path("a.b", path)

    with pytest.raises(HandlerError, match="cannot be imported") as caught:
        registry.resolve("a.b")
    assert caught.value.reason_code == Reason.HANDLER_NOT_IMPORTABLE


def test_two_paths_for_one_job_type_are_a_mistake(registry: HandlerRegistry) -> None:
    """Two applications that share one object may not take each other's handler away."""
    registry.add_path("a.b", "shop.jobs:build")
    registry.add_path("a.b", "shop.jobs:build")

    with pytest.raises(ConfigError, match=r"shop\.jobs:build.*admin\.jobs:build"):
        registry.add_path("a.b", "admin.jobs:build")
    assert registry.find("a.b").path == "shop.jobs:build"


def test_paths_of_one_application_are_not_those_of_another() -> None:
    """Both know what is decorated, before or after they were set up."""
    shared = HandlerRegistry()
    shop, admin = HandlerRegistry(shared), HandlerRegistry(shared)
    shop.add_path("a.b", "shop.jobs:build")
    admin.add_path("a.b", "admin.jobs:build")
    shop.add_path("only.shop", "shop.jobs:only")
    shared.add(handler("c.d", other))

    assert shop.find("a.b").path == "shop.jobs:build"
    assert admin.find("a.b").path == "admin.jobs:build"
    assert (list(shop), list(admin)) == (["a.b", "c.d", "only.shop"], ["a.b", "c.d"])
    with pytest.raises(UnknownJobType, match=r"Known: a\.b, c\.d\."):
        admin.find("only.shop")


def test_a_configured_path_beside_another_decorated_handler_is_a_mistake() -> None:
    """Neither of the two silently wins."""
    shared = HandlerRegistry()
    app = HandlerRegistry(shared)
    app.add_path("a.b", "shop.jobs:build")
    shared.add(handler("a.b", build))

    with pytest.raises(ConfigError, match=r"build.*shop\.jobs:build"):
        app.find("a.b")


def test_a_decorator_without_a_job_type_says_what_it_lacks() -> None:
    jobs: Any = JobRunner()

    with pytest.raises(ConfigError, match=r"not @jobs\.handler over build\."):
        jobs.handler(build)
