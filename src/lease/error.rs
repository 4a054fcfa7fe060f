//! Errors of snowflake ids, and of leases of worker ids.

use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use pgrx::PgSqlErrorCode as Code;

use crate::error::{Problem, Report};
use crate::pg::clock;
use crate::shmem::upstream::Denial;

/// Why there is no snowflake id, or no worker id. Durations are in microseconds.
#[derive(Debug)]
pub enum Error {
    /// The clock is behind the last id.
    ClockBehind { us: u64 },
    /// The clock is too far behind the ceiling of the worker id.
    BelowCeiling { worker_id: u64, ceiling: WallTime },
    /// The clock is too far off the other clocks.
    NotCredible { offset_us: i64 },
    /// The time field has no more values.
    TimeUsedUp(Scheme),
    /// All worker ids are taken.
    NoWorkerId {
        scheme: Scheme,
        /// The node with most leases, and how many it has.
        most: Option<(String, i64)>,
    },
    /// The layout has no such worker id.
    OutOfRange { worker_id: u64, scheme: Scheme },
    /// Another node holds the worker id.
    Held {
        worker_id: u64,
        node: String,
        until: WallTime,
    },
    /// The worker id was leased in another history of the database.
    HeldInOtherHistory { worker_id: u64, node: String },
    /// Layout or epoch are not those of the registry.
    OtherScheme { registered: Scheme, wanted: Scheme },
    /// The epoch lies in the future.
    FutureEpoch(Scheme),
    /// Another node holds the lease, or none does.
    LeaseLost { worker_id: i64 },
    /// The nonce of a registration is that of another lease.
    NonceUsed,
    /// Other sessions lease the same worker id at the same time.
    Contended,
    /// There is no free generator for another database.
    NoRoom,
    /// A parallel plan draws ids with a registry that its transaction created.
    ParallelQuery,
    /// A row of the registry may not be deleted yet.
    InUse {
        worker_id: i32,
        node: String,
        ceiling: WallTime,
    },
    /// The registry may not be emptied as a whole.
    Truncated,
    /// There is nothing from the centre that leases the worker ids.
    Upstream(Denial),
    /// This registry leases no worker ids, because its own comes from a centre.
    IsShard,
    /// The worker id has to come from a centre, which this transaction cannot ask.
    NeedsCentre,
    /// The role holds too many worker ids.
    TooManyLeases { most: u64 },
    /// Another process has the files of ceilings locked.
    FileLocked,
    /// The file of ceilings cannot be used.
    File {
        what: &'static str,
        path: String,
        cause: std::io::Error,
    },
}

