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

mod bounded_waits {
    mod waits;
}

mod durable {
    mod ceiling;
}

mod increasing {
    mod order;
}

mod never_twice {
    mod clock;
    pub mod clock_restart;
    mod drawing;
    mod leases;
    mod promotion;
    mod registry;
    mod repeats;
    pub mod workers;
}

mod no_surprises {
    mod servers;
}

mod permissions {
    mod registry;
}

mod small_waste {
    mod gaps;
}
