//! Grants from the tags' rows of `leaf.alloc`: the rows are locked and moved forward.

use std::collections::BTreeSet;

use leaf_core::grant::{Decision, Ledger};

use super::grant_source::{GrantSource, Want};
use crate::catalog::{self, alloc, triggers};
use crate::history;
use crate::pg::replication;
use crate::settings::segment as settings;

/// The tags' rows.
pub struct RowSource;

impl GrantSource for RowSource {
    fn grant(&self, wants: &[Want<'_>]) -> Vec<Decision> {
        catalog::as_owner(|| from_rows(wants))
    }
}

fn from_rows(wants: &[Want<'_>]) -> Vec<Decision> {
    triggers::look();
    let history = history::current();
    let tags: BTreeSet<&[u8]> = wants.iter().map(|want| want.tag).collect();
    let tags: Vec<&[u8]> = tags.into_iter().collect();
    let skip = settings::history_skip();
    let lost_grants = history::may_lack_grants();
    let mut ledgers: Vec<Ledger> = alloc::lock_for_grant(&tags, &history, lost_grants)
        .into_iter()
        .map(|found| Ledger::new(found, skip))
        .collect();
    let (policy, fed_policy) = (settings::step_policy(), settings::fed_step_policy());
    let decisions = wants
        .iter()
        .map(|want| {
            if (want.is_void)() {
                return Decision::Changed;
            }
            let at = tags.binary_search(&want.tag);
            let ledger = &mut ledgers[at.expect("every wanted tag is listed")];
            if let Some(fed) = &want.fed {
                return ledger.receive(fed, &want.wanted, want.incarnation, &want.past);
            }
            let policy = if ledger.is_fed() {
                &fed_policy
            } else {
                &policy
            };
            ledger.decide(&want.wanted, want.incarnation, &want.past, policy)
        })
        .collect();
    let ledgers = tags.iter().zip(&ledgers);
    let changed: Vec<_> = ledgers
        .filter_map(|(tag, ledger)| Some((*tag, ledger.changed()?, ledger.moves_back())))
        .collect();
    alloc::store_grants(&changed, &history, replication::has_synchronous_standby());
    decisions
}
