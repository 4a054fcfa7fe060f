"""Orders and parcels."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


# region migration
def upgrade():
    op.leaf_create_tag("orders", step=100)
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
    op.leaf_create_tag("parcels")
    op.leaf_create_tag("parcel_numbers")
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
    op.create_table("parts", sa.Column("id", sa.Integer(), primary_key=True))


def downgrade():
    op.drop_table("parts")
    op.drop_table("parcels")
    op.leaf_drop_tag("parcel_numbers")
    op.leaf_drop_tag("parcels")
    op.drop_table("events")
    # region downgrade
    op.drop_table("orders")
    op.leaf_drop_tag("orders")
    # endregion
