//! What may happen to servers, at random: copies of stopped and of running servers, promotions of
//! standbys that have everything and of others, former primaries that come back, backups, archives,
//! dumps, subscribers, files that are lost or older, and all that changes a tag meanwhile. Every
//! number and snowflake id that is handed out is kept, and [`oracle`] says, by the rules of the
//! manual, which must not come twice.
//!
//! The test runs for twice `LEAF_TEST_SECONDS` (some seconds by default). A walk that fails is made shorter and
//! printed with its seed; with `LEAF_FUZZ_SEED` set to that, it is the only one to run.

mod oracle;
mod places;
mod restoring;
mod steps;
mod world;

use leaf_tests::{runner, seeds, test_duration};
use proptest::test_runner::{TestCaseError, TestError};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use world::World;

#[test]
fn servers_that_are_copied_promoted_and_restored_repeat_no_id_in_silence() {
    let (walks, ids) = (Cell::new(0), Cell::new(0));
    let limit = test_duration().map_or(Duration::from_secs(5), |it| it * 2);
    for seed in seeds(limit) {
        walks.set(walks.get() + 1);
        let failed = RefCell::default();
        let result = runner(seed).run(&steps::walk(), |walk| {
            let mut world = World::begin(&walk);
            let played = catch_unwind(AssertUnwindSafe(|| world.play(&walk.steps)));
            ids.set(ids.get() + world.handed_out());
            let fault = match played {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(fault)) => fault,
                Err(_) => "a panic".to_owned(),
            };
            failed.replace(world.transcript());
            Err(TestCaseError::fail(fault))
        });
        if let Err(TestError::Fail(fault, _) | TestError::Abort(fault)) = result {
            panic!("LEAF_FUZZ_SEED={seed}: {fault}\n{}", failed.take());
        }
    }
    let (walks, ids) = (walks.get(), ids.get());
    println!("{walks} walks, {ids} ids");
    assert!(ids > 0, "nothing was handed out");
}