impl Problem for Error {
    // Long, but simple: one arm per error.
    fn report(self) -> Report {
        match self {
            Error::ClockBehind { us } => Report::new(
                Code::ERRCODE_SYSTEM_ERROR,
                "the clock is behind the last snowflake id",
                "Correct the clock or wait; leaf.clock_policy and leaf.clock_tolerance set what happens when the clock has gone back.",
            )
            .detail(format!("It has to advance by {}.", duration(us))),
            Error::BelowCeiling { worker_id, ceiling } => Report::new(
                Code::ERRCODE_SYSTEM_ERROR,
                "the clock is behind the time up to which snowflake ids may have been issued",
                "Correct the clock, wait until it has passed that time, or set leaf.worker_id to a worker id that was never used.",
            )
            .detail(format!("That time is {} for worker id {worker_id}.", at(ceiling))),
            Error::NotCredible { offset_us } => Report::new(
                Code::ERRCODE_SYSTEM_ERROR,
                "the clock is not credible",
                "Correct the clock, or that of the registry if it is the wrong one; leaf.max_clock_offset sets how far off a clock can be.",
            )
            .detail(format!("It is {} off the registry's clock.", signed(offset_us))),
            Error::TimeUsedUp(scheme) => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("the time field of snowflake ids has been used up since {}", at(scheme.ends_at())),
                "When no id of this layout is in use any more, change to one with more bits of time: delete the rows of leaf.worker, then set leaf.snowflake_layout and leaf.snowflake_epoch.",
            )
            .detail(describe(&scheme)),
            Error::NoWorkerId { scheme, most } => Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "no worker id is left for snowflake ids",
                "Delete rows of leaf.worker whose nodes are gone, or wait until their leases expire. After promotions, leaf_worker_take_over vouches that the former primaries are gone.",
            )
            .detail(format!(
                "All worker ids of layout {} are leased; their number is {}.{}",
                scheme.layout,
                scheme.layout.worker_ids(),
                most.map_or_else(String::new, |(node, count)| format!(" Node \"{node}\" has most of them: {count}."))
            )),
            Error::OutOfRange { worker_id, scheme } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("worker id {worker_id} is out of range"),
                "Choose a worker id within the range; or leave it out, which is -1 in leaf.worker_id, to lease any.",
            )
            .detail(format!(
                "Layout {} has the worker ids 0 to {}.",
                scheme.layout,
                scheme.layout.worker_ids() - 1
            )),
            Error::Held { worker_id, node, until } => Report::new(
                Code::ERRCODE_OBJECT_IN_USE,
                format!("worker id {worker_id} is held by another node"),
                "Choose another worker id, or try again after that time.",
            )
            .detail(format!("Its holder is \"{node}\", whose lease lasts until {} unless it is renewed.", at(until))),
            Error::HeldInOtherHistory { worker_id, node } => Report::not_ready(
format!("worker id {worker_id} was leased in another history of this database"),
                "Choose another worker id; or, if its holder does not run any more, call leaf_worker_take_over with the worker id.",
            )
            .detail(format!("Its holder, \"{node}\", may still be running there.")),
            Error::OtherScheme { registered, wanted } => Report::not_ready(
"layout or epoch of snowflake ids differs from the registered one",
                "Set leaf.snowflake_layout and leaf.snowflake_epoch to the registered values; ids of another layout or epoch could repeat existing ones.",
            )
            .detail(format!("Registered: {} Requested: {}", describe(&registered), describe(&wanted))),
            Error::FutureEpoch(scheme) => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "the epoch of snowflake ids lies in the future",
                "Set leaf.snowflake_epoch to a time that has passed, or correct the clock.",
            )
            .detail(describe(&scheme)),
            Error::LeaseLost { worker_id } => Report::not_ready(
format!("the lease of worker id {worker_id} is lost"),
                "Stop issuing ids with it, and register again with leaf_worker_register.",
            )
            .detail("It was renewed with another token, given to another node, or removed."),
            Error::NonceUsed => Report::not_ready(
"the nonce has been used for another lease",
                "Make a new nonce for each registration, such as gen_random_uuid() returns; give the same nonce only to repeat the same registration.",
            ),
            Error::Contended => Report::new(
                Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "could not lease a worker id due to concurrent leases",
                "Try again.",
            ),
            Error::NoRoom => Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "no room in shared memory for the snowflake ids of another database",
                "Try again in some seconds, when a database is idle, or raise max_connections and restart the server.",
            ),
            Error::ParallelQuery => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot draw snowflake ids in a parallel query",
                "Commit the transaction first, or set max_parallel_workers_per_gather to 0.",
            )
            .detail("The extension was created by the transaction that runs the query."),
            Error::InUse { worker_id, node, ceiling } => Report::new(
                Code::ERRCODE_OBJECT_IN_USE,
                format!("worker id {worker_id} is in use"),
                "Release the lease with leaf_worker_release, or try again after that time.",
            )
            .detail(format!("Node \"{node}\" may issue ids with it until {}.", at(ceiling))),
            Error::Truncated => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot truncate leaf.worker",
                "Delete the rows of nodes that are gone.",
            )
            .detail("Truncating it would lose the record of the worker ids in use."),
            Error::Upstream(denial) => {
                let (code, hint) = match denial {
                    Denial::NoUpstream => (
                        Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                        "Set leaf.upstream in the configuration file to a connection string of the centre, and reload.",
                    ),
                    Denial::Exhausted => (
                        Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                        "Delete rows of leaf.worker at the centre whose nodes are gone, or raise leaf.max_leases for the role there.",
                    ),
                    _ => (
                        Code::ERRCODE_LOCK_NOT_AVAILABLE,
                        "Remove the cause, which leaf.stat_upstream and the server's log show, and try again.",
                    ),
                };
                Report::new(code, "no worker id for snowflake ids from the centre", hint)
                    .detail(format!("The cause: {}.", denial.message()))
            }
            Error::IsShard => Report::not_ready(
"this server leases no worker ids, because its own comes from a centre",
                "Register the node at the centre.",
            ),
            Error::NeedsCentre => Report::not_ready(
"the worker id for snowflake ids has to come from the centre",
                "Commit the transaction that creates the extension first.",
            ),
            Error::TooManyLeases { most } => Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("the role holds {most} worker ids already"),
                "Leases of nodes that have ended run out by themselves, which leaf.worker shows. To allow more, raise leaf.max_leases for the role.",
            ),
            Error::FileLocked => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "could not lock the files of ceilings of worker ids",
                "Try again; find out which process has the folder \"leaf\" in the data directory locked if it does not release it.",
            )
            .detail("Another process has had them locked for as long as lock_timeout."),
            Error::File { what, path, cause } => Report::new(
                Code::ERRCODE_IO_ERROR,
                format!("could not {what} \"{path}\": {cause}"),
                "Make the file usable. It records which ids may have been issued; without it, no ids are issued.",
            ),
        }
    }
}

fn describe(scheme: &Scheme) -> String {
    format!("Layout {}, epoch {}.", scheme.layout, at(scheme.epoch))
}

fn at(instant: WallTime) -> String {
    clock::text(instant)
}

fn duration(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}

fn signed(us: i64) -> String {
    format!("{:+.3} s", us as f64 / 1e6)
}
