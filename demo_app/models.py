"""The demo's own tables: an import, and the strikes that it brought in."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .extensions import Model


class Import(Model):
    """One file to import. Its bytes are its job's: `files=` has copied them."""

    __tablename__ = "demo_imports"

    id: Mapped[int] = mapped_column(primary_key=True)
    file_name: Mapped[str] = mapped_column(String(200))
    sha256: Mapped[str] = mapped_column(String(64))
    size: Mapped[int]
    """Bytes."""

    @property
    def reference(self) -> str:
        """What the jobs of this file carry as their `reference`."""
        return f"import:{self.id}"


class Strike(Model):
    """One cleaned row of a file: an aircraft met an animal."""

    __tablename__ = "demo_strikes"
    __table_args__ = (UniqueConstraint("import_id", "row_number", name="uq_demo_strikes_row"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    import_id: Mapped[int] = mapped_column(ForeignKey("demo_imports.id"))
    row_number: Mapped[int]
    airport: Mapped[str] = mapped_column(String(80))
    state: Mapped[str | None] = mapped_column(String(80))
    struck_on: Mapped[dt.date]
    operator: Mapped[str | None] = mapped_column(String(80))
    aircraft: Mapped[str | None] = mapped_column(String(80))
    phase: Mapped[str | None] = mapped_column(String(80))
    time_of_day: Mapped[str | None] = mapped_column(String(80))
    species: Mapped[str] = mapped_column(String(80))
    size: Mapped[str | None] = mapped_column(String(80))
    damage: Mapped[str | None] = mapped_column(String(80))
    """None: not known. "None" is a grade of its own."""
    cost_usd: Mapped[int | None] = mapped_column(BigInteger)
    speed_knots: Mapped[int | None]
