//! What an id in process costs, without a server: the double buffer beneath
//! `SegmentSource::next` and the generator beneath `SnowflakeGenerator::next`,
//! against a bare atomic counter. The whole library is measured by `make bench`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use leaf_core::DoubleBuffer;

/// How long `threads` threads take for `count` calls each.
fn in_threads(threads: u64, count: u64, call: impl Fn() + Sync) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..count).for_each(|_| call()));
        }
    });
    start.elapsed()
}

fn next(criterion: &mut Criterion) {
    for threads in [1, 2, 8] {
        let mut group = criterion.benchmark_group(format!("{threads} threads"));
        group.bench_function("fetch_add", |bencher| {
            let counter = AtomicU64::new(0);
            bencher.iter_custom(|count| {
                in_threads(threads, count, || {
                    black_box(counter.fetch_add(1, Ordering::AcqRel));
                })
            });
        });
        group.bench_function("segment", |bencher| {
            let buffer = DoubleBuffer::new();
            let published = buffer.publish(1, i64::MAX as u64 / 2, u64::MAX);
            published.expect("an empty buffer has room");
            bencher.iter_custom(|count| {
                in_threads(threads, count, || {
                    black_box(buffer.draw());
                })
            });
        });
        group.finish();
    }
}

criterion_group!(benches, next);
criterion_main!(benches);
