//! Errors about snowflake ids and leases of worker ids that are raised at several places, and how
//! they show what they are about.

use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use pgrx::PgSqlErrorCode as Code;

use crate::error::Report;
use crate::pg::clock;
use crate::shmem::upstream::Denial;

/// The clock is behind the last id, by so many microseconds.
pub fn clock_behind(us: u64) -> Report {
    // When: the clock has gone back, by more than `leaf.clock_policy` and its settings allow for
    Report::new(
        Code::ERRCODE_SYSTEM_ERROR,
        "the clock is behind the last snowflake id",
        "Correct the clock or wait; leaf.clock_policy and leaf.clock_tolerance set what happens when the clock has gone back.",
    )
    .detail(format!("It has to advance by {}.", duration(us)))
}

/// The time field has no more values.
pub fn time_used_up(scheme: Scheme) -> Report {
    // When: a draw after `runs_out_at` of `leaf.stat_snowflake`
    Report::new(
        Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        format!("the time field of snowflake ids has been used up since {}", at(scheme.ends_at())),
        "When no id of this layout is in use any more, change to one with more bits of time: delete the rows of leaf.worker, then set leaf.snowflake_layout and leaf.snowflake_epoch.",
    )
    .detail(describe(&scheme))
}

/// Layout or epoch are not those of the registry.
pub fn other_scheme(registered: Scheme, wanted: Scheme) -> Report {
    // When: a draw or a registration after a setting was changed
    Report::not_ready(
        "layout or epoch of snowflake ids differs from the registered one",
        "Set leaf.snowflake_layout and leaf.snowflake_epoch to the registered values; ids of another layout or epoch could repeat existing ones.",
    )
    .detail(format!("Registered: {} Requested: {}", describe(&registered), describe(&wanted)))
}

/// Other nodes of Citus may lease the same worker ids.
pub fn leased_elsewhere() -> Report {
    // When: a snowflake id on a worker of Citus, without a centre and without a worker id of its own
    Report::not_ready(
        "other nodes may have the same worker id for snowflake ids",
        "Let the coordinator lease it: set leaf.upstream here. Or set leaf.worker_id with ALTER SYSTEM, on each node another one; see the page \"Citus\" of the manual.",
    )
    .detail("This is a worker of Citus, on which defaults are evaluated, too, and it leases worker ids from a registry of its own.")
}

/// Other sessions lease the same worker id at the same time.
pub fn contended() -> Report {
    // When: `leaf_worker_register`, when many nodes register at once
    Report::new(
        Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "could not lease a worker id due to concurrent leases",
        "Try again.",
    )
}

/// There is nothing from the centre that leases the worker ids.
pub fn upstream(denial: Denial) -> Report {
    match denial {
        // When: the centre is away, refuses, or has no worker id left; DETAIL has the cause
        Denial::NoUpstream => Report::not_ready(
            "no worker id for snowflake ids from the centre",
            "Set leaf.upstream in the configuration file to a connection string of the centre, and reload.",
        ),
        // When: the centre is away, refuses, or has no worker id left; DETAIL has the cause
        Denial::Exhausted => Report::new(
            Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            "no worker id for snowflake ids from the centre",
            "Delete rows of leaf.worker at the centre whose nodes are gone, or raise leaf.max_leases for the role there.",
        ),
        // When: the centre is away, refuses, or has no worker id left; DETAIL has the cause
        _ => Report::new(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            "no worker id for snowflake ids from the centre",
            "Remove the cause, which leaf.stat_upstream and the server's log show, and try again.",
        ),
    }
    .detail(format!("The cause: {}.", denial.message()))
}

/// This registry leases no worker ids, because its own comes from a centre.
pub fn is_shard() -> Report {
    // When: `leaf_worker_register` and `leaf_worker_renew` at a shard
    Report::not_ready(
        "this server leases no worker ids, because its own comes from a centre",
        "Register the node at the centre.",
    )
}

/// Layout and epoch.
pub fn describe(scheme: &Scheme) -> String {
    format!("Layout {}, epoch {}.", scheme.layout, at(scheme.epoch))
}

/// An instant.
pub fn at(instant: WallTime) -> String {
    clock::text(instant)
}

fn duration(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}

/// A difference of two clocks.
pub fn signed(us: i64) -> String {
    format!("{:+.3} s", us as f64 / 1e6)
}
