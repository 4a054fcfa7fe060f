//! What a server meets in its life: restarts, crashes, full disks, standbys and
//! promotions, for both kinds of ids. No id comes twice, whatever happens.
//!
//! Restarts with another clock are in `snowflake`.

mod faults;

mod durable {
    mod durability;
}

mod never_twice {
    mod crashes;
    mod files;
    mod history;
    mod promotion;
    mod restart;
}
