"""The ids of parts come from leaf."""

from alembic import op

revision = "0002"
down_revision = "0001"


# region migration
def upgrade():
    op.leaf_adopt_column("parts", "id")


def downgrade():
    op.leaf_release_column("parts", "id")
# endregion
