//! The clock moves under a running server: no id twice, ids ascend, each policy
//! does what it says, and all goes on once the clock is right again.

use leaf_tests::postgres::{Client, Error};
use leaf_tests::{Draw, Load, Order, Server, Snowflake, refused, wait_until, waiting_callers};
use std::thread;
use std::time::{Duration, Instant};

const POLICIES: [&str; 3] = ["error", "wait", "borrow"];
const HOUR: Duration = Duration::from_secs(3_600);
const SECONDS_10: Duration = Duration::from_secs(10);
const MILLIS_50: Duration = Duration::from_millis(50);
const MILLIS_2: Duration = Duration::from_millis(2);

/// A server with a clock of its own, and a session that has drawn.
struct Scene {
    server: Server,
    client: Client,
    order: Order,
}

impl Scene {
    fn new(policy: &str) -> Scene {
        let server = Server::options()
            .clock()
            .set("leaf.clock_policy", policy)
            .set("leaf.wait_timeout", "1s")
            .start();
        let client = server.connect();
        let mut scene = Scene {
            server,
            client,
            order: Order::new(),
        };
        scene.draw().expect("an id while the clock is right");
        scene
    }

    fn draw(&mut self) -> Result<Vec<i64>, Error> {
        self.order
            .ascending(|| self.client.snowflake().map(|id| vec![id]))
    }

    /// When the last of these ids was created, less what the clock says now.
    fn lead(&mut self, ids: &[i64]) -> i64 {
        let created_at = self.client.parts(ids[ids.len() - 1]).created_at;
        created_at - self.client.clock()
    }

    /// Draws, sets the clock back at once, and draws again. Returns what that gave
    /// and how long all took: so much of the way back the clock has gone itself.
    fn step_back(&mut self, by: Duration) -> (Result<Vec<i64>, Error>, Duration) {
        self.server.clock().right();
        let began = Instant::now();
        self.draw().expect("an id while the clock is right");
        self.server.clock().behind(by);
        let drawn = self.draw();
        (drawn, began.elapsed())
    }

    /// The same, over again until it took less than `limit`: a machine that was
    /// busy with something else has shown nothing.
    fn step_back_within(&mut self, by: Duration, limit: Duration) -> Result<Vec<i64>, Error> {
        let mut result = None;
        wait_until("the machine was quick enough", || {
            let (drawn, took) = self.step_back(by);
            result = Some(drawn);
            took < limit
        });
        result.expect("one attempt at least")
    }

    /// All ways to draw are refused because of the clock.
    fn is_refused(&mut self) {
        refused(self.draw(), "58000");
        refused(self.client.snowflakes(5), "58000");
        refused(self.client.snowflake_rows(5), "58000");
    }

    /// The clock is right, and a session that was refused draws.
    fn is_right_again(&mut self) {
        self.server.clock().right();
        self.draw().expect("an id, the clock being right again");
        self.order
            .ascending(|| self.client.snowflakes(20_000))
            .expect("ids, the clock being right again");
    }
}

#[test]
fn clock_2_ms_behind_is_waited_for_by_every_policy() {
    for policy in POLICIES {
        let mut scene = Scene::new(policy);
        for _ in 0..100 {
            let (drawn, _) = scene.step_back(MILLIS_2);
            let ids = drawn.expect("the tolerance is 5 ms");
            assert!(scene.lead(&ids) <= 0, "{policy} did not wait");
        }
        scene.is_right_again();
    }
}

#[test]
fn clock_50_ms_behind_is_an_error_until_it_has_caught_up() {
    let mut scene = Scene::new("error");
    let drawn = scene.step_back_within(MILLIS_50, Duration::from_millis(40));
    refused(drawn, "58000");
    wait_until("the clock has caught up", || scene.draw().is_ok());
    scene.is_right_again();
}

#[test]
fn clock_50_ms_behind_is_waited_for_if_the_policy_is_to_wait() {
    let mut scene = Scene::new("wait");
    for _ in 0..10 {
        let (drawn, _) = scene.step_back(MILLIS_50);
        let ids = drawn.expect("50 ms are less than the timeout");
        assert!(scene.lead(&ids) <= 0, "it did not wait");
    }
    scene.is_right_again();
}

#[test]
fn clock_50_ms_behind_is_borrowed_from_if_the_policy_is_to_borrow() {
    let mut scene = Scene::new("borrow");
    let drawn = scene.step_back_within(MILLIS_50, Duration::from_millis(40));
    drawn.expect("50 ms are less than leaf.max_clock_lead");
    scene
        .order
        .ascending(|| scene.client.snowflakes(20_000))
        .expect("as many ids as one likes");
    scene.is_right_again();
}

#[test]
fn clock_10_s_behind_is_an_error_at_once() {
    let mut scene = Scene::new("error");
    // Who waited would be served after ten seconds.
    scene.client.run("SET leaf.wait_timeout = '1h'");
    let (drawn, _) = scene.step_back(SECONDS_10);
    refused(drawn, "58000");
    scene.is_refused();
    assert!(scene.client.snowflake_stat::<i64>("rollbacks::bigint") >= Some(1));
    scene.is_right_again();
}

#[test]
fn clock_10_s_behind_is_waited_for_no_longer_than_the_timeout() {
    let mut scene = Scene::new("wait");
    let began = Instant::now();
    let (drawn, _) = scene.step_back(SECONDS_10);
    refused(drawn, "58000");
    assert!(began.elapsed() >= Duration::from_secs(1), "it waited");
    assert!(began.elapsed() < SECONDS_10, "it gave up");
    scene.is_refused();
    scene.is_right_again();
}

