"""Models of SQLAlchemy whose ids come from leaf."""

# region model
from sqlalchemy import DDL, BigInteger, Sequence, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


def leaf_id(default):
    """A primary key that leaf draws.

    To SQLAlchemy it is a sequence, whose values ascend in the order of the rows. Because it is
    optional, SQLAlchemy neither creates it nor calls it on PostgreSQL, but leaves the column to
    its default.
    """
    return mapped_column(
        BigInteger,
        Sequence("leaf", optional=True),
        server_default=text(default),
        primary_key=True,
        insert_sentinel=True,
    )


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = leaf_id("leaf_segment_next('orders')")
    item: Mapped[str]


class Event(Base):
    __tablename__ = "events"

    id: Mapped[int] = leaf_id("leaf_snowflake_next()")
    what: Mapped[str]
# endregion


# region tag
event.listen(
    Order.__table__,
    "before_create",
    DDL("SELECT leaf_tag_create('orders', if_not_exists => true)"),
)
event.listen(Order.__table__, "after_drop", DDL("SELECT leaf_tag_drop('orders')"))
# endregion


class Parcel(Base):
    """A column beside the primary key that is drawn, too."""

    __tablename__ = "parcels"

    # region column
    id: Mapped[int] = leaf_id("leaf_segment_next('parcels')")
    number: Mapped[int] = mapped_column(
        BigInteger, server_default=text("leaf_segment_next('parcel_numbers')")
    )
    # endregion
