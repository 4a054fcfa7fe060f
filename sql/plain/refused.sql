/* What needs the library, and the way out. The other functions without a body here have none either. */

CREATE FUNCTION leaf_segment_next(...)
    HINT 'Draw ids with the client library or over HTTP with leafctl serve. For a column''s default alone, use an identity column.';
CREATE FUNCTION leaf_segment_batch(...)
    HINT 'Draw ids with the client library or over HTTP with leafctl serve, or reserve a block with leaf_segment_reserve.';
CREATE FUNCTION leaf_segment_last(...)
    HINT 'Use INSERT ... RETURNING.';
CREATE FUNCTION leaf_snowflake_next(...)
    HINT 'Draw snowflake ids with the client library or over HTTP with leafctl serve. For a column''s default alone, use an identity column.';
CREATE FUNCTION leaf_snowflake_batch(...)
    HINT 'Draw snowflake ids with the client library or over HTTP with leafctl serve.';
CREATE FUNCTION leaf_tag_attach(...)
    HINT 'Let services draw from the centre, or give the tag of each database a range of numbers of its own.';
CREATE FUNCTION leaf_tag_restripe(...)
    HINT 'Give the tag of each database a range of numbers of its own.';
CREATE FUNCTION leaf_tag_align(...)
    HINT 'Move the tag past the largest id of the column with leaf_tag_alter(advance_to => ...).';
CREATE FUNCTION leaf_column_adopt(...)
    HINT 'Drop the default of the column with ALTER TABLE, and move a tag past its largest value with leaf_tag_alter(advance_to => ...).';
CREATE FUNCTION leaf_column_release(...)
    HINT 'Set the default of the column with ALTER TABLE.';
