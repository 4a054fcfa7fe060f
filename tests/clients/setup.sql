-- Run by a superuser, once per cluster.
-- region setup
\connect template1
CREATE EXTENSION leaf;
GRANT EXECUTE ON FUNCTION leaf_tag_create TO app;
-- endregion
