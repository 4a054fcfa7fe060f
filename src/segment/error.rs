//! Errors of segment ids and tags.

use leaf_core::grant::Stripe;
use pgrx::PgSqlErrorCode as Code;

use crate::error::{Problem, Report};
use crate::shmem::upstream::Denial;

/// Why there are no segment ids, or a tag cannot be changed.
#[derive(Debug)]
pub enum Error {
    NoSuchTag {
        tag: String,
    },
    TagExists {
        tag: String,
    },
    NoSuchRole {
        role: String,
    },
    /// The current role may not draw ids of the tag.
    MayNotDraw {
        tag: String,
        role: String,
    },
    /// The current role does not own the tag.
    NotOwner {
        tag: String,
        role: String,
    },
    /// The current role may not make a tag fed.
    MayNotAttach {
        tag: String,
        role: String,
    },
    /// The tag's row would move backwards.
    Backwards {
        tag: String,
        granted_up_to: i64,
    },
    /// The tag would end before what it has granted.
    BelowGranted {
        tag: String,
        max_value: i64,
        granted_up_to: i64,
    },
    /// Defaults of columns draw from the tag that was to be dropped.
    InUse {
        tag: String,
        columns: Vec<String>,
    },
    /// The tag has too few ids left.
    Exhausted {
        tag: String,
    },
    /// The tag is fed, and `leaf.upstream` cannot be used.
    NoUpstream {
        tag: String,
    },
    /// The centre does not have the tag that the tag was attached to.
    OtherUpstreamTag {
        tag: String,
    },
    /// The centre's tag has too few ids left.
    CentreExhausted {
        tag: String,
    },
    /// Where the ids of a fed tag come from cannot be changed.
    FixedUpstream {
        tag: String,
    },
    /// A fed tag cannot be moved.
    MovedByCentre {
        tag: String,
    },
    /// The tag is fed: it cannot be drawn from by the transaction that has written its row.
    CentreHere {
        tag: String,
    },
    /// The tag is fed, so it cannot feed another one.
    IsFed {
        tag: String,
    },
    /// The tag's row may lack numbers that shards have got.
    MayLackFeeds {
        tag: String,
    },
    /// This server feeds no tags, because it has no synchronous standby.
    Unreplicated,
    /// The centre's tag is behind the tag that was to be attached.
    CentreBehind {
        tag: String,
        upstream_tag: String,
        max_id: i64,
    },
    /// The centre could not be asked about the tag that another one was to be attached to.
    NotAttached {
        tag: String,
        denial: Denial,
    },
    /// The waiting transaction itself holds the lock on the tag's row.
    OwnChange {
        tag: String,
    },
    /// The tag is no longer the one whose ids were requested.
    OtherIncarnation {
        tag: String,
    },
    /// The session has drawn no id of the tag yet.
    NoLast {
        tag: String,
    },
    /// Every slot is waiting for a load.
    NoSlot {
        tag: String,
    },
    /// A parallel plan draws from a tag that its transaction created or changed.
    ParallelQuery {
        tag: String,
    },
    /// `PREPARE TRANSACTION` after a change of tags.
    Prepared,
    /// Tags cannot be changed, because the server replays WAL.
    InRecovery,
    /// A block of ids cannot be longer than a block of the tag's stripe.
    LongerThanStripe {
        tag: String,
        count: u64,
        width: u64,
    },
    /// The stripe columns of a tag's row were changed with plain SQL.
    StripeIsFixed {
        tag: String,
    },
    /// The tag exists, with other numbers than were asked for.
    OtherStripe {
        tag: String,
        stripe: Stripe,
    },
    /// A step is longer than a block of the tag's stripe.
    StepLongerThanStripe {
        step: i32,
        width: u64,
    },
    /// A new stripe is not a part of the tag's present one.
    NotFiner {
        tag: String,
        stripe: Stripe,
    },
    /// Ids from the bound on may have been granted.
    BoundPassed {
        tag: String,
        from: i64,
        granted_to: i64,
    },
    /// The bound of the last change of the stripe has not been reached.
    BoundPending {
        tag: String,
        from: i64,
    },
    /// A fed tag would have a stripe.
    StripeOfCentre {
        tag: String,
    },
    /// The centre's tag is the tag itself.
    FedByItself {
        tag: String,
    },
    /// Other nodes have numbers of the tag, too.
    SharedLine {
        tag: String,
    },
    /// The key of the tag's masks has no such version.
    /// The secret of the tag's masks is not in this database.
    NoMaskSecret {
        tag: String,
    },
    NoMaskVersion {
        tag: String,
        version: i32,
        latest: i32,
    },
}

impl Error {
    /// The error of a caller for whom the centre has nothing.
    pub fn of_denial(tag: String, denial: Denial) -> Error {
        match denial {
            Denial::NoUpstream => Error::NoUpstream { tag },
            Denial::Exhausted => Error::CentreExhausted { tag },
            Denial::Missing | Denial::OtherTag => Error::OtherUpstreamTag { tag },
            _ => Error::NotAttached { tag, denial },
        }
    }
}

