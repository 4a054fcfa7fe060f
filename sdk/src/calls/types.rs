//! What calls take and return.

use std::time::SystemTime;

use crate::SegmentId;

/// Consecutive ids that are granted to this caller only.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// let block = leaf_sdk::sync::segment_reserve(client, "orders", 10_000)?;
/// for id in block.first.get()..=block.last.get() {
///     println!("{id}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first id.
    pub first: SegmentId,
    /// The last id.
    pub last: SegmentId,
}

/// The identity of a tag: another one once the tag was dropped and created again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation(pub(crate) String);

/// The fields of a snowflake id.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// let id = leaf_sdk::sync::snowflake_next(client)?;
/// let fields = leaf_sdk::sync::snowflake_decode(client, id)?;
/// println!("made at {:?} with worker id {}", fields.created_at, fields.worker_id);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// When its tick began.
    pub created_at: SystemTime,
    /// The worker id of the node that issued it.
    pub worker_id: i32,
    /// Which of the tick's ids it is.
    pub sequence: i32,
}

/// The properties of a new tag.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::NewTag;
///
/// let invoices = NewTag { start: 100_000, ..NewTag::default() };
/// leaf_sdk::sync::tag_create(client, "invoices", &invoices)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTag {
    /// The smallest number of ids granted at once, at least 1.
    pub step: i32,
    /// The first id.
    pub start: i64,
    /// The largest id.
    pub max_value: i64,
    /// A description of up to 256 characters.
    pub description: Option<String>,
}

impl Default for NewTag {
    /// A step of 1,000, from 1 on.
    fn default() -> Self {
        NewTag {
            step: 1_000,
            start: 1,
            max_value: i64::MAX,
            description: None,
        }
    }
}

/// Changes to a tag. What is `None` stays as it is.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::TagChange;
///
/// let change = TagChange { advance_to: Some(1_000_000), ..TagChange::default() };
/// leaf_sdk::sync::tag_alter(client, "orders", &change)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagChange {
    /// The smallest number of ids granted at once.
    pub step: Option<i32>,
    /// The next id; never below what was granted.
    pub advance_to: Option<i64>,
    /// The largest id.
    pub max_value: Option<i64>,
    /// The description.
    pub description: Option<String>,
}

/// A column whose default draws from a tag, as `leaf_tag_align` found it.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// for column in leaf_sdk::sync::tag_align(client, None)? {
///     if column.moved {
///         println!("{:?} was behind {}", column.tag, column.used_in);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aligned {
    /// The tag, if the default names it as a constant.
    pub tag: Option<String>,
    /// The column.
    pub used_in: String,
    /// Its largest value, if it has numbers.
    pub highest: Option<i64>,
    /// Where the tag stands now, if it exists.
    pub position: Option<i64>,
    /// Whether the tag had to be moved.
    pub moved: bool,
    /// What was not counted, if anything.
    pub ignored: Option<String>,
}

/// A row of `leaf.stat_segment`; see leaf's documentation of operations.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// let status = leaf_sdk::sync::tag_status(client, "orders")?;
/// println!("{} ids a second, {} waits", status.ids_per_second, status.waits);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TagStatus {
    /// The largest id granted.
    pub granted_up_to: i64,
    /// The next id.
    pub position: i64,
    /// Ids left in the segment in use.
    pub current_left: i64,
    /// Ids in the segment behind it.
    pub next_left: i64,
    /// About how many ids the next segment will have.
    pub step: i64,
    /// Segments loaded.
    pub loads: i64,
    /// Calls that waited for a load.
    pub waits: i64,
    /// The longest such wait, in milliseconds.
    pub longest_wait_ms: f64,
    /// Calls that timed out.
    pub timeouts: i64,
    /// How many ids are drawn per second.
    pub ids_per_second: f64,
    /// Why the last failed load failed.
    pub last_error: Option<String>,
}

/// The row of `leaf.stat_snowflake`.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// let status = leaf_sdk::sync::snowflake_status(client)?;
/// println!("worker id {:?}, {} rollbacks of the clock", status.worker_id, status.rollbacks);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SnowflakeStatus {
    /// The server's own worker id, once it has one.
    pub worker_id: Option<i32>,
    /// How ids are divided into fields.
    pub layout: String,
    /// What their time counts from.
    pub epoch: SystemTime,
    /// Until when ids may be issued before the lease is renewed.
    pub ceiling: Option<SystemTime>,
    /// The time in the last id.
    pub last_issued_at: Option<SystemTime>,
    /// How often the clock was seen to have gone back.
    pub rollbacks: i64,
    /// Calls that waited.
    pub waits: i64,
    /// The longest such wait, in milliseconds.
    pub longest_wait_ms: f64,
    /// Calls that timed out.
    pub timeouts: i64,
    /// When the time field will be used up.
    pub runs_out_at: SystemTime,
    /// Why the last failed lease or renewal failed.
    pub last_error: Option<String>,
}
