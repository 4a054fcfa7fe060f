//! What a server meets in its life: restarts, crashes, full disks, standbys and
//! promotions, for both kinds of ids. No id comes twice, whatever happens.
//!
//! Restarts with another clock are in `snowflake`.

mod bounded_waits {
    mod faults;
}

mod durable {
    mod durability;
    mod standby;
}

mod never_twice {
    mod crashes;
    mod faults;
    mod files;
    pub mod history;
    mod promotion;
    pub mod restart;
}

mod no_surprises {
    pub mod faults;
    mod standby;
}

mod small_waste {
    mod restart;
}