impl Problem for Error {
    fn report(self) -> Report {
        match self {
            Error::NoSuchTag { tag } => Report::new(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("tag \"{tag}\" does not exist"),
                "Create it with leaf_tag_create. With leaf.auto_create, a draw creates it, for roles that may call leaf_tag_create. If rows with its ids exist, call leaf_tag_align then.",
            ),
            Error::TagExists { tag } => Report::new(
                Code::ERRCODE_DUPLICATE_OBJECT,
                format!("tag \"{tag}\" already exists"),
                "Choose another name, use if_not_exists => true in leaf_tag_create, or drop the tag with leaf_tag_drop.",
            ),
            Error::NoSuchRole { role } => Report::new(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("role \"{role}\" does not exist"),
                "Create the role first, or use PUBLIC for all roles.",
            ),
            Error::MayNotDraw { tag, role } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for tag \"{tag}\""),
                "The owner of the tag can allow it with leaf_tag_grant.",
            )
            .detail(format!(
                "Role \"{role}\" is neither the owner nor a grantee of the tag."
            )),
            Error::NotOwner { tag, role } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of tag \"{tag}\""),
                "Use the role of the owner, a member of it, or a superuser.",
            )
            .detail(format!(
                "Role \"{role}\" does not have the privileges of the owner."
            )),
            Error::MayNotAttach { tag, role } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied to add fed tag \"{tag}\""),
                "Grant EXECUTE on leaf_tag_attach to the role.",
            )
            .detail(format!("Role \"{role}\" may not make tags fed.")),
            Error::Backwards { tag, granted_up_to } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{tag}\" cannot move backwards"),
                "Choose a larger number, or drop the tag and create it again.",
            )
            .detail(format!("Numbers up to {granted_up_to} have been granted.")),
            Error::BelowGranted {
                tag,
                max_value,
                granted_up_to,
            } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("max_value {max_value} is less than what tag \"{tag}\" has granted"),
                format!("To grant no more ids, use {granted_up_to}."),
            )
            .detail(format!("Numbers up to {granted_up_to} have been granted.")),
            Error::InUse { tag, columns } => Report::new(
                Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop tag \"{tag}\" because the default of a column draws from it"),
                "Change the default first, for example with leaf_column_release, or use force => true.",
            )
            .detail(format!("It is used by {}.", columns.join(", "))),
            Error::Exhausted { tag } => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("tag \"{tag}\" has reached its maximum value"),
                "Raise max_value with leaf_tag_alter, or ask for fewer ids at once.",
            ),
            Error::NoUpstream { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("no centre for fed tag \"{tag}\""),
                "Set leaf.upstream in the configuration file to a connection string of the centre, and reload.",
            )
            .detail("leaf.upstream is not set, or cannot be used."),
            Error::OtherUpstreamTag { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the centre does not have the tag that feeds tag \"{tag}\""),
                "Check that leaf.upstream names the right centre. To get ids of another tag, drop the tag, create it and attach it again.",
            )
            .detail("The centre's tag was dropped, or dropped and created again."),
            Error::CentreExhausted { tag } => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("the centre's tag that feeds tag \"{tag}\" has reached its maximum value"),
                "Raise its max_value with leaf_tag_alter at the centre, or ask for fewer ids at once.",
            ),
            Error::FixedUpstream { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot change where the ids of tag \"{tag}\" come from"),
                "Use leaf_tag_attach, once. To make a fed tag local again, drop it and create another one.",
            ),
            Error::MovedByCentre { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot move fed tag \"{tag}\""),
                "Move the centre's tag with leaf_tag_alter there.",
            )
            .detail("Its ids are granted by the centre."),
            Error::CentreHere { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("no ids for fed tag \"{tag}\" in this transaction"),
                "Commit the transaction first. In single-user mode, fed tags have no ids.",
            )
            .detail("A transaction that has written the tag's row cannot get ids of the centre."),
            Error::IsFed { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" is fed itself"),
                "Attach the other tag to the tag of the centre.",
            ),
            Error::MayLackFeeds { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" may have fed numbers that are not in its row"),
                "Find the highest number that any shard has got (max_id in leaf.alloc there), and move the tag past it with leaf_tag_alter(advance_to => ...).",
            )
            .detail("The row was restored from a backup or a dump, or numbers were fed without a synchronous standby before a failover."),
            Error::Unreplicated => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server feeds no tags, because it has no synchronous standby",
                "Set synchronous_standby_names, or, if losing ids that shards have got is acceptable, leaf.allow_unreplicated_centre.",
            ),
            Error::CentreBehind {
                tag,
                upstream_tag,
                max_id,
            } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the centre's tag \"{upstream_tag}\" is behind tag \"{tag}\""),
                format!("Move it with leaf_tag_alter(advance_to => {max_id}) or further at the centre, above the ids of all shards."),
            )
            .detail(format!(
                "Ids below {max_id} have been granted here; the centre could grant them again."
            )),
            Error::NotAttached { tag, denial } => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("no ids for tag \"{tag}\" from the centre"),
                "Remove the cause, which leaf.stat_upstream and the server's log show, and try again.",
            )
            .detail(format!("The cause: {}.", denial.message())),
            Error::OwnChange { tag } => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("no ids for tag \"{tag}\" before this transaction ends"),
                "Commit the change before drawing more ids.",
            )
            .detail(
                "The transaction has changed the tag's row, and the ids in memory are used up.",
            ),
            Error::OtherIncarnation { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" is another one: it was dropped and created again"),
                "Discard its unused ids, and get the new incarnation from leaf_tag_incarnation.",
            ),
            Error::NoLast { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("no id of tag \"{tag}\" was drawn in this session"),
                "Draw one with leaf_segment_next or leaf_segment_batch first, or use INSERT ... RETURNING.",
            ),
            Error::NoSlot { tag } => Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("no room in shared memory for tag \"{tag}\""),
                "Raise leaf.max_tags and restart the server.",
            )
            .detail("Every slot is waiting for a load."),
            Error::ParallelQuery { tag } => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot draw ids of tag \"{tag}\" in a parallel query"),
                "Commit the transaction first, or set max_parallel_workers_per_gather to 0.",
            )
            .detail("The tag was created or changed by the transaction that runs the query."),
            Error::InRecovery => Report::new(
                Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
                "cannot change tags while the server is in recovery",
                "Change them on the primary.",
            ),
            Error::LongerThanStripe { tag, count, width } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("a block of tag \"{tag}\" has at most {width} ids, not {count}"),
                "Reserve several blocks: a stripe's numbers are consecutive only within a block of stripe_width.",
            ),
            Error::StripeIsFixed { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the stripe of tag \"{tag}\" cannot be changed"),
                "Divide the stripe with leaf_tag_restripe. To get another one, drop the tag and create it above all ids in use.",
            ),
            Error::OtherStripe { tag, stripe } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" already exists with another stripe"),
                "Specify the stripe that this node has, or divide it with leaf_tag_restripe.",
            )
            .detail(described(&stripe)),
            Error::StepLongerThanStripe { step, width } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("step {step} is greater than stripe_width {width}"),
                "A segment never crosses the end of a block of stripe_width: choose a smaller step.",
            ),
            Error::NotFiner { tag, stripe } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the new stripe of tag \"{tag}\" is not a part of its present one"),
                "Stripe k of n consists of the stripes k, k + n, k + 2n ... of a multiple of n, with the same stripe_width.",
            )
            .detail(described(&stripe)),
            Error::BoundPassed {
                tag,
                from,
                granted_to,
            } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" has passed {from}"),
                "Choose a bound safely above the positions of the tag on all nodes.",
            )
            .detail(format!(
                "Numbers up to {} may have been granted.",
                granted_to.saturating_sub(1)
            )),
            Error::BoundPending { tag, from } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" has not reached {from} yet, from which its last change of stripes applies"),
                "Wait until it has, or move it there with the argument advance_to of leaf_tag_alter.",
            ),
            Error::StripeOfCentre { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("tag \"{tag}\" cannot be fed and have a stripe"),
                "Let the tag of the centre have the stripe; the centre divides its numbers among the tags that it feeds.",
            ),
            Error::FedByItself { tag } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{tag}\" cannot be fed by itself"),
                "Set leaf.upstream to a connection string of the centre: it leads to this database.",
            ),
            Error::SharedLine { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("a sequence cannot take the place of tag \"{tag}\", of which other nodes have numbers, too"),
                "Drop the default with ALTER TABLE, and choose numbers for the column that no other node has.",
            )
            .detail("The tag has a stripe of the numbers, or a centre feeds it."),
            Error::NoMaskSecret { tag } => Report::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the secret of the masks of tag \"{tag}\" is not in this database"),
                "Copy the row of leaf.mask_secret from where the tag comes from, or begin other masks with UPDATE leaf.alloc SET mask_secret_id = NULL.",
            )
            .detail("The tag was restored or replicated without leaf.mask_secret."),
            Error::NoMaskVersion {
                tag,
                version,
                latest,
            } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the mask key of tag \"{tag}\" has no version {version}"),
                "Omit version to use the current one, or specify the one with which the id was masked.",
            )
            .detail(format!("There are versions 1 to {latest}.")),
            Error::Prepared => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot PREPARE a transaction that has changed leaf.alloc",
                "Change tags in a separate transaction, and commit it without PREPARE TRANSACTION.",
            ),
        }
    }
}

/// A stripe, for the reader of an error.
fn described(stripe: &Stripe) -> String {
    match stripe.width() {
        Some(width) => format!(
            "It has stripe {} of {}, with a stripe_width of {width}.",
            stripe.number(),
            stripe.count()
        ),
        None => "It has all numbers: stripe 0 of 1.".to_owned(),
    }
}
