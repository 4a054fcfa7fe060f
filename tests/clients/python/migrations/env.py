from alembic import context
from sqlalchemy import create_engine

from models import Base


# region compare
def compare_server_default(context, column, model_column, default, model_default, rendered):
    """Defaults that draw are compared as text; None means Alembic's own comparison."""
    if "leaf_" in (default or "") or "leaf_" in (rendered or ""):
        return (default or "").replace("'::text", "'") != (rendered or "").replace("'::text", "'")
    return None
# endregion


# region include
def include_name(name, kind, parents):
    """With include_schemas=True: all schemas but leaf's."""
    return kind != "schema" or name != "leaf"
# endregion


with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_schemas=True,
        # Checks put what Alembic does by itself here.
        include_name=context.config.attributes.get("include_name", include_name),
        compare_server_default=context.config.attributes.get("compare", compare_server_default),
    )
    with context.begin_transaction():
        context.run_migrations()
