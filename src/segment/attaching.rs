//! Making a tag fed: its ids come from a tag of the centre from then on.

use super::error::{Error, Refusal};
use super::line::{self, Line};
use crate::asking;
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::patience::{Ids, Patience};
use crate::pg::display;
use crate::shmem::text::Text;
use crate::shmem::upstream::{Demand, Denial, Reply};

/// Attaches a tag to a tag of the centre, whose name is in UTF-8 and in the database's
/// encoding.
pub fn attach(tag: &[u8], upstream_tag: &[u8], upstream_name: &str) {
    let patience = Patience::new(Ids::OfTag(tag));
    let found = ask(upstream_name, &patience);
    let (position, incarnation) =
        found.unwrap_or_else(|denial| Error::of_denial(display(tag), denial).raise());
    catalog::as_owner(|| {
        let Some(Line { row, .. }) = line::lock(tag) else {
            Error::NoSuchTag { tag: display(tag) }.raise();
        };
        if row.position.numbers.stripe().width().is_some() {
            Refusal::StripeOfCentre.raise(tag);
        }
        if row.incarnation == incarnation {
            Error::FedByItself { tag: display(tag) }.raise();
        }
        let max_id = row.position.max_id;
        if position < max_id {
            Error::CentreBehind {
                tag: display(tag),
                upstream_tag: display(upstream_tag),
                max_id,
            }
            .raise();
        }
        alloc::attach(tag, upstream_tag, incarnation);
    });
}

/// Asks the centre where its tag stands, and for the tag's identity.
fn ask(tag: &str, patience: &Patience<'_>) -> Result<(i64, [u8; 16]), Denial> {
    let demand = Demand::Numbers {
        tag: Text::of(tag),
        count: 0,
        exact: false,
    };
    match asking::ask_centre(&demand, patience)? {
        Reply::Granted { run, incarnation } => Ok((run.first, incarnation)),
        Reply::Leased { .. } | Reply::Renewed { .. } => Err(Denial::Refused),
    }
}
