//! The client library: ids from process memory compared with an atomic counter, and
//! calls to the server compared with the driver's own.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leaf_sdk::{Config, IdSource, Leaf, SegmentSource};
use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use super::Line;
use crate::bench::{Bench, TAG};
use crate::compare::in_turn;
use crate::latency::summary_of;
use crate::report::{Bound, Report, Unit};

const SDK_TAG: &str = "sdk";

/// `SegmentSource::next` on 1, 2 and 8 threads.
pub fn buffered_against_fetch_add(bench: &mut Bench, report: &mut Report) {
    let works = [
        (
            1,
            "client library, ids in process, 1 thread",
            Bound::AtLeast(0.9),
        ),
        (
            2,
            "client library, ids in process, 2 threads",
            Bound::AtLeast(0.9),
        ),
        (8, "client library, ids in process, 8 threads", Bound::None),
    ];
    create_tag(bench);
    for (threads, work, bound) in works {
        let draws = bench.runs.size(40_000_000, 2_000_000) / threads as u64;
        let comparison = in_turn(
            bench.runs.repetitions,
            || {
                let source = filled(bench, threads as u64 * draws);
                per_second(threads, draws, || {
                    black_box(source.next().expect("a buffered id"));
                })
            },
            || {
                let counter = AtomicU64::new(0);
                per_second(threads, draws, || {
                    black_box(counter.fetch_add(1, Ordering::AcqRel));
                })
            },
        );
        let line = Line {
            work,
            against: "`AtomicU64::fetch_add`",
            bound,
        };
        line.report(report, Unit::PerSecond, &comparison);
    }
}

/// Against what a user would write instead: a buffer over `nextval` of a sequence with
/// `INCREMENT BY 1000`.
pub fn against_a_buffer_over_nextval(bench: &mut Bench, report: &mut Report) {
    create_tag(bench);
    let mut client = bench.server.connect();
    client.run("CREATE SEQUENCE IF NOT EXISTS s_blocks INCREMENT BY 1000");
    let config = Config::new(&bench.server.connection_string()).expect("a connection string");
    let leaf = Leaf::new(config).expect("a handle");
    let source = leaf.segment(SDK_TAG);
    let rival = Mutex::new(Rival {
        client,
        next: 0,
        end: 0,
    });
    for threads in [1, 2] {
        let draws = bench.runs.size(10_000_000, 500_000) / threads as u64;
        let comparison = in_turn(
            bench.runs.repetitions,
            || {
                per_second(threads, draws, || {
                    black_box(source.next().expect("an id"));
                })
            },
            || {
                per_second(threads, draws, || {
                    black_box(rival.lock().expect("no panic").next());
                })
            },
        );
        let line = Line {
            work: match threads {
                1 => "client library with its defaults, 1 thread",
                _ => "client library with its defaults, 2 threads",
            },
            against: "a buffer over `nextval` of a sequence with `INCREMENT BY 1000`",
            bound: Bound::None,
        };
        line.report(report, Unit::PerSecond, &comparison);
    }
    leaf.close().expect("the server answers");
}

/// Ids of a sequence with `INCREMENT BY 1000`: each value stands for itself and the 999 after it.
struct Rival {
    client: Client,
    next: i64,
    end: i64,
}

impl Rival {
    fn next(&mut self) -> i64 {
        if self.next == self.end {
            self.next = self.client.number("SELECT nextval('s_blocks')");
            self.end = self.next + 1_000;
        }
        self.next += 1;
        self.next - 1
    }
}

/// The duration of one call while buffers of 100,000 ids are refilled in the
/// background.
pub fn latency_while_refilling(bench: &mut Bench, report: &mut Report) {
    create_tag(bench);
    let leaf = leaf(bench, 100_000, 100_000);
    let source = leaf.segment(SDK_TAG);
    source.next().expect("an id");
    let refills = leaf.stats()[SDK_TAG].refills;
    let end = Instant::now() + bench.runs.duration(5);
    let mut latencies = Vec::with_capacity(1 << 22);
    while Instant::now() < end && latencies.len() < latencies.capacity() {
        let start = Instant::now();
        black_box(source.next().expect("an id"));
        latencies.push(start.elapsed());
        // About a million per second, which needs a refill every 0.1 s.
        while start.elapsed() < Duration::from_nanos(800) {
            std::hint::spin_loop();
        }
    }
    let stats = &leaf.stats()[SDK_TAG];
    report.fact(
        "client library: refills, and waits for them, at 1 M/s",
        format!("{}, {}", stats.refills - refills, stats.waits),
    );
    let name = "client library, ids in process, 1 M/s";
    report.latency(name, &summary_of(latencies, bench.runs.duration(5)));
    leaf.close().expect("the server answers");
}

/// One statement per call, through the library and through the driver alone.
pub fn calls_against_the_driver(bench: &mut Bench, report: &mut Report) {
    let count = bench.runs.size(50_000, 2_000);
    let rate = |call: &dyn Fn(&mut leaf_tests::postgres::Client)| {
        let mut client = bench.server.connect();
        let start = Instant::now();
        for _ in 0..count {
            call(&mut client);
        }
        count as f64 / start.elapsed().as_secs_f64()
    };
    let comparison = in_turn(
        bench.runs.repetitions,
        || {
            rate(&|client| {
                black_box(leaf_sdk::sync::segment_next(client, TAG).expect("an id"));
            })
        },
        || {
            rate(&|client| {
                let rows = client.query_typed("SELECT nextval('s')", &[]);
                black_box(rows.expect("a row")[0].get::<_, i64>(0));
            })
        },
    );
    let line = Line {
        work: "client library, one call to the server per id, 1 session",
        against: "the driver's `SELECT nextval`",
        bound: Bound::None,
    };
    line.report(report, Unit::PerSecond, &comparison);
}

fn create_tag(bench: &Bench) {
    bench.server.connect().run(&format!(
        "SELECT leaf_tag_create('{SDK_TAG}')
          WHERE NOT EXISTS (SELECT FROM leaf.alloc WHERE biz_tag = '{SDK_TAG}')"
    ));
}

fn leaf(bench: &Bench, min: u64, max: u64) -> Leaf {
    let config = Config::new(&bench.server.connection_string()).expect("a connection string");
    Leaf::new(config.steps(min, max)).expect("a handle")
}

/// A source that has more than `ids` ids in memory.
fn filled(bench: &Bench, ids: u64) -> SegmentSource {
    let leaf = leaf(bench, 2 * ids, 2 * ids);
    let source = leaf.segment(SDK_TAG);
    source.next().expect("an id");
    source
}

/// How often per second all threads together run `work`.
fn per_second(threads: usize, count: u64, work: impl Fn() + Sync) -> f64 {
    let ready = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    ready.wait();
                    for _ in 0..count {
                        work();
                    }
                })
            })
            .collect();
        // Before: the threads may be done when this one goes on.
        let start = Instant::now();
        ready.wait();
        for thread in running {
            thread.join().expect("no panic");
        }
        (threads as u64 * count) as f64 / start.elapsed().as_secs_f64()
    })
}
