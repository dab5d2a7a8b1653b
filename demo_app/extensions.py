"""The extensions of the demo, made once and joined to an application by `create_app`."""

from __future__ import annotations

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase

from flask_jobrunner import JobRunner


class Model(DeclarativeBase):
    """The base of the demo's own tables; flask_jobrunner adds its tables to the same metadata."""


db = SQLAlchemy(model_class=Model)
jobs = JobRunner()
