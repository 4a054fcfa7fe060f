//! Errors of segment ids and tags.

use leaf_core::grant::Stripe;
use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::Oid;

use crate::error::{Problem, Report};
use crate::pg::{database, display, role};
use crate::shmem;
use crate::shmem::upstream::Denial;

/// Why there are no segment ids, or a tag cannot be changed.
#[derive(Debug)]
pub enum Error {
    /// There is no such tag.
    NoSuchTag { tag: String },
    /// There is no such tag to draw from; a draw may create it.
    NoTagToDraw { tag: String },
    /// There is such a tag already.
    TagExists { tag: String },
    /// There is no such role.
    NoSuchRole { role: String },
    /// The current role lacks a privilege for the tag.
    Denied {
        tag: String,
        role: String,
        privilege: Privilege,
    },
    /// Something about the tag has to be different first.
    Refused { tag: String, why: Refusal },
    /// The tag's row would move backwards.
    Backwards { tag: String, granted_up_to: i64 },
    /// The tag would end before what it has granted.
    BelowGranted {
        tag: String,
        max_value: i64,
        granted_up_to: i64,
    },
    /// Defaults of columns draw from the tag that was to be dropped.
    InUse { tag: String, columns: Vec<String> },
    /// The tag has too few ids left.
    Exhausted { tag: String, left: Left },
    /// The centre's tag has too few ids left.
    CentreExhausted { tag: String },
    /// This server feeds no tags, because it has no synchronous standby.
    Unreplicated,
    /// This server feeds no tags, because nobody has said what its failover may lose.
    FailoverUnknown,
    /// A role may not vouch for tags.
    MayNotVouch,
    /// The centre's tag is behind the tag that was to be attached.
    CentreBehind {
        tag: String,
        upstream_tag: String,
        max_id: i64,
    },
    /// The centre could not be asked about the tag that another one was to be attached to.
    NotAttached { tag: String, denial: Denial },
    /// The waiting transaction itself holds the lock on the tag's row.
    OwnChange { tag: String },
    /// A shard has asked for numbers that cannot be granted at the moment.
    NotGranted { tag: String, cause: String },
    /// Every slot is waiting for a load.
    NoSlot { tag: String },
    /// A parallel plan draws from a tag that its transaction created or changed.
    ParallelQuery { tag: String },
    /// `PREPARE TRANSACTION` after a change of tags.
    Prepared,
    /// Tags cannot be changed, because the server replays WAL.
    InRecovery,
    /// A block of ids cannot be longer than a block of the tag's stripe.
    LongerThanStripe { tag: String, count: u64, width: u64 },
    /// The tag exists, with other numbers than were asked for.
    OtherStripe { tag: String, stripe: Stripe },
    /// A step is longer than a block of the tag's stripe.
    StepLongerThanStripe { step: i32, width: u64 },
    /// The centre's tag is the tag itself.
    FedByItself { tag: String },
}

impl Error {
    /// The error of a role that lacks a privilege for a tag.
    pub fn denied(tag: &[u8], user: Oid, privilege: Privilege) -> Error {
        Error::Denied {
            tag: display(tag),
            role: display(role::name_of(user).to_bytes()),
            privilege,
        }
    }

    /// The error of a caller for whom the centre has nothing.
    pub fn of_denial(tag: String, denial: Denial) -> Error {
        match denial {
            Denial::NoUpstream => Error::Refused {
                tag,
                why: Refusal::NoUpstream,
            },
            Denial::Exhausted => Error::CentreExhausted { tag },
            Denial::Missing | Denial::OtherTag => Error::Refused {
                tag,
                why: Refusal::OtherUpstreamTag,
            },
            _ => Error::NotAttached { tag, denial },
        }
    }
}

/// What the current role may know of the cause.
fn cause(denial: Denial) -> String {
    let contact = || shmem::get()?.loaders.contact_of(database::current());
    let whole = || contact()?.state().failures.message();
    let whole = role::is_monitor(role::current()).then(whole).flatten();
    whole.unwrap_or_else(|| denial.message().into())
}

