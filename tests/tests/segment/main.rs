//! Segment ids on a server that runs: how sessions draw them, at once, in
//! transactions and in parallel plans; how long a segment is; how tags change; who
//! may draw; what a caller waits for and which errors it gets.
//!
//! What a stop, a crash or a standby does to them is in `lifecycle`.

mod changes;
mod errors;
mod masks;
mod permissions;
mod statistics;
mod step;
mod tags;

mod bounded_waits {
    mod waiters;
    mod waits;
}

mod independent {
    mod transactions;
}

mod never_twice {
    mod blocks;
    mod concurrency;
    mod parallel;
    mod races;
}
