//! What a shared line costs on this machine: the counter of a tag is one, unless the tag has a cache.
//!
//! Threads that each do some work of their own and then one `fetch_add`, on a line that all share,
//! against the same on a line of each thread's own. A session does about 100 ns of work around an
//! id that a statement draws for one of many rows, and some microseconds around one of its own.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Works;
use crate::compare::in_turn;
use crate::report::{Bound, Report, Texts, Unit};
use crate::runs::Runs;

/// What the report says around its tables.
pub const TEXTS: Texts = Texts {
    head: "# What a shared counter costs\n\nWritten by `make bench-cores`. Each ratio is what threads do with a \
        counter that they share, divided by what they do with a counter each: the median of all pairs of runs, \
        with the lowest and the highest.",
    sides: ["shared", "of its own"],
    titles: [
        "A counter for all threads",
        "",
        "From how many threads it limits",
    ],
};

/// Nanoseconds of own work around each `fetch_add`.
const WORK: [u64; 4] = [0, 50, 100, 1_000];

/// From here on, the shared line takes more than a tenth of what the threads could do.
const LIMITS: f64 = 0.9;

/// How long one side is measured.
const DURATION: Duration = Duration::from_millis(500);

/// The workloads and their names.
pub const WORKS: &Works<Runs> = &[("shared counter", shared_counter)];

/// A counter in a line of its own, and in that which hardware fetches with it.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicU64);

fn shared_counter(runs: &mut Runs, report: &mut Report) {
    let per_ns = loops_per_ns();
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    for work in WORK {
        let loops = (work as f64 * per_ns) as u64;
        let mut limits_from = None;
        for threads in counts(cores) {
            let comparison = in_turn(
                runs.repetitions,
                || per_second(threads, loops, true),
                || per_second(threads, loops, false),
            );
            if threads > 1 && comparison.ratio.median < LIMITS {
                limits_from.get_or_insert(threads);
            }
            report.compared(
                &format!("{} and {work} ns of other work", counted(threads)),
                "a counter for each thread",
                Unit::PerSecond,
                &comparison,
                Bound::None,
            );
        }
        let verdict = match limits_from {
            Some(threads) => format!("{threads} threads"),
            None => format!("not with the {cores} cores of this machine"),
        };
        report.fact(
            &format!("the shared counter takes more than a tenth, with {work} ns of other work"),
            verdict,
        );
    }
}

fn counted(threads: usize) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads"),
    }
}

/// 1, 2, 4 and so on, and all cores.
fn counts(cores: usize) -> Vec<usize> {
    let mut counts: Vec<_> = (0..).map(|n| 1 << n).take_while(|&n| n < cores).collect();
    counts.push(cores);
    counts
}

/// How many times a second the threads together do their work and count.
fn per_second(threads: usize, loops: u64, is_shared: bool) -> f64 {
    let counters: Vec<Counter> = (0..threads).map(|_| Counter::default()).collect();
    let (begin, done) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let took = thread::scope(|scope| {
        for number in 0..threads {
            let counter = &counters[if is_shared { 0 } else { number }].0;
            let (begin, done) = (&begin, &done);
            scope.spawn(move || {
                begin.wait();
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        work(loops);
                        counter.fetch_add(1, Ordering::AcqRel);
                    }
                }
            });
        }
        begin.wait();
        let start = Instant::now();
        thread::sleep(DURATION);
        done.store(true, Ordering::Relaxed);
        start.elapsed()
    });
    let counted = counters.iter().map(|it| it.0.load(Ordering::Relaxed));
    counted.sum::<u64>() as f64 / took.as_secs_f64()
}

/// Work of a thread's own, of so many steps that each need the one before.
fn work(loops: u64) {
    let mut value = loops;
    for _ in 0..loops {
        value = black_box(value.wrapping_mul(3));
    }
}

/// How many loops of [`work`] this machine does in a nanosecond, in calls as short as those that are
/// measured.
fn loops_per_ns() -> f64 {
    const CALLS: u64 = 200_000;
    const LOOPS: u64 = 100;
    let fastest = (0..5).map(|_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| work(black_box(LOOPS)));
        start.elapsed()
    });
    let fastest = fastest.min().unwrap_or_default();
    (CALLS * LOOPS) as f64 / fastest.as_nanos().max(1) as f64
}
