//! What a server meets in its life: restarts, crashes, full disks, standbys and
//! promotions, for both kinds of ids. No id comes twice, whatever happens.
//!
//! Restarts with another clock are in `snowflake`.

mod crashes;
mod durability;
mod faults;
mod files;
mod history;
mod promotion;
mod restart;
