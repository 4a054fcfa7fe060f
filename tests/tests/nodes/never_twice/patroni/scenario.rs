//! What happens to a cluster.

use leaf_tests::postgres::{self, Client};
use leaf_tests::{Callers, Cluster, Draw, OF_THE_TEST, Snowflake, refused, wait_until};
use serde_json::json;

/// What happens to a cluster, from a cluster that has all its nodes to one that has them
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The leader's machine loses its power.
    LeaderKilled,
    /// The leader's machine stands still, and wakes when another node leads.
    LeaderFrozen,
    /// The leader does not reach etcd; callers reach the leader.
    LeaderCutOff,
    /// Patroni on the leader stands still; its server goes on beside the next leader.
    PatroniFrozen,
    /// An administrator has another node lead.
    SwitchOver,
    /// No node reaches etcd: the leader becomes a standby.
    EtcdLost,
    /// No node reaches etcd, and in fail-safe mode the leader goes on.
    EtcdLostInFailsafeMode,
    /// The synchronous standby's machine loses its power.
    StandbyKilled,
    /// The synchronous standby's machine stands still.
    StandbyFrozen,
}

const IS_STANDBY: &str = "SELECT pg_is_in_recovery()::int::bigint";

impl Scenario {
    /// Each one once.
    pub const ALL: [Scenario; 9] = [
        Scenario::LeaderKilled,
        Scenario::LeaderFrozen,
        Scenario::LeaderCutOff,
        Scenario::PatroniFrozen,
        Scenario::SwitchOver,
        Scenario::EtcdLost,
        Scenario::EtcdLostInFailsafeMode,
        Scenario::StandbyKilled,
        Scenario::StandbyFrozen,
    ];

    /// Those in which shards lose their centre for a while.
    pub const OF_A_CENTRE: [Scenario; 5] = [
        Scenario::LeaderKilled,
        Scenario::LeaderFrozen,
        Scenario::LeaderCutOff,
        Scenario::SwitchOver,
        Scenario::EtcdLost,
    ];

