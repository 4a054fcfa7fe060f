"""Orders and parcels."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


# region migration
def upgrade():
    op.execute("SELECT leaf_tag_create('orders')")
    op.create_table(
        "orders",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("leaf_segment_next('orders')"),
            primary_key=True,
        ),
        sa.Column("item", sa.String(), nullable=False),
    )
    # endregion
    op.create_table(
        "events",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("leaf_snowflake_next()"),
            primary_key=True,
        ),
        sa.Column("what", sa.String(), nullable=False),
    )
    op.execute("SELECT leaf_tag_create('parcels')")
    op.execute("SELECT leaf_tag_create('parcel_numbers')")
    op.create_table(
        "parcels",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("leaf_segment_next('parcels')"),
            primary_key=True,
        ),
        sa.Column(
            "number",
            sa.BigInteger(),
            server_default=sa.text("leaf_segment_next('parcel_numbers')"),
            nullable=False,
        ),
    )


def downgrade():
    op.drop_table("parcels")
    op.execute("SELECT leaf_tag_drop('parcel_numbers')")
    op.execute("SELECT leaf_tag_drop('parcels')")
    op.drop_table("events")
    # region downgrade
    op.drop_table("orders")
    op.execute("SELECT leaf_tag_drop('orders')")
    # endregion
