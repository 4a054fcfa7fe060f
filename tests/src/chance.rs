//! Cases that are made by chance, from a seed that is printed and makes the same case again.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::time::{Duration, Instant, SystemTime};

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
    )
}

/// How long a test that makes cases by chance goes on, if `LEAF_TEST_SECONDS` says so.
pub fn test_duration() -> Option<Duration> {
    number("LEAF_TEST_SECONDS").map(Duration::from_secs)
}

/// The seeds of this run, until its time is over; only `LEAF_FUZZ_SEED` if it is set.
pub fn seeds(limit: Duration) -> impl Iterator<Item = u64> {
    let only = number("LEAF_FUZZ_SEED");
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = only.unwrap_or(since_1970.expect("a clock").as_millis() as u64);
    let began = Instant::now();
    let more = move |&seed: &u64| match only {
        Some(only) => seed == only,
        None => began.elapsed() < limit,
    };
    (first..).take_while(more)
}

/// Makes the case of a seed, and smaller ones if it fails.
pub fn runner(seed: u64) -> TestRunner {
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 400,
        max_shrink_time: 90_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
