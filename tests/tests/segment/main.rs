//! Segment ids on a server that runs: how sessions draw them, at once, in
//! transactions and in parallel plans; how long a segment is; how tags change; who
//! may draw; what a caller waits for and which errors it gets.
//!
//! What a stop, a crash or a standby does to them is in `lifecycle`.

mod blocks;
mod changes;
mod concurrency;
mod errors;
mod masks;
mod parallel;
mod permissions;
mod races;
mod statistics;
mod step;
mod tags;
mod transactions;
mod waiters;
mod waits;
