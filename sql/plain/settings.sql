/* What the plain edition has beside the tables of the extension: its version and settings. */
CREATE SCHEMA leaf;

-- The names, defaults and meanings are those of the library's settings.
CREATE TABLE leaf.plain (
    is_only            boolean  NOT NULL DEFAULT true CHECK (is_only),
    version            text     NOT NULL,
    nonce              uuid     NOT NULL DEFAULT gen_random_uuid(),
    history_skip       integer  NOT NULL DEFAULT 10 CHECK (history_skip BETWEEN 0 AND 1000000),
    snowflake_layout   text     NOT NULL DEFAULT 'leaf',
    snowflake_epoch    timestamptz,
    worker_lease       interval NOT NULL DEFAULT '600 s' CHECK (worker_lease BETWEEN '1 s' AND '365 d'),
    worker_reuse_after interval NOT NULL DEFAULT '720 h' CHECK (worker_reuse_after >= '0'),
    max_clock_offset   interval NOT NULL DEFAULT '5 s' CHECK (max_clock_offset BETWEEN '0' AND '1 d'),
    CONSTRAINT plain_pkey PRIMARY KEY (is_only)
);
COMMENT ON TABLE leaf.plain IS 'version and settings of leaf where there is no library: one row';
INSERT INTO leaf.plain (version) VALUES ('@version@');
