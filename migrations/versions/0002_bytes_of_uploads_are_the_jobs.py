"""bytes of uploads are the jobs'

Revision ID: 0002
Revises: 0001
Create Date: 2026-11-30 07:20:00

"""

import sqlalchemy as sa
from alembic import op

# revision identifiers, used by Alembic.
revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade():
    with op.batch_alter_table("demo_imports") as batch:
        batch.drop_column("stored_name")


def downgrade():
    # The files themselves do not come back: each row gets a name that no file has.
    with op.batch_alter_table("demo_imports") as batch:
        batch.add_column(sa.Column("stored_name", sa.String(length=64), nullable=True))
    imports = sa.table("demo_imports", sa.column("id"), sa.column("stored_name"))
    as_text = sa.cast(imports.c.id, sa.String(64))
    op.execute(imports.update().values(stored_name=as_text))
    with op.batch_alter_table("demo_imports") as batch:
        batch.alter_column("stored_name", existing_type=sa.String(length=64), nullable=False)
        batch.create_unique_constraint("stored_name", ["stored_name"])
