"""`doctor`: looks at everything a job needs, and says what to do where something is wrong."""

from __future__ import annotations

import traceback

import click
from flask import Flask
from flask.cli import NoAppException, ScriptInfo

from flask_jobrunner.cli.common import json_option
from flask_jobrunner.cli.output import count, echo, echo_json, safe
from flask_jobrunner.model.errors import ConfigError
from flask_jobrunner.model.statuses import ExitCode
from flask_jobrunner.runtime import current_runtime, set_process_role

from . import database, files, launching, probe, pulling, settings, waking
from .findings import Finding, problem

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor", short_help="Check that jobs can work here.")
@json_option
@click.option("--probe", "as_probe", is_flag=True, hidden=True)
@click.pass_context
def command(
    context: click.Context,
    as_json: bool,  # noqa: FBT001 - click passes options as they are declared
    as_probe: bool,  # noqa: FBT001
) -> None:
    """Check that jobs can work here: the command of a job's process, the database, the settings.

    Exits 0 when nothing is wrong, 1 when there is a problem, 78 when the configuration keeps
    jobs from working at all.
    """
    info = context.ensure_object(ScriptInfo)
    if as_probe:
        set_process_role("job")
        probe.answer(info.load_app())
        return
    findings = _examine(info)
    if as_json:
        well = all(finding.level != "problem" for finding in findings)
        echo_json({"ok": well, "findings": [finding.to_dict() for finding in findings]})
    else:
        _tell(findings)
    context.exit(_exit_code(findings))


def _examine(info: ScriptInfo) -> list[Finding]:
    try:
        app = info.load_app()
        with app.app_context():
            current_runtime()
    except NoAppException:
        raise
    except ConfigError as error:
        return [problem("Application", str(error), configuration=True)]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the factory does is the news
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [
            problem(
                "Application",
                f"It cannot be built: {type(error).__name__}: {error} "
                f"({place.filename}, line {place.lineno}).",
                "Run the command with --debug for the whole traceback.",
            )
        ]
    return _examine_app(app)


def _examine_app(app: Flask) -> list[Finding]:
    with app.app_context():
        runtime = current_runtime()
        return [
            *launching.examine(runtime),
            *database.examine(runtime),
            *pulling.examine(runtime),
            *waking.examine(runtime),
            *settings.examine(runtime),
            *files.examine(runtime),
        ]


def _exit_code(findings: list[Finding]) -> int:
    problems = [finding for finding in findings if finding.level == "problem"]
    if any(finding.configuration for finding in problems):
        return ExitCode.CONFIGURATION
    return ExitCode.FAILED if problems else ExitCode.OK


def _tell(findings: list[Finding]) -> None:
    width = max(len(finding.check) for finding in findings) + 2
    for finding in findings:
        level = click.style(f"{finding.level:<9}", fg=_COLOURS[finding.level])
        margin = " " * (9 + width)
        text = safe(finding.message).replace("\n", f"\n{margin}")
        echo(f"{level}{finding.check:<{width}}{text}")
        if finding.advice:
            echo(margin + "→ " + safe(finding.advice).replace("\n", f"\n{margin}  "))
    echo()
    counts = [
        count(sum(one.level == level for one in findings), level)
        for level in ("problem", "warning")
    ]
    echo(", ".join(counts) + ".")
