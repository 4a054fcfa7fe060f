//! Errors about tags that are raised at several places.

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::Oid;

use crate::catalog::permissions::Permissions;
use crate::error::Report;
use crate::pg::{database, display, role};
use crate::shmem;
use crate::shmem::upstream::Denial;

/// There is no such tag.
pub fn no_such_tag(tag: &[u8]) -> Report {
    // When: functions that take a tag
    Report::new(
        Code::ERRCODE_UNDEFINED_OBJECT,
        format!("tag \"{}\" does not exist", display(tag)),
        "leaf.stat_segment shows the tags that you own; leaf_tag_create creates one.",
    )
}

/// There is no such tag to draw from; a draw may create it.
pub fn no_tag_to_draw(tag: &[u8]) -> Report {
    Report::new(
        Code::ERRCODE_UNDEFINED_OBJECT,
        format!("tag \"{}\" does not exist", display(tag)),
        "Check the spelling. If the tag is missing, create it with leaf_tag_create, or, above the values of the columns that draw from it, with leaf_tag_align(create_missing => true).",
    )
}

/// There is no such role.
pub fn no_such_role(role: &str) -> Report {
    // When: `leaf_tag_grant`, `leaf_tag_revoke`
    Report::new(
        Code::ERRCODE_UNDEFINED_OBJECT,
        format!("role \"{role}\" does not exist"),
        "Create the role first, or use PUBLIC for all roles.",
    )
}

/// The waiting transaction itself holds the lock on the tag's row.
pub fn own_change(tag: &[u8]) -> Report {
    // When: the transaction has changed the tag's row, and the ids in memory are used up
    Report::new(
        Code::ERRCODE_LOCK_NOT_AVAILABLE,
        format!(
            "no ids for tag \"{}\" before this transaction ends",
            display(tag)
        ),
        "Commit the change before drawing more ids.",
    )
    .detail("The transaction has changed the tag's row, and the ids in memory are used up.")
}

/// A parallel plan draws from a tag that its transaction created or changed.
pub fn parallel_query(tag: &[u8]) -> Report {
    // When: a parallel plan in the transaction that has created or changed the tag
    Report::new(
        Code::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!(
            "cannot draw ids of tag \"{}\" in a parallel query",
            display(tag)
        ),
        "Commit the transaction first, or set max_parallel_workers_per_gather to 0.",
    )
    .detail("The tag was created or changed by the transaction that runs the query.")
}

/// The tag is fed: it cannot be drawn from by the transaction that has written its row.
pub fn centre_here(tag: &[u8]) -> Report {
    // When: the transaction has written the tag's row
    Report::not_ready(
        format!(
            "no ids for fed tag \"{}\" in this transaction",
            display(tag)
        ),
        "Commit the transaction first.",
    )
    .detail("A transaction that has written the tag's row cannot get ids of the centre.")
}

/// The tag is fed, so it cannot feed another one.
pub fn is_fed(tag: &[u8]) -> Report {
    // When: `leaf_segment_feed` from a fed tag
    Report::not_ready(
        format!("tag \"{}\" is fed itself", display(tag)),
        "Attach the other tag to the tag of the centre.",
    )
}

/// Another node of Citus may grant the same numbers: this one is not the coordinator, or it is a
/// copy of another node.
pub fn granted_elsewhere(tag: &[u8], permissions: &Permissions) -> Report {
    let text = format!(
        "other nodes may hand out the same ids of tag \"{}\"",
        display(tag)
    );
    match permissions.stripe_width {
        // When: a draw on a worker of Citus that was cloned from another one
        Some(_) => Report::not_ready(
            text,
            "Drop the tag here and create it with a stripe that no other node has; or, if the node that it was made on is gone, call leaf_tag_vouch.",
        )
        .detail("The tag's stripe was made for another node of Citus."),
        // When: a draw on a worker of Citus, from a tag that is neither fed nor striped
        None => Report::not_ready(
            text,
            "Let the coordinator feed it: set leaf.upstream here, and call leaf_tag_attach; see the page \"Citus\" of the manual.",
        )
        .detail("This is a worker of Citus, on which defaults are evaluated, too, and the tag is neither fed nor striped."),
    }
}

