"""Operations of Alembic for tags and columns of leaf, and what env.py needs.

    op.leaf_create_tag("orders", step=100)
    op.leaf_drop_tag("orders")
    op.leaf_adopt_column("parts", "id", tag="parts", kind="segment", schema=None)
    op.leaf_release_column("parts", "id", schema=None)

The second one of a pair undoes the first one. Options of leaf_create_tag are further arguments
of the function leaf_tag_create.
"""

from alembic.operations import MigrateOperation, Operations
from sqlalchemy import table

from leaf_sqlalchemy import call


@Operations.register_operation("leaf_create_tag")
@Operations.register_operation("leaf_drop_tag")
@Operations.register_operation("leaf_adopt_column")
@Operations.register_operation("leaf_release_column")
class LeafOperation(MigrateOperation):
    @classmethod
    def leaf_create_tag(cls, operations, tag, **options):
        operations.execute("SELECT " + call("leaf_tag_create", tag, **options))

    @classmethod
    def leaf_drop_tag(cls, operations, tag):
        operations.execute("SELECT " + call("leaf_tag_drop", tag))

    @classmethod
    def leaf_adopt_column(
        cls, operations, table_name, column_name, *, tag=None, kind="segment", schema=None
    ):
        name = _quoted(operations, table_name, schema)
        operations.execute("SELECT " + call("leaf_column_adopt", name, column_name, tag, kind))

    @classmethod
    def leaf_release_column(cls, operations, table_name, column_name, *, schema=None):
        name = _quoted(operations, table_name, schema)
        operations.execute("SELECT " + call("leaf_column_release", name, column_name))


def _quoted(operations, name, schema):
    dialect = operations.get_context().dialect
    return dialect.identifier_preparer.format_table(table(name, schema=schema))


def compare_server_default(context, column, model_column, default, model_default, rendered):
    """Defaults that draw are compared as text; None means Alembic's own comparison."""
    if "leaf_" in (default or "") or "leaf_" in (rendered or ""):
        return (default or "").replace("'::text", "'") != (rendered or "").replace("'::text", "'")
    return None


def include_name(name, kind, parents):
    """With include_schemas=True: all schemas but leaf's."""
    return kind != "schema" or name != "leaf"
