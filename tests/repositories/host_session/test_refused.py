"""Sessions that cannot take a job's row are refused, in words and without a password."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from flask_jobrunner.repositories.host_session import SessionRefused, join

from .conftest import Shop


def test_another_engine_is_refused_with_both_addresses(shop: Shop, tmp_path: Path) -> None:
    elsewhere = sa.create_engine("postgresql+psycopg://bob:hunter2@db.example/shop")
    for session in (Session(elsewhere), scoped_session(sessionmaker(elsewhere))):
        with pytest.raises(SessionRefused) as caught:
            join(session, shop.ours, shop.jobs)
        assert "bob:***@db.example/shop" in str(caught.value)
        assert repr(shop.ours.url) in str(caught.value)
        assert "hunter2" not in str(caught.value)

    with pytest.raises(SessionRefused, match=r"jobs are in postgresql\+psycopg://bob:\*\*\*@"):
        join(Session(shop.ours), elsewhere, shop.jobs)


def test_a_table_of_another_bind_is_refused(shop: Shop) -> None:
    with pytest.raises(SessionRefused, match=r"notes\.sqlite"):
        join(shop.db.session, shop.ours, shop.note.__table__)


def test_sessions_that_cannot_take_a_row_are_refused(shop: Shop) -> None:
    with pytest.raises(SessionRefused, match="bound to no engine"):
        join(Session(), shop.ours, shop.jobs)
    with pytest.raises(SessionRefused, match="not a SQLAlchemy"):
        join(shop.db, shop.ours, shop.jobs)  # type: ignore[arg-type]
    with (
        shop.db.engine.connect() as connection,
        pytest.raises(SessionRefused, match="bound to a Connection"),
    ):
        join(Session(connection), shop.ours, shop.jobs)


def test_autocommit_is_refused(shop: Shop) -> None:
    autocommit = shop.db.engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(autocommit) as session, pytest.raises(SessionRefused, match="autocommit"):
        join(session, shop.ours, shop.jobs)
    by_driver = sa.create_engine(shop.ours.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with Session(by_driver) as session, pytest.raises(SessionRefused, match="autocommit"):
        join(session, shop.ours, shop.jobs)


def test_memory_is_the_same_database_only_in_one_pool() -> None:
    table = sa.Table("jobs", sa.MetaData(), sa.Column("name", sa.String(50)))
    one, two = sa.create_engine("sqlite://"), sa.create_engine("sqlite://")
    with Session(one) as session:
        with pytest.raises(SessionRefused):
            join(session, two, table)
        assert join(session, one.execution_options(note=1), table) is session.connection()
    one.dispose()
