//! Shared memory that one tag takes.

use leaf_tests::{Draw, Mode, Server};

use crate::bench::Bench;
use crate::report::Report;

const FEW: i64 = 1_000;
const MANY: i64 = 11_000;
const MOST: i64 = 100_000;

/// Measures two values of `leaf.max_tags`; the difference shows the memory per tag.
pub fn per_tag(bench: &mut Bench, report: &mut Report) {
    let few = allocated(&mut bench.server, FEW);
    let many = allocated(&mut bench.server, MANY);
    let per_tag = (many - few) as f64 / (MANY - FEW) as f64;
    report.fact("shared memory per tag", format!("{per_tag:.0} bytes"));
    for max_tags in [FEW, MOST] {
        let size = allocated(&mut bench.server, max_tags) as f64 / 1024.0;
        report.fact(
            &format!("shared memory at leaf.max_tags = {max_tags}"),
            format!("{size:.0} kB"),
        );
    }
}

/// Bytes of shared memory that leaf has allocated.
fn allocated(server: &mut Server, max_tags: i64) -> i64 {
    server.configure(&format!("leaf.max_tags = {max_tags}\n"));
    server.restart(Mode::Fast);
    server.connect().number(
        "SELECT sum(allocated_size)::bigint FROM pg_shmem_allocations WHERE name ILIKE 'leaf%'",
    )
}
