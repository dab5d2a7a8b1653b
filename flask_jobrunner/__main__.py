"""`python -m flask_jobrunner --app APP jobs …`: `flask jobs …` without anything else of `flask`.

The command of a job's process. `flask` itself would load every installed plugin's commands, and
each of them costs start-up time and may fail.
"""

from __future__ import annotations

import os

import click
from flask.cli import ScriptInfo, load_dotenv
from flask.helpers import get_load_dotenv

from .cli import jobs


@click.group(name="flask_jobrunner")
@click.option("-A", "--app", envvar="FLASK_APP", metavar="IMPORT", help="The application to load.")
@click.option(
    "-e",
    "--env-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Read environment variables from this file. Needs python-dotenv.",
)
@click.option("--debug/--no-debug", default=None, help="Set debug mode.")
@click.pass_context
def main(
    context: click.Context,
    app: str | None,
    env_file: str | None,
    debug: bool | None,  # noqa: FBT001 - click passes options as they are declared
) -> None:
    """Run the commands of flask_jobrunner for one application."""
    if debug is not None:
        os.environ["FLASK_DEBUG"] = "1" if debug else "0"
    if env_file is not None or get_load_dotenv():
        load_dotenv(env_file)
        app = app or os.environ.get("FLASK_APP")
    # As under `flask`: a module that calls app.run() without a guard must not serve here.
    os.environ["FLASK_RUN_FROM_CLI"] = "true"
    context.obj = ScriptInfo(app_import_path=app)


main.add_command(jobs)

if __name__ == "__main__":
    main(prog_name="python -m flask_jobrunner")
