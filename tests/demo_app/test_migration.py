"""What the demo's second migration does to imports that are there already."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from tests.test_migrations import Host

OLD = sa.text(
    "INSERT INTO demo_imports (id, file_name, stored_name, sha256, size) "
    "VALUES (1, 'a.csv', 'x', 'digest', 3), (2, 'b.csv', 'y', 'digest', 4)"
)


def test_imports_outlive_the_way_there_and_back(tmp_path: Path, database_url: str) -> None:
    demo = Host(
        tmp_path,
        "demo_app:create_app",
        DATABASE_URL=database_url,
        DEMO_INSTANCE=str(tmp_path / "instance"),
    )
    engine = sa.create_engine(database_url)
    demo.flask("db", "upgrade", "0001")
    with engine.begin() as connection:
        connection.execute(OLD)

    demo.flask("db", "upgrade")

    assert names(engine) == ["a.csv", "b.csv"]
    assert "stored_name" not in columns(engine)
    demo.flask("db", "downgrade", "0001")
    assert names(engine) == ["a.csv", "b.csv"]
    assert "stored_name" in columns(engine)
    engine.dispose()


def names(engine: sa.Engine) -> list[str]:
    """The file of each import."""
    with engine.connect() as connection:
        query = sa.text("SELECT file_name FROM demo_imports ORDER BY id")
        return list(connection.scalars(query))


def columns(engine: sa.Engine) -> set[str]:
    """What is known of an import."""
    return {column["name"] for column in sa.inspect(engine).get_columns("demo_imports")}
