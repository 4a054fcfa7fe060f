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
    mod concurrency;
    pub mod waiters;
    pub mod waits;
}

mod increasing {
    mod order;
}

mod independent {
    mod transactions;
}

mod never_twice {
    mod blocks;
    mod cache;
    mod changes;
    mod concurrency;
    mod memory;
    mod parallel;
    mod races;
    mod transactions;
}

mod small_waste {
    mod draws;
    mod waiters;
}
