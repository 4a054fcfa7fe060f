"""Columns of SQLAlchemy that leaf fills in."""

from sqlalchemy import BigInteger, Sequence, event, text
from sqlalchemy.orm import mapped_column


def segment_id(tag, type_=BigInteger, **options):
    """A primary key whose ids are drawn from a tag; options are those of mapped_column."""
    return _primary_key(call("leaf_segment_next", tag), type_, options)


def snowflake_id(**options):
    """A primary key of snowflake ids; options are those of mapped_column."""
    return _primary_key(call("leaf_snowflake_next"), BigInteger, options)


def _primary_key(default, type_, options):
    """To SQLAlchemy it is a sequence, whose values ascend in the order of the rows.

    Because it is optional, SQLAlchemy neither creates it nor calls it on PostgreSQL, but leaves
    the column to its default.
    """
    return mapped_column(
        type_,
        Sequence("leaf", optional=True),
        server_default=text(default),
        primary_key=True,
        insert_sentinel=True,
        **options,
    )


def create_tag_with(table, tag, **options):
    """For create_all and drop_all: creates the tag before the table, and drops it after."""
    create = text("SELECT " + call("leaf_tag_create", tag, if_not_exists=True, **options))
    drop = text("SELECT " + call("leaf_tag_drop", tag))
    event.listen(table, "before_create", lambda table, conn, **_: conn.execute(create))
    event.listen(table, "after_drop", lambda table, conn, **_: conn.execute(drop))


def call(function, *arguments, **named):
    """The call of a function, as a text for text(); offline migrations can have no parameters."""
    words = [_literal(value) for value in arguments]
    words += [f"{name} => {_literal(value)}" for name, value in named.items()]
    return f"{function}({', '.join(words)})".replace(":", r"\:")


def _literal(value):
    return "NULL" if value is None else "'{}'".format(str(value).replace("'", "''"))
