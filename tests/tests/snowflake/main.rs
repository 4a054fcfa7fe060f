//! Snowflake ids: how sessions draw them, what they say, which layouts there are,
//! the clock they depend on, and the worker ids that the server and other nodes
//! lease.
//!
//! Kills and stops in the middle of drawing are in `lifecycle`.

mod drawing;
mod layouts;
mod registry;
mod settings;
mod vectors;

mod never_twice {
    mod clock;
    mod clock_restart;
    mod leases;
    mod repeats;
    mod workers;
}
