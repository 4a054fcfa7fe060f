//! What can be wrong with snowflake ids: SQLSTATE, message, detail, hint.

use leaf_core::snowflake::Scheme;
use pgrx::PgSqlErrorCode as Code;

use crate::error::{self, Parts};
use crate::pg;

/// Why there is no snowflake id, or no worker id. Instants and durations are in
/// microseconds.
#[derive(Debug)]
pub enum Trouble {
    /// The clock is behind the last id.
    ClockBehind { us: u64 },
    /// The clock is too far behind the ceiling of the worker id.
    BelowCeiling { worker: u64, ceiling_us: i64 },
    /// The clock is too far off others'.
    NotCredible {
        offset_us: i64,
        mean_us: Option<i64>,
    },
    /// The time field has no more values.
    TimeUsedUp(Scheme),
    /// All worker ids are taken.
    NoWorkerId(Scheme),
    /// The layout has no such worker id.
    OutOfRange { worker: u64, scheme: Scheme },
    /// Another node holds the worker id.
    Held { worker: u64, node: String },
    /// The worker id was leased in another history of the database.
    HeldInOtherHistory { worker: u64, node: String },
    /// Layout or epoch are not those of the registry.
    OtherScheme { registered: Scheme, wanted: Scheme },
    /// The epoch has not come.
    FutureEpoch(Scheme),
    /// Somebody else holds the lease, or nobody.
    LeaseLost { worker: i64 },
    /// Others lease the same worker id at the same time.
    Contended,
    /// There is no place for another database.
    NoRoom,
}

impl Trouble {
    /// Raises the error.
    pub fn raise(self) -> ! {
        error::raise(self.parts())
    }

    /// SQLSTATE, message, detail and hint.
    pub fn parts(self) -> Parts {
        match self {
            Trouble::ClockBehind { us } => (
                Code::ERRCODE_SYSTEM_ERROR,
                "the clock is behind the last snowflake id".into(),
                Some(format!("It has to catch up {}.", duration(us))),
                "Correct the clock or wait; leaf.clock_policy and leaf.clock_tolerance say what to do about a clock that went back.".into(),
            ),
            Trouble::BelowCeiling { worker, ceiling_us } => (
                Code::ERRCODE_SYSTEM_ERROR,
                "the clock is behind the time up to which snowflake ids may have been issued".into(),
                Some(format!("That is {} for worker id {worker}.", at(ceiling_us))),
                "Correct the clock, wait until it has passed that time, or set leaf.worker_id to one that was never used.".into(),
            ),
            Trouble::NotCredible { offset_us, mean_us } => (
                Code::ERRCODE_SYSTEM_ERROR,
                "the clock is not credible".into(),
                Some(match mean_us {
                    Some(mean) => format!(
                        "It is {} off the registry's, the other workers' are {} off on average.",
                        signed(offset_us),
                        signed(mean)
                    ),
                    None => format!("It is {} off the registry's.", signed(offset_us)),
                }),
                "Correct the clock; leaf.max_clock_offset sets how far off it may be.".into(),
            ),
            Trouble::Contended => (
                Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "other sessions lease worker ids at the same time".into(),
                None,
                "Try again.".into(),
            ),
            Trouble::TimeUsedUp(scheme) => (
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("the time field of snowflake ids is used up since {}", at(scheme.ends_at())),
                Some(describe(&scheme)),
                "Move to a layout with more bits of time: delete the rows of leaf.worker, then set leaf.snowflake_layout and leaf.snowflake_epoch.".into(),
            ),
            other => other.registry_parts(),
        }
    }

    fn registry_parts(self) -> Parts {
        match self {
            Trouble::NoWorkerId(scheme) => (
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "no worker id is left for snowflake ids".into(),
                Some(format!("Layout {} has {}, and all are leased.", scheme.layout, scheme.layout.workers())),
                "Delete rows of leaf.worker whose nodes are gone, or wait until their leases expire.".into(),
            ),
            Trouble::OutOfRange { worker, scheme } => (
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("worker id {worker} is out of range"),
                Some(format!("Layout {} has the worker ids 0 to {}.", scheme.layout, scheme.layout.workers() - 1)),
                "Choose a worker id within the range, or -1 to lease one.".into(),
            ),
            Trouble::Held { worker, node } => (
                Code::ERRCODE_OBJECT_IN_USE,
                format!("worker id {worker} is held by another node"),
                Some(format!("That is \"{node}\".")),
                "Choose another worker id, or wait until its lease has expired.".into(),
            ),
            Trouble::HeldInOtherHistory { worker, node } => (
                Code::ERRCODE_OBJECT_IN_USE,
                format!("worker id {worker} was leased in another history of this database"),
                Some(format!("Its holder, \"{node}\", may be alive there.")),
                "Choose another worker id; if that node is gone for good, delete its row of leaf.worker.".into(),
            ),
            Trouble::OtherScheme { registered, wanted } => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "layout or epoch of snowflake ids differ from those registered".into(),
                Some(format!("Registered: {} Wanted: {}", describe(&registered), describe(&wanted))),
                "Set leaf.snowflake_layout and leaf.snowflake_epoch to what is registered; ids of another kind could repeat present ones.".into(),
            ),
            Trouble::FutureEpoch(scheme) => (
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "the epoch of snowflake ids lies in the future".into(),
                Some(describe(&scheme)),
                "Set leaf.snowflake_epoch to a time that has passed, or correct the clock.".into(),
            ),
            Trouble::LeaseLost { worker } => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the lease of worker id {worker} is lost"),
                Some("It was renewed with another token, given to another node, or removed.".into()),
                "Stop issuing ids with it, and register again with leaf_worker_register.".into(),
            ),
            _ => (
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "no room in shared memory for the snowflake ids of another database".into(),
                None,
                "Raise leaf.max_databases and restart the server.".into(),
            ),
        }
    }
}

fn describe(scheme: &Scheme) -> String {
    format!("Layout {}, epoch {}.", scheme.layout, at(scheme.epoch_us))
}

fn at(us: i64) -> String {
    pg::timestamp_text(pg::from_unix_us(us))
}

fn duration(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}

fn signed(us: i64) -> String {
    format!("{:+.3} s", us as f64 / 1e6)
}