impl Problem for Error {
    fn report(self) -> Report {
        match self {
            Error::NoSuchTag { tag } => Report::new(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("tag \"{tag}\" does not exist"),
                "leaf.stat_segment shows the tags that you own; leaf_tag_create creates one.",
            ),
            Error::NoTagToDraw { tag } => Report::new(
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("tag \"{tag}\" does not exist"),
                "Check the spelling. If the tag is missing, create it with leaf_tag_create, or, above the values of the columns that draw from it, with leaf_tag_align(create_missing => true).",
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
            Error::Denied { tag, role, privilege: Privilege::Draw } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for tag \"{tag}\""),
                "The owner of the tag can allow it with leaf_tag_grant.",
            )
            .detail(format!(
                "Role \"{role}\" is neither the owner nor a grantee of the tag."
            )),
            Error::Denied { tag, role, privilege: Privilege::Own } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of tag \"{tag}\""),
                "Use the role of the owner, a member of it, or a superuser.",
            )
            .detail(format!(
                "Role \"{role}\" does not have the privileges of the owner."
            )),
            Error::Denied { tag, role, privilege: Privilege::Attach } => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied to add fed tag \"{tag}\""),
                "Grant EXECUTE on leaf_tag_attach to the role.",
            )
            .detail(format!("Role \"{role}\" may not make tags fed.")),
            Error::Refused { tag, why } => why.report(&tag),
            Error::Backwards { tag, granted_up_to } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{tag}\" cannot move backwards"),
                format!(
                    "Choose {} or more, or drop the tag and create it again.",
                    granted_up_to.saturating_add(1)
                ),
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
            Error::Exhausted { tag, left } if left.numbers > 0 => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("tag \"{tag}\" has too few ids left for such a block"),
                "Ask for fewer ids at once, or raise max_value with leaf_tag_alter.",
            )
            .detail(format!("{} ids are left, of which a block can have {}.", left.numbers, left.most_at_once)),
            Error::Exhausted { tag, left } if left.held_back > 0 => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("tag \"{tag}\" has only ids left that are held back"),
                "Raise max_value with leaf_tag_alter; or, if it has handed out none of them, lower leaf.history_skip until the next grant.",
            )
            .detail(format!("{} ids are left, which the server may have handed out before it was promoted, restored or copied.", left.held_back)),
            Error::Exhausted { tag, .. } => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("tag \"{tag}\" has reached its maximum value"),
                "Raise max_value with leaf_tag_alter.",
            ),
            Error::CentreExhausted { tag } => Report::new(
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("the centre's tag that feeds tag \"{tag}\" has reached its maximum value"),
                "Raise its max_value with leaf_tag_alter at the centre, or ask for fewer ids at once.",
            ),
            Error::Unreplicated => Report::not_ready(
"this server feeds no tags, because it has no synchronous standby",
                "Set synchronous_standby_names; or leaf.allow_unreplicated_centre, after whose failover feeding stops until leaf_tag_vouch is called.",
            ),
            Error::FailoverUnknown => Report::not_ready(
"this server feeds no tags, because nothing says whether a failover loses what it has fed",
                "Set leaf.lossless_failover if no standby is promoted that lacks a confirmed commit; or leaf.allow_unreplicated_centre, after whose failover feeding stops until leaf_tag_vouch is called.",
            ),
            Error::MayNotVouch => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "permission denied to vouch for tags",
                "Ask a superuser or the owner of the database. The owner of a tag can move it past all that was fed, with leaf_tag_alter(advance_to => ...).",
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
            .detail(format!("The cause: {}.", cause(denial).trim_end_matches(['.', '?']))),
            Error::OwnChange { tag } => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("no ids for tag \"{tag}\" before this transaction ends"),
                "Commit the change before drawing more ids.",
            )
            .detail(
                "The transaction has changed the tag's row, and the ids in memory are used up.",
            ),
            Error::NotGranted { tag, cause } => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("tag \"{tag}\" cannot feed at the moment"),
                "Remove the cause and try again.",
            )
            .detail(format!("The last attempt failed: {cause}.")),
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
            Error::OtherStripe { tag, stripe } => Report::not_ready(
format!("tag \"{tag}\" already exists with another stripe"),
                "Specify the stripe that this node has.",
            )
            .detail(described(&stripe)),
            Error::StepLongerThanStripe { step, width } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("step {step} is greater than stripe_width {width}"),
                "A segment never crosses the end of a block of stripe_width: choose a smaller step.",
            ),
            Error::FedByItself { tag } => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{tag}\" cannot be fed by itself"),
                "Set leaf.upstream to a connection string of the centre: it leads to this database.",
            ),
            Error::Prepared => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot PREPARE a transaction that has changed leaf.alloc",
                "Change tags in a separate transaction, and commit it without PREPARE TRANSACTION.",
            ),
        }
    }
}

/// What a role may do with a tag.
#[derive(Clone, Copy, Debug)]
pub enum Privilege {
    /// Draw its ids.
    Draw,
    /// Alter, grant and drop it.
    Own,
    /// Make it fed, by writing its row.
    Attach,
}

/// What is left of a tag.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// How many numbers can be granted.
    pub numbers: u64,
    /// How many more there are up to `max_value`, which are skipped in this history.
    pub held_back: u64,
    /// How many a block can have.
    pub most_at_once: u64,
}

