//! The client library `leaf-sdk` against real servers: its calls, its buffered
//! sources of both kinds of ids, outages, TLS, its events and its examples.
//!
//! What it does without a server is tested in `sdk/tests`.

mod calls;
mod clock;
mod events;
mod examples;
mod hosts;
mod processes;
mod segments;
mod snowflake;
mod tls;
