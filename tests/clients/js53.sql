-- Run by a superuser, before the database issues its first snowflake id.
-- region layout
ALTER DATABASE shop SET leaf.snowflake_layout = 'js53';
-- endregion
