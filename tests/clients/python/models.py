"""Models of SQLAlchemy whose ids come from leaf."""

# region model
from leaf_sqlalchemy import create_tag_with, segment_id, snowflake_id
from sqlalchemy import BigInteger, Integer, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = segment_id("orders")
    item: Mapped[str]


class Event(Base):
    __tablename__ = "events"

    id: Mapped[int] = snowflake_id()
    what: Mapped[str]
# endregion


# region tag
create_tag_with(Order.__table__, "orders")
# endregion


class Parcel(Base):
    """A column beside the primary key that is drawn, too."""

    __tablename__ = "parcels"

    # region column
    id: Mapped[int] = segment_id("parcels")
    number: Mapped[int] = mapped_column(
        BigInteger, server_default=text("leaf_segment_next('parcel_numbers')")
    )
    # endregion


class Part(Base):
    """Its table had a sequence first."""

    __tablename__ = "parts"

    # region adopted
    id: Mapped[int] = segment_id("parts.id", Integer)
    # endregion