/// What has to be different before a tag does what was asked. All have one SQLSTATE.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// The tag is fed, and `leaf.upstream` cannot be used.
    NoUpstream,
    /// The centre does not have the tag that the tag was attached to.
    OtherUpstreamTag,
    /// Where the ids of a fed tag come from cannot be changed.
    FixedUpstream,
    /// A fed tag cannot be moved.
    MovedByCentre,
    /// The tag is fed: it cannot be drawn from by the transaction that has written its row.
    CentreHere,
    /// The tag is fed, so it cannot feed another one.
    IsFed,
    /// The tag's row may lack numbers that shards have got.
    MayLackFeeds,
    /// The tag is no longer the one whose ids were requested.
    OtherIncarnation,
    /// The session has drawn no id of the tag yet.
    NoLast,
    /// An update of a tag's row gives it another name.
    NameIsFixed,
    /// The stripe columns of a tag's row were changed with plain SQL.
    StripeIsFixed,
    /// A fed tag would have a stripe.
    StripeOfCentre,
    /// Other nodes have numbers of the tag, too.
    SharedLine,
    /// Services may have ids of the tag that they have not handed out.
    Reserved,
}

impl Refusal {
    /// Raises the error for a tag.
    pub fn raise(self, tag: &[u8]) -> ! {
        self.report(&display(tag)).raise()
    }

    /// The error for a tag.
    pub fn report(self, tag: &str) -> Report {
        match self {
            Refusal::NoUpstream => Report::not_ready(
format!("no centre for fed tag \"{tag}\""),
                "Set leaf.upstream in the configuration file to a connection string of the centre, and reload.",
            )
            .detail("leaf.upstream is not set, or cannot be used."),
            Refusal::OtherUpstreamTag => Report::not_ready(
format!("the centre does not have the tag that feeds tag \"{tag}\""),
                "Check that leaf.upstream names the right centre. To get ids of another tag, drop the tag, create it and attach it again.",
            )
            .detail("The centre's tag was dropped, or dropped and created again."),
            Refusal::FixedUpstream => Report::not_ready(
format!("cannot change where the ids of tag \"{tag}\" come from"),
                "Use leaf_tag_attach. To make a fed tag local again, drop it and create another one.",
            ),
            Refusal::MovedByCentre => Report::not_ready(
format!("cannot move fed tag \"{tag}\""),
                "Move the centre's tag with leaf_tag_alter there.",
            )
            .detail("Its ids are granted by the centre."),
            Refusal::CentreHere => Report::not_ready(
format!("no ids for fed tag \"{tag}\" in this transaction"),
                "Commit the transaction first.",
            )
            .detail("A transaction that has written the tag's row cannot get ids of the centre."),
            Refusal::IsFed => Report::not_ready(
format!("tag \"{tag}\" is fed itself"),
                "Attach the other tag to the tag of the centre.",
            ),
            Refusal::MayLackFeeds => Report::not_ready(
format!("tag \"{tag}\" may have fed numbers that are not in its row"),
                "Find the highest number that any shard has got (max_id in leaf.alloc there), and move the tag past it with leaf_tag_alter(advance_to => ...); or, if nothing was lost, say so with leaf_tag_vouch.",
            )
            .detail("The server was promoted, restored or copied, or the row was, and nobody has vouched for the tag since."),
            Refusal::OtherIncarnation => Report::not_ready(
format!("tag \"{tag}\" is another one: it was dropped and created again"),
                "Discard its unused ids, and get the new incarnation from leaf_tag_incarnation.",
            ),
            Refusal::NoLast => Report::not_ready(
format!("no id of tag \"{tag}\" was drawn in this session"),
                "Draw one with leaf_segment_next or leaf_segment_batch first, or use INSERT ... RETURNING.",
            ),
            Refusal::NameIsFixed => Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{tag}\" cannot get another name"),
                "Create a tag with the new name and a start above all ids of this one, let the defaults of columns draw from it, and drop this one.",
            ),
            Refusal::StripeIsFixed => Report::not_ready(
format!("the stripe of tag \"{tag}\" cannot be changed"),
                "To get another one, drop the tag and create it above all ids in use.",
            ),
            Refusal::StripeOfCentre => Report::not_ready(
format!("tag \"{tag}\" cannot be fed and have a stripe"),
                "Let the tag of the centre have the stripe; the centre divides its numbers among the tags that it feeds.",
            ),
            Refusal::SharedLine => Report::not_ready(
format!("other nodes have numbers of tag \"{tag}\", too"),
                "Move it with leaf_tag_alter above the numbers of all nodes. To have a sequence in its place, drop the default with ALTER TABLE, and choose numbers that no other node has.",
            )
            .detail("The tag has a stripe of the numbers, or a centre feeds it."),
            Refusal::Reserved => Report::not_ready(
format!("blocks of tag \"{tag}\" were reserved, of which services may still hand out ids"),
                "Take the default away with ALTER TABLE, and choose numbers for the column that the tag does not reach.",
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
