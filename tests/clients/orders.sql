-- Run by the ordinary role, once per database.
-- region tables
SELECT leaf_tag_create('orders');
CREATE TABLE orders (
    id   bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'),
    item text NOT NULL
);
CREATE TABLE events (
    id   bigint PRIMARY KEY DEFAULT leaf_snowflake_next(),
    what text NOT NULL
);
-- endregion
-- The tables of docs/recipes.md.
SELECT leaf_tag_create('outbox');
CREATE TABLE outbox (
    id   bigint PRIMARY KEY DEFAULT leaf_segment_next('outbox'),
    xid  xid8   NOT NULL DEFAULT pg_current_xact_id(),
    what text
);
CREATE TABLE outbox_position (xid xid8, id bigint, PRIMARY KEY (xid, id));
INSERT INTO outbox_position VALUES ('0', 0);