/// The privilege of a role for a tag.
#[derive(Clone, Copy, Debug)]
pub enum Privilege {
    /// Draw its ids.
    Draw,
    /// Alter, grant and drop it.
    Own,
    /// Make it fed, by writing its row.
    Attach,
}

/// A role lacks a privilege for a tag.
pub fn denied(tag: &[u8], user: Oid, privilege: Privilege) -> Report {
    let (tag, role) = (display(tag), display(role::name_of(user).to_bytes()));
    match privilege {
        // When: a draw by a role that is neither owner nor grantee
        Privilege::Draw => Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("permission denied for tag \"{tag}\""),
            "The owner of the tag can allow it with leaf_tag_grant.",
        )
        .detail(format!(
            "Role \"{role}\" is neither the owner nor a grantee of the tag."
        )),
        // When: functions that change a tag
        Privilege::Own => Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("must be owner of tag \"{tag}\""),
            "Use the role of the owner, a member of it, or a superuser.",
        )
        .detail(format!(
            "Role \"{role}\" does not have the privileges of the owner."
        )),
        // When: an `INSERT` into `leaf.alloc`, such as of a dump, by a role that may not call
        // `leaf_tag_attach`
        Privilege::Attach => Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("permission denied to add fed tag \"{tag}\""),
            "Grant EXECUTE on leaf_tag_attach to the role.",
        )
        .detail(format!("Role \"{role}\" may not make tags fed.")),
    }
}

/// There is nothing for a tag, mostly because the centre has nothing.
pub fn of_denial(tag: &[u8], denial: Denial) -> Report {
    let tag = display(tag);
    match denial {
        // When: `leaf.upstream` is not set, or cannot be used
        Denial::NoUpstream => Report::not_ready(
            format!("no centre for fed tag \"{tag}\""),
            "Set leaf.upstream in the configuration file to a connection string of the centre, and reload.",
        )
        .detail("leaf.upstream is not set, or cannot be used."),
        // When: the same, at the centre
        Denial::Exhausted => Report::new(
            Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("the centre's tag that feeds tag \"{tag}\" has reached its maximum value"),
            "Raise its max_value with leaf_tag_alter at the centre, or ask for fewer ids at once.",
        ),
        // When: there is no such tag at the centre, it was dropped and created again, or
        // `leaf.upstream` names another centre
        Denial::Missing | Denial::OtherTag => Report::not_ready(
            format!("the centre does not have the tag that feeds tag \"{tag}\""),
            "Check that leaf.upstream names the right centre. To get ids of another tag, drop the tag, create it and attach it again.",
        )
        .detail(format!("The cause: {}.", denial.message())),
        // When: something that fires no trigger, such as pgactive, has written the tag's row
        Denial::Replaced => Report::not_ready(
            format!("the row of tag \"{tag}\" was replaced"),
            "Take leaf's tables out of that replication, drop the tag (force => true), and create it above all ids in use, with this node's stripe or tag of the centre; or, if the row is right, call leaf_tag_vouch with the tag.",
        )
        .detail("The row was written while leaf's triggers did not fire, perhaps by another node, which hands out the same ids. It is not the one from which ids were granted here."),
        // When: `leaf_tag_attach`, or a block of a fed tag, while the centre is away or refuses;
        // DETAIL has the cause
        _ => Report::new(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            format!("no ids for tag \"{tag}\" from the centre"),
            "Remove the cause, which leaf.stat_upstream and the server's log show, and try again.",
        )
        .detail(format!("The cause: {}.", cause(denial).trim_end_matches(['.', '?']))),
    }
}

/// The cause, as far as the current role may know it.
fn cause(denial: Denial) -> String {
    let contact = || shmem::get()?.loaders.contact_of(database::current());
    let whole = || contact()?.state().failures.message();
    let whole = role::is_monitor(role::current()).then(whole).flatten();
    whole.unwrap_or_else(|| denial.message().into())
}
