//! `leaf_column_release`.

use pgrx::pg_sys::Oid;

use super::adopt::{ALWAYS, BY_DEFAULT, NOT_OWNED};
use super::error::Error;
use super::{locking, look};
use crate::catalog::columns::Column;
use crate::catalog::sequences::Sequence;
use crate::catalog::{self, alloc, registry};
use crate::error::Problem;
use crate::patience::{Ids, Patience};
use crate::pg::{clock, display};
use crate::segment::align::columns_of;
use crate::segment::error::Error as TagError;
use crate::segment::line;
use crate::segment::permissions;
use crate::snowflake::source;

/// Gives a column a sequence or an identity again, above its values and everything that was
/// granted, and drops its tag. Returns the sequence.
pub fn release(table: Oid, attribute: &[u8]) -> Oid {
    let before = look::at(table, attribute);
    look::sequences_of(&before);
    let tag = check(&before);
    locking::locked(&before, tag.as_deref(), |column, sequences| {
        // The tag's row is not locked before the tables are: sessions that have locked these may
        // be waiting for ids.
        let tag = check(column);
        let granted = match &tag {
            Some(tag) => line::end(tag),
            None => source::scheme().floor(registry::latest_ceiling().max(clock::now())),
        };
        let start = match column.summary(i64::MAX) {
            Some(summary) => {
                granted.max(summary.largest.map_or(i64::MIN, |id| id.saturating_add(1)))
            }
            None => {
                let column = look::full_name(column);
                Error::Unreadable { column }.raise()
            }
        };
        let start = start.max(handed_out(sequences));
        column.alter("DROP DEFAULT");
        restore(column, sequences, start);
        if let Some(tag) = &tag {
            catalog::as_owner(|| alloc::delete(tag));
        }
        // The commands name the table, whose schema may have got another name meanwhile.
        let sequences = column.sequences();
        let sequence = sequences.first().map(|sequence| sequence.oid);
        sequence.unwrap_or_else(|| {
            let table = column.table_name.clone();
            Error::Changed { table }.raise()
        })
    })
}

/// The tag that the column draws from, if it draws from one; an error if it does not draw from
/// leaf, or if the tag would live on: it would hand out the numbers of the sequence.
fn check(column: &Column) -> Option<Vec<u8>> {
    let tag = column.tag();
    if tag.is_none() && !column.is_snowflake() {
        let column = look::full_name(column);
        Error::NotAdopted { column }.raise();
    }
    let tag = tag?;
    let readable = permissions::wait_until_readable(&Patience::new(Ids::OfTag(&tag)));
    let Some((owner, has_blocks)) = readable.owner_and_blocks(&tag) else {
        let tag = display(&tag);
        TagError::NoSuchTag { tag }.raise()
    };
    let lives_on = |why| -> ! {
        let tag = display(&tag);
        Error::TagLivesOn { tag, why }.raise()
    };
    if owner != column.owner {
        lives_on(format!("The tag belongs to role \"{}\".", display(&owner)));
    }
    let others = columns_of(&tag).into_iter();
    let others: Vec<_> = others
        .filter(|it| !column.has(it))
        .map(|it| display(&it.column))
        .collect();
    if !others.is_empty() {
        lives_on(format!("Also drawn from by: {}.", others.join(", ")));
    }
    if has_blocks {
        lives_on("Blocks of its ids were reserved.".to_owned());
    }
    Some(tag)
}

/// The first number above what the column's sequences have handed out since somebody has taken
/// their fence away.
fn handed_out(sequences: &[Sequence]) -> i64 {
    let mut next = i64::MIN;
    for sequence in sequences {
        if !sequence.is_at_its_end()
            && let Some(last) = sequence.handed_out()
        {
            next = next.max(last.saturating_add(1));
        }
    }
    next
}

/// Gives the column its sequence or identity again, or a new one. A sequence that counted
/// downwards counts upwards, away from what was granted.
fn restore(column: &Column, sequences: &[Sequence], start: i64) {
    let was = |sequence: &Sequence| match sequence.comment.as_deref() {
        Some(ALWAYS) => Some("ALWAYS"),
        Some(BY_DEFAULT) => Some("BY DEFAULT"),
        _ => None,
    };
    let largest = column.largest.unwrap_or(i64::MAX);
    if start > largest {
        let column = look::full_name(column);
        Error::NothingLeft { column, largest }.raise();
    }
    let is_marked = |it: &&Sequence| was(it).is_some() || comment_before(it).is_some();
    match sequences.iter().find(is_marked).or(sequences.first()) {
        Some(sequence)
            if sequence.increment > 0
                && start > sequence.max
                && !sequence.is_as_long_as_its_type =>
        {
            let sequence = sequence.name.clone();
            Error::EndsBelow { sequence, start }.raise()
        }
        Some(sequence) => match was(sequence) {
            Some(generated) => {
                column.as_owner(&format!("DROP SEQUENCE {}", sequence.name));
                column.add_identity(generated, &sequence.identity_options(start));
            }
            None => {
                column.as_owner(&sequence.restart(start));
                column.use_sequence(&sequence.name);
                column.grant_usage(&sequence.name);
                if let Some(comment) = comment_before(sequence) {
                    column.disown(&sequence.name);
                    column.comment(sequence, comment);
                }
            }
        },
        None if column.is_not_null => {
            let min = start.min(1);
            column.add_identity("BY DEFAULT", &format!("MINVALUE {min} START WITH {start}"));
        }
        None => column.grant_usage(&column.create_default_sequence(start)),
    }
}

/// The comment of a sequence that the column used without owning it, before it was adopted.
fn comment_before(sequence: &Sequence) -> Option<&str> {
    let rest = sequence.comment.as_deref()?.strip_prefix(NOT_OWNED)?;
    Some(rest.strip_prefix('\n').unwrap_or(rest))
}
