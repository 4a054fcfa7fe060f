//! leaf without its library, on servers on which none can be installed: functions in SQL that
//! `leafctl plain install` creates. What both editions promise, the other subjects test on both;
//! here is what compares them, and what only one of them has.

mod catalogs;
mod identity;
mod install;
mod leafctl;
mod likeness;
mod moving;
mod registry;
mod reserve;
mod rights;
mod services;
mod waits;