    /// Lets it happen while callers draw.
    pub fn happen(self, cluster: &mut Cluster, callers: &Callers) {
        let timeline = &callers.timeline;
        let leader = cluster.settles();
        match self {
            Scenario::LeaderKilled => {
                timeline.mark("the leader is killed");
                cluster.nodes[leader].kill();
                cluster.leads_instead_of(leader);
                timeline.mark("another node leads");
                callers.are_served();
                cluster.nodes[leader].start_again();
            }
            Scenario::LeaderFrozen => {
                timeline.mark("the leader stands still");
                cluster.nodes[leader].freeze();
                cluster.leads_instead_of(leader);
                timeline.mark("another node leads");
                callers.are_served();
                timeline.mark("the former leader wakes");
                cluster.nodes[leader].thaw();
            }
            Scenario::LeaderCutOff => {
                timeline.mark("the leader does not reach etcd");
                cluster.nodes[leader].line().cut();
                cluster.leads_instead_of(leader);
                timeline.mark("another node leads");
                callers.are_served();
                timeline.mark("the former leader reaches etcd");
                cluster.nodes[leader].line().mend();
            }
            Scenario::PatroniFrozen => {
                timeline.mark("Patroni on the leader stands still");
                cluster.nodes[leader].freeze_patroni();
                let next = cluster.leads_instead_of(leader);
                wait_until("two servers take writes", || {
                    let takes_writes = |node| cluster.connect(node).number(IS_STANDBY) == 0;
                    takes_writes(leader) && takes_writes(next)
                });
                timeline.mark("another node leads, too");
                draw_until_refused(&mut cluster.connect(leader), callers);
                draw_while_alone(&mut cluster.connect(next), callers);
                timeline.mark("Patroni on the former leader wakes");
                cluster.nodes[leader].thaw();
            }
            Scenario::SwitchOver => {
                timeline.mark("a switchover begins");
                cluster.switch_over();
                timeline.mark("another node leads");
            }
            Scenario::EtcdLost => {
                timeline.mark("etcd is lost");
                cluster.etcd.kill();
                wait_until("no node leads", || cluster.leader().is_none());
                timeline.mark("no node leads");
                cluster.etcd.start_again();
                timeline.mark("etcd is back");
            }
            Scenario::EtcdLostInFailsafeMode => {
                cluster.configure(&json!({"failsafe_mode": true}));
                cluster.knows_failsafe_members();
                timeline.mark("etcd is lost");
                cluster.etcd.kill();
                wait_until("the leader goes on without etcd", || {
                    cluster.is_in_failsafe_mode(leader)
                });
                timeline.mark("the leader goes on without etcd");
                callers.are_served();
                cluster.etcd.start_again();
                timeline.mark("etcd is back");
                wait_until("the leader has etcd again", || {
                    !cluster.is_in_failsafe_mode(leader)
                });
                assert_eq!(cluster.leader(), Some(leader), "another node leads");
                cluster.configure(&json!({"failsafe_mode": false}));
            }
            Scenario::StandbyKilled => {
                let standby = cluster.synchronous_standby().expect("a standby");
                timeline.mark("the synchronous standby is killed");
                cluster.nodes[standby].kill();
                cluster.is_synchronous_instead_of(standby);
                timeline.mark("another standby is synchronous");
                callers.are_served();
                cluster.nodes[standby].start_again();
            }
            Scenario::StandbyFrozen => {
                let standby = cluster.synchronous_standby().expect("a standby");
                timeline.mark("the synchronous standby stands still");
                cluster.nodes[standby].freeze();
                cluster.is_synchronous_instead_of(standby);
                timeline.mark("another standby is synchronous");
                callers.are_served();
                cluster.nodes[standby].thaw();
            }
        }
        cluster.settles();
        timeline.mark("all nodes are there");
        callers.are_served();
    }
}

/// Draws both kinds of ids of a server whose standby confirms nothing any more, until it
/// has none left.
fn draw_until_refused(former: &mut Client, callers: &Callers) {
    wait_until("the former leader has no segment ids", || {
        granted(callers, "orders", former.batch("orders", 100)).is_none()
    });
    wait_until("the former leader has no snowflake ids", || {
        granted(callers, "snowflakes", former.snowflakes(100)).is_none()
    });
    // What a loader has granted that ends while it waits for the standby is not used.
    former.run("SET leaf.wait_timeout = '300ms'");
    for _ in 0..4 {
        wait_until("a loader waits for the standby", || {
            former.number(END_WAITING_LOADER) > 0
        });
        let orders = granted(callers, "orders", former.batch("orders", 100));
        let snowflakes = granted(callers, "snowflakes", former.snowflakes(100));
        assert_eq!((orders, snowflakes), (None, None), "nobody has confirmed");
    }
}

const END_WAITING_LOADER: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
      WHERE backend_type = 'leaf loader' AND wait_event = 'SyncRep'";

/// Draws of the next leader, while the former one still takes writes.
fn draw_while_alone(next: &mut Client, callers: &Callers) {
    for _ in 0..20 {
        wait_until("the next leader has ids", || {
            let ids = granted(callers, "orders", next.batch("orders", 500));
            ids.and_then(|()| granted(callers, "snowflakes", next.snowflakes(500)))
                .is_some()
        });
    }
}

/// Enters ids, unless nobody confirms a grant.
fn granted(
    callers: &Callers,
    kind: &'static str,
    drawn: Result<Vec<i64>, postgres::Error>,
) -> Option<()> {
    match drawn {
        Ok(ids) => {
            callers.answers.enter(kind, OF_THE_TEST, ids);
            Some(())
        }
        Err(error) => {
            refused(Err::<(), _>(error), "55P03");
            None
        }
    }
}