#[test]
fn clock_that_is_put_right_ends_the_waits() {
    let mut scene = Scene::new("wait");
    scene.client.run("SET leaf.wait_timeout = '1h'");
    scene.server.clock().behind(HOUR);
    let mut observer = scene.server.connect();
    let clock = scene.server.clock();
    thread::scope(|scope| {
        let session = scope.spawn(|| {
            scene
                .order
                .ascending(|| scene.client.snowflake().map(|id| vec![id]))
        });
        wait_until("the caller waits", || {
            waiting_callers(&mut observer, "leaf_snowflake") == 1
        });
        clock.right();
        wait_until("the caller has its id", || session.is_finished());
        session.join().expect("a session").expect("an id");
    });
    scene.is_right_again();
}

#[test]
fn clock_10_s_behind_is_borrowed_from_if_the_policy_is_to_borrow() {
    let mut scene = Scene::new("borrow");
    let (drawn, _) = scene.step_back(SECONDS_10);
    let ids = drawn.expect("10 s are less than leaf.max_clock_lead");
    let lead = scene.lead(&ids);
    assert!(0 < lead && lead <= 10_000, "{lead} ms");
    let seen: f64 = scene
        .client
        .snowflake_stat("clock_lead_ms::float8")
        .expect("a number");
    assert!(seen > 0.0, "{seen} ms");
    scene
        .order
        .ascending(|| scene.client.snowflakes(20_000))
        .expect("as many ids as one likes");
    scene.is_right_again();
}

#[test]
fn borrowing_ends_at_max_clock_lead() {
    // Each second has two ids, so that borrowing them goes fast.
    let server = Server::options()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .set("leaf.max_clock_lead", "20s")
        .set("leaf.snowflake_layout", "custom:33,10,1,1s")
        .start();
    let mut client = server.connect();
    let order = Order::new();
    let draw = |client: &mut Client| order.ascending(|| client.snowflake().map(|id| vec![id]));
    draw(&mut client).expect("an id while the clock is right");
    server.clock().behind(SECONDS_10);
    let mut borrowed = 0;
    wait_until("there is nothing left to borrow", || {
        let began = Instant::now();
        let ids = draw(&mut client).expect("10 s are less than 20");
        let waited = began.elapsed() > Duration::from_millis(300);
        let lead = client.parts(ids[0]).created_at - client.clock();
        assert!(lead <= 20_000, "{lead} ms");
        borrowed += 1;
        waited
    });
    assert!(borrowed >= 15, "10 s were left to borrow: {borrowed}");
    client.run("SET leaf.max_clock_lead = '5s'");
    refused(draw(&mut client), "58000");
    server.clock().right();
    wait_until("the clock has caught up", || draw(&mut client).is_ok());
}

#[test]
fn clock_an_hour_behind_is_refused_by_every_policy() {
    for policy in POLICIES {
        let mut scene = Scene::new(policy);
        let (drawn, _) = scene.step_back(HOUR);
        refused(drawn, "58000");
        scene.is_refused();
        scene.is_right_again();
    }
}

#[test]
fn clock_an_hour_ahead_and_back_again_is_an_hour_behind() {
    for policy in POLICIES {
        let mut scene = Scene::new(policy);
        scene.server.clock().ahead(HOUR);
        let ids = scene.draw().expect("a jump ahead is nothing to wait for");
        assert!(scene.lead(&ids) <= 0);
        assert_eq!(scene.client.parts(ids[0]).worker_id, 0);
        scene.server.clock().right();
        scene.is_refused();
        scene.server.clock().ahead(HOUR);
        scene.draw().expect("an id where it left off");
    }
}

#[test]
fn clock_that_was_ahead_while_nobody_drew_does_no_harm() {
    for policy in POLICIES {
        let mut scene = Scene::new(policy);
        scene.server.clock().ahead(HOUR);
        let ahead = scene.client.clock();
        scene.server.clock().right();
        assert!(scene.client.clock() < ahead);
        scene.is_right_again();
    }
}

/// Four sessions draw all the time, under every move of the clock. `refused` says
/// for 10 s and an hour whether that is too far behind.
fn under_load(policy: &str, refused: [bool; 2]) {
    let server = Server::options()
        .clock()
        .set("leaf.clock_policy", policy)
        .set("leaf.wait_timeout", "1s")
        .start();
    let clock = server.clock();
    Load::of_snowflakes(&server.config("postgres", "postgres"), 4, |load| {
        let enough = 5_000;
        load.goes_on(enough);
        for _ in 0..20 {
            clock.behind(MILLIS_2);
            load.goes_on(enough);
            clock.right();
            load.goes_on(enough);
        }
        assert_eq!(load.refusals(), 0, "the tolerance is 5 ms");
        for _ in 0..5 {
            clock.behind(MILLIS_50);
            load.goes_on(enough);
            clock.right();
            load.goes_on(enough);
        }
        assert!(load.refusals() == 0 || policy == "error");
        for (by, refused) in [SECONDS_10, HOUR].into_iter().zip(refused) {
            let before = load.refusals();
            clock.behind(by);
            match refused {
                true => load.is_refused(8),
                false => load.goes_on(10 * enough),
            }
            clock.right();
            load.goes_on(enough);
            assert!(refused || load.refusals() == before);
        }
        clock.ahead(HOUR);
        load.goes_on(enough);
        clock.right();
        load.is_refused(8);
        clock.ahead(HOUR);
        load.goes_on(enough);
        assert_eq!(load.lost(), 0);
    });
}

#[test]
fn policy_error_keeps_its_promises_under_load() {
    under_load("error", [true, true]);
}

#[test]
fn policy_wait_keeps_its_promises_under_load() {
    under_load("wait", [true, true]);
}

#[test]
fn policy_borrow_keeps_its_promises_under_load() {
    under_load("borrow", [false, true]);
}
