//! Sessions that draw all the time while a test breaks something.

use crate::{Ledger, Order, Snowflake, Stop, refused, wait_until};
use postgres::{Client, Config, NoTls};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What the sessions have drawn so far.
pub struct Load {
    ledger: Mutex<Ledger>,
    refusals: AtomicUsize,
    lost: AtomicUsize,
    done: AtomicBool,
}

impl Load {
    /// Draws in `sessions` sessions while `then` runs; no id may come twice. `draw`
    /// is told the number of its call, to do now this, now that. A refusal with the
    /// SQLSTATE `bearable` is counted, any other fails the test. A session whose
    /// server goes away connects again.
    pub fn run(
        config: &Config,
        sessions: usize,
        bearable: &str,
        draw: impl Fn(&mut Client, usize) -> Result<Vec<i64>, postgres::Error> + Sync,
        then: impl FnOnce(&Load),
    ) {
        let load = Load {
            ledger: Mutex::new(Ledger::new()),
            refusals: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            done: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let _stop = Stop(&load.done);
            for session in 0..sessions {
                let (load, draw) = (&load, &draw);
                scope.spawn(move || load.session(config, session, bearable, draw));
            }
            then(&load);
        });
    }

    /// Draws snowflake ids, one at a time and many; they must ascend over all
    /// sessions, and refusals because of the clock are borne.
    pub fn of_snowflakes(config: &Config, sessions: usize, then: impl FnOnce(&Load)) {
        let order = Order::new();
        let draw = |client: &mut Client, call: usize| {
            order.ascending(|| match call % 3 {
                0 => client.snowflake().map(|id| vec![id]),
                1 => client.snowflakes(1 + (call as i32 * 53) % 700),
                _ => client.snowflake_rows(20),
            })
        };
        Load::run(config, sessions, "58000", draw, then);
    }

    fn session(
        &self,
        config: &Config,
        session: usize,
        bearable: &str,
        draw: &impl Fn(&mut Client, usize) -> Result<Vec<i64>, postgres::Error>,
    ) {
        // A session ends early only by failing; then all shall end.
        let _stop = Stop(&self.done);
        while !self.done.load(Ordering::Relaxed) {
            let Ok(mut client) = config.connect(NoTls) else {
                thread::yield_now();
                continue;
            };
            for call in session.. {
                match draw(&mut client, call) {
                    Ok(ids) => self.ledger.lock().expect("no panic").add(ids),
                    Err(error) => {
                        let code = error.code().map_or("", |code| code.code()).to_owned();
                        // A lost connection, or the server's farewell.
                        if code.is_empty() || code.starts_with("57P") {
                            self.lost.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        refused(Err::<(), _>(error), bearable);
                        self.refusals.fetch_add(1, Ordering::Relaxed);
                    }
                }
                if self.done.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    }

    fn wait_for(&self, what: &str, mut condition: impl FnMut() -> bool) {
        wait_until(what, || {
            assert!(!self.done.load(Ordering::Relaxed), "a session has failed");
            condition()
        });
    }

    fn drawn(&self) -> usize {
        self.ledger.lock().expect("no panic").len()
    }

    /// Waits until the sessions have drawn so many more ids.
    pub fn goes_on(&self, ids: usize) {
        let enough = self.drawn() + ids;
        self.wait_for("the sessions draw", || self.drawn() >= enough);
    }

    /// How many calls were refused.
    pub fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Waits until so many more calls are refused.
    pub fn is_refused(&self, calls: usize) {
        let enough = self.refusals() + calls;
        self.wait_for("calls are refused", || self.refusals() >= enough);
    }

    /// Waits until so many more calls are refused, but not longer than that; whether they were.
    pub fn is_refused_within(&self, calls: usize, limit: Duration) -> bool {
        let (enough, deadline) = (self.refusals() + calls, Instant::now() + limit);
        self.wait_for("calls are refused", || {
            self.refusals() >= enough || Instant::now() >= deadline
        });
        self.refusals() >= enough
    }

    /// How often a session has lost its server.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}
