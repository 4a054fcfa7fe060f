//! leaf without its library, on servers on which none can be installed: what a service needs, in
//! PL/pgSQL that `leafctl plain install` creates. What services do with either edition, the subjects
//! `client` and `serve` test on both.

mod copies;
mod install;
mod moving;
mod readers;
mod registry;
mod reserve;
mod services;

use leaf_tests::postgres::Client;
use leaf_tests::{Ledger, reserve_by_call};

/// Reserves a block, whose ids nobody else may have got, and returns its first.
#[track_caller]
fn reserve(client: &mut Client, tag: &str, count: i64, ids: &mut Ledger) -> i64 {
    let block = reserve_by_call(client, tag, count).expect("a block");
    assert_eq!(block.last - block.first + 1, count);
    ids.add(block.ids());
    block.first
}
