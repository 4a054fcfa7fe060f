//! The histories of the cluster, one after the other, as its data has them.
//!
//! A standby that is promoted has to know which history was that of its primary, and what that one
//! had taken over: the rows of another primary may show nothing of it. So each history is recorded
//! in the cluster itself, with the name of a replication origin: of what all databases share, it is
//! all that an extension may add to. A standby has it as soon as its primary; a dump and
//! `pg_upgrade` leave it out.

use std::ffi::CString;

use pgrx::pg_sys;
use uuid::Uuid;

use crate::pg::heap;

const PREFIX: &str = "leaf_history";

/// A history of the cluster.
struct Link {
    /// Counted from 1.
    number: u64,
    timeline: u32,
    nonce: Uuid,
    /// The first of the histories of which it lacks nothing: it has all that come between, too.
    since: u64,
}

impl Link {
    fn name(&self) -> String {
        let Link {
            number,
            timeline,
            nonce,
            since,
        } = self;
        format!("{PREFIX}_{number}_{timeline}_{nonce}_{since}")
    }

    fn parse(name: &str) -> Option<Link> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('_')?.split('_');
        let link = Link {
            number: parts.next()?.parse().ok()?,
            timeline: parts.next()?.parse().ok()?,
            nonce: parts.next()?.parse().ok()?,
            since: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(link)
    }
}

/// The histories of a cluster.
pub struct Chain(Vec<Link>);

impl Chain {
    /// Those that are recorded. In a transaction.
    pub fn read() -> Self {
        let mut links = Vec::new();
        heap::each_row(pg_sys::ReplicationOriginRelationId, |row| {
            let name = row.text(2).and_then(|name| std::str::from_utf8(name).ok());
            links.extend(name.and_then(Link::parse));
        });
        links.sort_unstable_by_key(|link| link.number);
        Chain(links)
    }

    fn of(&self, nonce: Uuid) -> Option<&Link> {
        self.0.iter().find(|link| link.nonce == nonce)
    }

    /// The first history of which the current one lacks nothing, if there is one besides itself.
    /// `up_to` is the timeline of the primary of which it lacks nothing, if there was one.
    fn since(&self, present: Uuid, up_to: Option<u32>) -> Option<u64> {
        match self.of(present) {
            Some(own) => Some(own.since),
            None => {
                let last = self.0.last()?;
                // If not, the primary's own history had not arrived.
                (up_to == Some(last.timeline)).then_some(last.since)
            }
        }
    }

    /// Whether the current history lacks nothing of an earlier one.
    pub fn continues(&self, earlier: Uuid, present: Uuid, up_to: Option<u32>) -> bool {
        let since = self.since(present, up_to);
        since
            .zip(self.of(earlier))
            .is_some_and(|(since, earlier)| since <= earlier.number)
    }

    /// Records the current history, unless it is. In a transaction.
    pub fn record(&self, present: Uuid, timeline: u32, up_to: Option<u32>) {
        if self.of(present).is_some() {
            return;
        }
        let number = self.0.last().map_or(1, |last| last.number + 1);
        let link = Link {
            number,
            timeline,
            nonce: present,
            since: self.since(present, up_to).unwrap_or(number),
        };
        let name = CString::new(link.name()).expect("no zero byte");
        // SAFETY: in a transaction; the name is copied.
        unsafe { pg_sys::replorigin_create(name.as_ptr()) };
    }
}
