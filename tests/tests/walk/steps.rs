//! What may happen next. Servers and places are named by numbers, of which the world takes the
//! remainder, so that a walk still means something when steps are left out of it.

use leaf_tests::Mode;
use proptest::prelude::*;
use proptest::sample::select;

/// What happens to some servers, one thing after the other.
#[derive(Clone, Debug)]
pub struct Walk {
    /// `leaf.history_skip`: nothing but what is confirmed protects, or the skip is never exceeded.
    pub history_skip: i64,
    /// `leaf.lossless_failover`, which is turned off on a standby that lacks something, or whose
    /// primary goes on, before it is promoted.
    pub is_lossless: bool,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// A database hands something out.
    Use(usize, Use),
    /// Something about its tag is changed.
    Touch(usize, Touch),
    /// A server is copied.
    Copy(usize, Copy),
    /// A dump of a database is restored, in a server.
    Dump(usize, usize, Dump),
    /// The synchronous standby of a server is one of its followers, or none.
    Sync(usize, Option<usize>),
    /// A follower gets nothing more.
    Cut(usize),
    /// A follower goes its own way; its primary is killed before, or goes on.
    Promote(usize, bool),
    /// A server is stopped and comes back as a standby, which is promoted.
    Return(usize),
    /// A server whose follower was promoted follows that one.
    Rejoin(usize),
    /// A follower whose primary's other follower was promoted follows that one.
    Follow(usize),
    Restart(usize, Mode, Files),
}

#[derive(Clone, Copy, Debug)]
pub enum Use {
    Draw(i32),
    Block(i64),
    Feed(i64),
    Flakes(i32),
    Lease,
}

#[derive(Clone, Copy, Debug)]
pub enum Touch {
    /// By one of leaf's functions, or by plain SQL, without moving the tag.
    Row(&'static str),
    /// After a row with an id that lies so far above the tag.
    Align(i64),
    /// Its owner says where the tag stands: above all.
    Advance,
    /// Somebody says that nothing is missing, where that is so.
    Vouch,
}

#[derive(Clone, Copy, Debug)]
pub enum Copy {
    /// Of a server that was stopped; whether it is told that it is a copy.
    Cold(bool),
    /// Of a running server.
    Hot(bool),
    Standby,
    Subscriber,
    Backup(Restored),
}

/// How a base backup is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    Plain,
    /// With all that is in the archive.
    Archive,
    /// The same as a standby, which is promoted.
    ArchiveAsStandby,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    Plain,
    Custom,
    /// Schema and data apart.
    Apart,
    ApartDisablingTriggers,
}

/// What becomes of leaf's files while a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    Kept,
    /// Those of an earlier stop.
    Older,
    Removed(&'static str),
}

/// Names what was made last.
pub const LATEST: usize = 12;

fn usage() -> impl Strategy<Value = Use> {
    prop_oneof![
        4 => (1..150).prop_map(Use::Draw),
        1 => (1..150i64).prop_map(Use::Block),
        5 => (1..12i64).prop_map(Use::Feed),
        3 => (1..300).prop_map(Use::Flakes),
        1 => Just(Use::Lease),
    ]
}

fn touch() -> impl Strategy<Value = Touch> {
    let row = vec![
        "SELECT leaf_tag_grant('orders', 'somebody')",
        "SELECT leaf_tag_alter('orders', description => 'of the shop')",
        "UPDATE leaf.alloc SET update_time = now()",
        "SET session_replication_role = replica; UPDATE leaf.alloc SET update_time = now()",
        "VACUUM FULL leaf.alloc",
    ];
    prop_oneof![
        5 => select(row).prop_map(Touch::Row),
        4 => (0..150i64).prop_map(Touch::Align),
        1 => Just(Touch::Advance),
        1 => Just(Touch::Vouch),
    ]
}

fn copy() -> impl Strategy<Value = Copy> {
    let restored = vec![
        Restored::Plain,
        Restored::Archive,
        Restored::ArchiveAsStandby,
    ];
    prop_oneof![
        3 => prop::bool::weighted(0.8).prop_map(Copy::Cold),
        1 => prop::bool::weighted(0.8).prop_map(Copy::Hot),
        5 => Just(Copy::Standby),
        2 => Just(Copy::Subscriber),
        2 => select(restored).prop_map(Copy::Backup),
    ]
}

fn dump() -> impl Strategy<Value = Dump> {
    select(vec![
        Dump::Plain,
        Dump::Custom,
        Dump::Apart,
        Dump::ApartDisablingTriggers,
        Dump::ApartDisablingTriggers,
    ])
}

fn files() -> impl Strategy<Value = Files> {
    prop_oneof![
        3 => Just(Files::Kept),
        1 => Just(Files::Older),
        2 => select(vec!["leaf/history", "leaf", "pg_stat_tmp/leaf.ranges"]).prop_map(Files::Removed),
    ]
}

