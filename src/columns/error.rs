//! Why a column cannot be adopted or released.

use pgrx::PgSqlErrorCode as Code;

use crate::error::{Problem, Report};

/// What stands in the way.
#[derive(Debug)]
pub enum Error {
    /// The table has no such column.
    NoSuchColumn { table: String, column: String },
    /// Neither an ordinary nor a partitioned table.
    NotATable { table: String },
    /// A table of the extension itself.
    OfLeaf { table: String },
    /// A temporary table, which its tag would outlive.
    Temporary { table: String },
    /// A partition, or a column that comes from a parent.
    Inherited { column: String },
    /// The table belongs to another role.
    NotOwner { relation: String },
    /// A sequence of the column belongs to another role than the table.
    SequenceOfOther { sequence: String, owner: String },
    /// The column's type cannot hold the ids.
    WrongType {
        column: String,
        wanted: &'static str,
    },
    /// A generated column.
    Computed { column: String },
    /// The default is neither `nextval` of a sequence nor missing.
    OtherDefault { column: String, default: String },
    /// There is such a tag already, which may be another column's.
    TagExists { tag: String },
    /// The column draws from leaf already.
    AlreadyAdopted { column: String },
    /// The default is not a plain call of a function of leaf.
    NotAdopted { column: String },
    /// Others draw from the tag of the column, or could.
    TagLivesOn { tag: String, why: String },
    /// Other columns take their values from the same sequence.
    SharedSequence { sequence: String, columns: String },
    /// A partition is a foreign table.
    Unreadable { column: String },
    /// The role may not create tags.
    MayNotCreate { role: String },
    /// The column's type has no number left.
    NothingLeft { column: String, largest: i64 },
    /// There are values where snowflake ids are to come.
    AheadOfClock {
        column: String,
        largest: i64,
        floor: i64,
    },
    /// A child table has an identity of its own.
    IdentityBelow { column: String },
    /// A sequence has a `MAXVALUE` below the number at which it is to go on.
    EndsBelow { sequence: String, start: i64 },
    /// The table, or its schema, got another name while the column was released.
    Changed { table: String },
    /// A session that has locked the table waits for a lock of the transaction.
    Deadlock { table: String },
    /// The locks were not available within `lock_timeout`.
    Locked { relation: String },
}

impl Problem for Error {
    fn report(self) -> Report {
        match self {
            Error::NoSuchColumn { table, column } => Report::new(
                Code::ERRCODE_UNDEFINED_COLUMN,
                format!("column \"{column}\" of table {table} does not exist"),
                "Check the spelling: unlike in SQL commands, upper case is not folded to lower case here.",
            ),
            Error::NotATable { table } => Report::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{table} is neither an ordinary nor a partitioned table"),
                "Specify the table in which the rows are stored.",
            ),
            Error::OfLeaf { table } => Report::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{table} belongs to leaf"),
                "Specify a table of your own.",
            ),
            Error::Temporary { table } => Report::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{table} is a temporary table, which a tag would outlive"),
                "Create the tag with leaf_tag_create, and set the default with ALTER TABLE.",
            ),
            Error::Inherited { column } => Report::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} belongs to a partition or comes from a parent table"),
                "Specify the partitioned table, or the parent.",
            ),
            Error::NotOwner { relation } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of {relation}"),
                "Use the role of the owner, a member of it, or a superuser.",
            ),
            Error::SequenceOfOther { sequence, owner } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!(
                    "sequence {sequence} does not belong to role \"{owner}\", who owns the table"
                ),
                "Use ALTER SEQUENCE ... OWNER TO first, or drop the default that uses the sequence.",
            ),
            Error::WrongType { column, wanted } => Report::new(
                Code::ERRCODE_DATATYPE_MISMATCH,
                format!("column {column} is not of type {wanted}"),
                "Change the column with ALTER TABLE ... ALTER COLUMN ... TYPE bigint first.",
            ),
            Error::Computed { column } => Report::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("column {column} is generated from other columns"),
                "A generated column cannot draw ids: choose another column.",
            ),
            Error::OtherDefault { column, default } => Report::not_ready(
format!("column {column} has a default that is not nextval of a sequence"),
                "Drop the default first, once nothing depends on its values.",
            )
            .detail(format!("The default is {default}.")),
            Error::AlreadyAdopted { column } => Report::not_ready(
format!("the default of column {column} already draws from leaf"),
                "Nothing is left to do. To go back to a sequence, use leaf_column_release.",
            ),
            Error::NotAdopted { column } => Report::not_ready(
format!(
                    "the default of column {column} is not a call of leaf_segment_next or leaf_snowflake_next"
                ),
                "Only a column with the default that leaf_column_adopt sets can be released.",
            ),
            Error::TagExists { tag } => Report::new(
                Code::ERRCODE_DUPLICATE_OBJECT,
                format!("tag \"{tag}\" already exists"),
                "Name another tag, or drop this one with leaf_tag_drop. If the column is to share it, set its default with ALTER TABLE and call leaf_tag_align.",
            ),
            Error::TagLivesOn { tag, why } => Report::not_ready(
format!("tag \"{tag}\" would go on handing out the numbers of the sequence"),
                "Take the default away with ALTER TABLE, and choose a range of numbers for the column that the tag does not reach.",
            )
            .detail(why),
            Error::SharedSequence { sequence, columns } => Report::not_ready(
format!("sequence {sequence} is also used by other columns"),
                "First give each column a sequence of its own that starts above all values in use.",
            )
            .detail(format!("It is used by {columns}.")),
            Error::Unreadable { column } => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "the largest value of column {column} is not known: a partition is a foreign table"
                ),
                "Use leaf_tag_create with a start above all values, and set the default with ALTER TABLE.",
            ),
            Error::MayNotCreate { role } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("role \"{role}\" may not create tags"),
                format!("A superuser can allow it with GRANT EXECUTE ON FUNCTION leaf_tag_create TO \"{role}\"."),
            ),
            Error::NothingLeft { column, largest } => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("no number is left for column {column}: {largest} is the last one"),
                "Change a column of a smaller type to bigint first, or remove the values near the end of its type.",
            ),
            Error::AheadOfClock {
                column,
                largest,
                floor,
            } => Report::not_ready(
format!("column {column} has values above the snowflake ids of the present"),
                "Use kind => 'segment', or a layout whose ids are larger.",
            )
            .detail(format!(
                "The largest value is {largest}; snowflake ids now begin at {floor}."
            )),
            Error::IdentityBelow { column } => Report::not_ready(
format!("column {column} of a child table is an identity column"),
                "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY on the child table first.",
            ),
            Error::EndsBelow { sequence, start } => Report::not_ready(
format!("sequence {sequence} ends below {start}, where it would have to go on"),
                "Use ALTER SEQUENCE ... NO MAXVALUE first.",
            ),
            Error::Changed { table } => Report::new(
                Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
                format!("table {table} was changed meanwhile"),
                "Repeat the call.",
            ),
            Error::Deadlock { table } => Report::new(
                Code::ERRCODE_T_R_DEADLOCK_DETECTED,
                format!("table {table} is locked by a session that waits for this transaction"),
                "Make the call at the beginning of a transaction that has locked no other table.",
            ),
            Error::Locked { relation } => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("{relation} could not be locked within lock_timeout"),
                "Wait until long transactions that use it have ended, or raise lock_timeout.",
            ),
        }
    }
}
