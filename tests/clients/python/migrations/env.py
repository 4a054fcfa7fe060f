from alembic import context
from sqlalchemy import create_engine

from models import Base

# region import
from leaf_alembic import compare_server_default, include_name
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
