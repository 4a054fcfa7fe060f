//! How long a shard goes on without its centre.

use leaf_tests::postgres::Client;
use leaf_tests::{Centre, Draw, Ledger, Mode, Server, attach};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What `leaf.segment_duration` is set to.
const DURATION: Duration = Duration::from_secs(2);

/// A caller that draws at a steady rate: this many ids in each of these intervals. What a busy
/// machine has kept it from drawing, it does not draw later: that would be another rate.
const IDS: i32 = 20;
const INTERVAL: Duration = Duration::from_millis(10);

struct Caller {
    client: Client,
    ledger: Ledger,
    next: Instant,
}

impl Caller {
    /// Draws once, when it is time.
    fn draw(&mut self) {
        sleep(self.next.saturating_duration_since(Instant::now()));
        self.next = Instant::now() + INTERVAL;
        self.ledger
            .add(self.client.batch("orders", IDS).expect("ids"));
    }

    fn draw_for(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.draw();
        }
    }

    /// Draws until a query on the tag's statistics is true.
    fn draw_until(&mut self, condition: &str) {
        let query = format!("SELECT ({condition})::int::bigint FROM leaf.stat_segment");
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.client.number(&query) != 1 {
            assert!(Instant::now() < deadline, "drew in vain until {condition}");
            self.draw();
        }
    }
}

#[test]
fn shard_goes_on_for_the_duration_of_a_segment_from_any_moment_of_one() {
    let mut centre = Centre::of(Server::options().set("leaf.max_reserve", "1000000"));
    centre.create("orders", "");
    let shard = centre.shard_with(
        Server::options()
            .set("leaf.segment_duration", "2s")
            .set("leaf.max_step", "1000"),
    );
    attach(&shard, "orders", 10);
    let mut caller = Caller {
        client: shard.connect(),
        ledger: Ledger::new(),
        next: Instant::now(),
    };
    let settled = "step * 0.9 >= 2 * ids_per_second AND loads > 3";
    // Just before the next segment is fetched; once it is there; in the middle of one.
    for moment in [
        "next_left = 0",
        "next_left > 0 AND current_left > step / 2",
        "next_left > 0 AND current_left < step / 2",
    ] {
        caller.draw_until(settled);
        caller.draw_until(&format!("{settled} AND {moment}"));
        let waits = caller.client.stat("orders", "waits + timeouts");
        let left = caller
            .client
            .number("SELECT extract(epoch FROM time_left)::bigint FROM leaf.stat_segment");
        centre.0.stop(Mode::Immediate);
        caller.draw_for(DURATION);
        let waited = caller.client.stat("orders", "waits + timeouts") - waits;
        assert_eq!(waited, 0, "{moment}");
        // As the view had said.
        assert!(left >= 1, "{moment}: {left} s");
        centre.0.start_again();
    }
}
