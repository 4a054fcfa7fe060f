"""Models of SQLAlchemy whose ids come from leaf."""

# region model
from sqlalchemy import BigInteger, Sequence, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.schema import CreateSequence, DropSequence


class Tag(Sequence):
    """A tag of leaf: to SQLAlchemy a sequence, whose values ascend in the order of the rows."""


@compiles(Tag)
def draw(tag, compiler, **kw):
    return f"leaf_segment_next('{tag.name}')"


# For create_all, drop_all and the like.
@compiles(CreateSequence)
def create(statement, compiler, **kw):
    if isinstance(statement.element, Tag):
        return f"SELECT leaf_tag_create('{statement.element.name}', if_not_exists => true)"
    return compiler.visit_create_sequence(statement, **kw)


@compiles(DropSequence)
def drop(statement, compiler, **kw):
    if isinstance(statement.element, Tag):
        return f"SELECT leaf_tag_drop('{statement.element.name}')"
    return compiler.visit_drop_sequence(statement, **kw)


def leaf_id(tag):
    """A primary key drawn from a tag."""
    default = text(f"leaf_segment_next('{tag}')")
    return mapped_column(
        BigInteger, Tag(tag), server_default=default, primary_key=True, insert_sentinel=True
    )


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = leaf_id("orders")
    item: Mapped[str]
# endregion


class Parcel(Base):
    """A column beside the primary key that is drawn, too."""

    __tablename__ = "parcels"

    # region column
    id: Mapped[int] = leaf_id("parcels")
    number: Mapped[int] = mapped_column(
        BigInteger, server_default=text("leaf_segment_next('parcel_numbers')")
    )
    # endregion
