//! The keys with which this session masks ids.
//!
//! A key is read from the tag's row and derived once per statement, whatever other sessions
//! do meanwhile: all rows of a statement get masks of one version, which makes the functions
//! stable. A parallel worker would read the row by itself, so it may not call them. What the
//! session itself changes in between counts at once.
//!
//! Nothing is made at the first use: `CREATE EXTENSION` makes the secret, and a default of the
//! column the salt. So masks work on standbys, in read-only transactions, and for rows that were
//! loaded by hand. Slots are not used: a standby has none, and a mask should not bring a tag into
//! memory.

use std::cell::RefCell;
use std::collections::HashMap;

use leaf_core::mask::{Key, Mask, Width, derive_key};
use pgrx::pg_sys::Oid;

use super::changes::{self, RowState};
use super::error::{Error, Refusal};
use super::permissions::{check_may_draw, wait_until_readable};
use crate::catalog::mask_secret;
use crate::error::Problem;
use crate::patience::{Ids, Patience};
use crate::pg::xact::{self, Statement};
use crate::pg::{display, inval, role};

/// How many tags the session keeps keys of: whoever masks for more pays for it with time.
const MOST_TAGS: usize = 1000;

/// Which key is meant: the width, and the version unless it is the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub width: Width,
    pub version: Option<i32>,
}

/// A key that was looked up.
struct Known {
    wanted: Wanted,
    version: i32,
    mask: Mask,
    validity: Validity,
}

/// As long as this does not change, the role may use the key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Validity {
    statement: Statement,
    user: Oid,
    generation: u64,
}

impl Validity {
    fn now() -> Self {
        Validity {
            statement: xact::statement(),
            user: role::current(),
            generation: inval::generation(),
        }
    }
}

thread_local! {
    static KNOWN: RefCell<HashMap<Box<[u8]>, Vec<Known>>> = RefCell::default();
}

/// Calls `act`, which raises no error, with a tag's mask. An error unless the tag exists, the
/// current role may draw from it, and there is such a version.
pub fn with<R>(tag: &[u8], wanted: Wanted, act: impl Fn(&Mask) -> R) -> R {
    let now = Validity::now();
    let try_known = || {
        find(tag, wanted, |known| {
            (known.validity == now).then(|| act(&known.mask))
        })
    };
    if let Some(done) = try_known() {
        return done;
    }
    look_up(tag, wanted, now);
    try_known().expect("it was kept just now")
}

/// The key of a version, and which version it is. Errors as in [`with`].
pub fn key(tag: &[u8], wanted: Wanted) -> (i32, Key) {
    read(tag, wanted, Validity::now(), None)
}

fn find<R>(tag: &[u8], wanted: Wanted, read: impl FnOnce(&Known) -> Option<R>) -> Option<R> {
    KNOWN.with_borrow(|known| {
        let mut of_tag = known.get(tag)?.iter();
        read(of_tag.find(|it| it.wanted == wanted)?)
    })
}

/// Looks a tag's mask up and keeps it.
fn look_up(tag: &[u8], wanted: Wanted, now: Validity) {
    let earlier = find(tag, wanted, |known| {
        (known.validity.statement == now.statement).then_some(known.version)
    });
    let (version, key) = read(tag, wanted, now, earlier);
    let known = Known {
        wanted,
        version,
        mask: Mask::new(&key, wanted.width),
        validity: now,
    };
    KNOWN.with_borrow_mut(|all| {
        if all.len() >= MOST_TAGS && !all.contains_key(tag) {
            all.clear();
        }
        let keys = all.entry(tag.into()).or_default();
        keys.retain(|it| it.wanted != wanted && it.validity.statement == now.statement);
        keys.push(known);
    });
}

/// Reads a tag's row and its secret. `earlier` is the version that the statement has used so far.
fn read(tag: &[u8], wanted: Wanted, now: Validity, earlier: Option<i32>) -> (i32, Key) {
    let readable = wait_until_readable(&Patience::new(Ids::OfTag(tag)));
    let Some((permissions, source)) = readable.permissions_and_mask(tag, now.user) else {
        Error::NoTagToDraw { tag: display(tag) }.raise();
    };
    check_may_draw(&permissions, tag, now.user).unwrap_or_else(|error| error.raise());
    // Not if this session itself has changed the row.
    let earlier = earlier.filter(|_| changes::state_of(tag) == RowState::Committed);
    let version = wanted.version.or(earlier).unwrap_or(source.version);
    if !(1..=source.version).contains(&version) {
        Error::NoMaskVersion {
            tag: display(tag),
            version,
            latest: source.version,
        }
        .raise();
    }
    let patience = Patience::new(Ids::OfTag(tag));
    let secret = mask_secret::secret(&source, || {
        patience.nap_or_give_up("table \"leaf.mask_secret\" is locked by another transaction");
    });
    let Some(secret) = secret else {
        Refusal::NoMaskSecret.raise(tag);
    };
    let key = derive_key(&secret, &source.salt, version as u32, wanted.width);
    (version, key)
}