fn server() -> impl Strategy<Value = usize> {
    0..LATEST
}

fn step() -> BoxedStrategy<Step> {
    let modes = select(vec![Mode::Fast, Mode::Immediate]);
    prop_oneof![
        12 => (server(), usage()).prop_map(|(of, what)| Step::Use(of, what)),
        3 => (server(), touch()).prop_map(|(of, what)| Step::Touch(of, what)),
        3 => (server(), copy()).prop_map(|(of, what)| Step::Copy(of, what)),
        2 => (server(), server(), dump()).prop_map(|(of, to, how)| Step::Dump(of, to, how)),
        2 => (server(), prop::option::weighted(0.7, server())).prop_map(|(of, name)| Step::Sync(of, name)),
        1 => server().prop_map(Step::Cut),
        2 => (server(), any::<bool>()).prop_map(|(of, kill)| Step::Promote(of, kill)),
        1 => server().prop_map(Step::Return),
        1 => server().prop_map(Step::Rejoin),
        1 => server().prop_map(Step::Follow),
        2 => (server(), modes, files()).prop_map(|(of, mode, files)| Step::Restart(of, mode, files)),
    ]
    .boxed()
}

/// A follower misses what its primary hands out, maybe confirmed by another one, and goes its own
/// way.
fn lossy_promotion() -> impl Strategy<Value = Vec<Step>> {
    let begun = select(vec![None, Some(Copy::Standby), Some(Copy::Subscriber)]);
    let sync = prop_oneof![
        2 => Just(None),
        1 => Just(Some(None)),
        1 => server().prop_map(|name| Some(Some(name))),
    ];
    let uses = (
        prop::collection::vec(usage(), 0..3),
        prop::collection::vec(usage(), 1..4),
    );
    let servers = (server(), server(), any::<bool>());
    let confirming = prop::option::weighted(0.4, synchronous_standby());
    let parts = (servers, confirming, begun, sync, uses);
    parts.prop_map(
        |((primary, follower, kill), confirming, begun, sync, (had, missed))| {
            let follower = begun.map_or(follower, |_| LATEST);
            let begun = begun.map(|copy| Step::Copy(primary, copy));
            let sync = sync.map(|name| Step::Sync(primary, name));
            let used = |what| Step::Use(primary, what);
            let confirming = confirming.into_iter().flatten();
            confirming
                .chain(begun)
                .chain(had.into_iter().map(used))
                .chain([Step::Cut(follower)])
                .chain(sync)
                .chain(missed.into_iter().map(used))
                .chain([Step::Promote(follower, kill)])
                .collect()
        },
    )
}

/// Two followers miss something; one is promoted, the other one follows it, and is promoted next.
fn promotions_in_a_row() -> impl Strategy<Value = Vec<Step>> {
    let uses = |some| prop::collection::vec(usage(), some);
    let parts = (server(), uses(1..3), uses(1..4), uses(0..2));
    parts.prop_map(|(of, had, missed, between)| {
        let used = |uses: Vec<Use>| uses.into_iter().map(move |what| Step::Use(of, what));
        let standby = Step::Copy(of, Copy::Standby);
        [standby.clone(), standby]
            .into_iter()
            .chain(used(had))
            .chain([Step::Cut(0), Step::Cut(LATEST)])
            .chain(used(missed))
            .chain([Step::Promote(LATEST, true), Step::Follow(0)])
            .chain(between.into_iter().map(|what| Step::Use(LATEST, what)))
            .chain([Step::Promote(0, true)])
            .collect()
    })
}

/// A standby by which its primary's commits are confirmed from then on.
fn synchronous_standby() -> impl Strategy<Value = Vec<Step>> {
    server().prop_map(|of| vec![Step::Copy(of, Copy::Standby), Step::Sync(of, Some(LATEST))])
}

/// What was restored is changed before it hands anything out.
fn touched_dump() -> impl Strategy<Value = Vec<Step>> {
    (server(), dump(), touch())
        .prop_map(|(of, how, what)| vec![Step::Dump(of, of, how), Step::Touch(LATEST, what)])
}

pub fn walk() -> impl Strategy<Value = Walk> {
    let turn = prop_oneof![
        10 => step().prop_map(|step| vec![step]),
        2 => lossy_promotion(),
        1 => synchronous_standby(),
        1 => touched_dump(),
        1 => promotions_in_a_row(),
    ];
    let turns = prop::collection::vec(turn, 3..14);
    (select(vec![0, 10, 1_000]), any::<bool>(), turns).prop_map(
        |(history_skip, is_lossless, turns)| Walk {
            history_skip,
            is_lossless,
            steps: turns.concat(),
        },
    )
}
