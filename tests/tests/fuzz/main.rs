//! Random calls of everything leaf has, with arguments that make sense and with
//! others, in transactions that come to nothing, cut off by timeouts, under settings
//! good and bad: no id comes twice, ids ascend, the server stays up, every error has
//! a code of its own, and nothing is left behind.
//!
//! Each test runs for `LEAF_TEST_SECONDS` (10 by default). A case that fails is made
//! smaller and printed with its seed; with `LEAF_FUZZ_SEED` set to that, it is the
//! only one to run. (What several sessions do at once depends on more than the seed.)

mod book;
mod session;
mod sql;
mod steps;
mod tags;
mod values;
mod world;

use book::Book;
use leaf_tests::{runner, test_duration};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{TestCaseError, TestError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread;
use std::time::Duration;
use world::World;

/// The seeds of a test.
fn seeds() -> impl Iterator<Item = u64> {
    leaf_tests::seeds(test_duration().unwrap_or(Duration::from_secs(10)))
}

/// Keeps the book of the last case that has failed, by an error or a panic.
struct Kept<'k> {
    book: Rc<Book>,
    has_passed: bool,
    failed: &'k RefCell<Rc<Book>>,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if !self.has_passed {
            self.failed.replace(self.book.clone());
        }
    }
}

#[test]
fn random_calls_repeat_no_id_and_break_nothing() {
    let world = RefCell::new(None);
    let failed = RefCell::default();
    let ids = Cell::new(0);
    let mut cases = 0;
    for seed in seeds() {
        cases += 1;
        match &mut *world.borrow_mut() {
            Some(world) => World::next(world, seed),
            none => *none = Some(World::of(seed)),
        }
        let result = runner(seed).run(&steps::steps(), |steps| {
            let mut kept = Kept {
                book: Rc::default(),
                has_passed: false,
                failed: &failed,
            };
            let mut world = world.borrow_mut();
            let world = world.as_mut().expect("a world");
            let result = world.play(&steps, &kept.book);
            kept.has_passed = result.is_ok();
            ids.set(ids.get() + kept.book.len());
            result.map_err(TestCaseError::fail)
        });
        if let Err(TestError::Fail(fault, _) | TestError::Abort(fault)) = result {
            let transcript = failed.borrow().transcript();
            panic!("LEAF_FUZZ_SEED={seed}: {fault}\n{transcript}");
        }
    }
    let ids = ids.get();
    println!("{cases} cases, {ids} ids");
    assert!(ids > 0, "nothing was drawn");
}

#[test]
fn random_calls_at_the_same_time_repeat_no_id_and_break_nothing() {
    let mut world: Option<World> = None;
    let (mut cases, mut ids) = (0, 0);
    for seed in seeds() {
        cases += 1;
        match &mut world {
            Some(world) => world.next(seed),
            None => world = Some(World::of(seed)),
        }
        let book = Book::default();
        let world = world.as_mut().expect("a world");
        if let Err(fault) = storm(world, seed, &book) {
            panic!("LEAF_FUZZ_SEED={seed}: {fault}\n{}", book.transcript());
        }
        ids += book.len();
    }
    println!("{cases} cases, {ids} ids");
    assert!(ids > 0, "nothing was drawn");
}

/// All sessions at once, each with statements of its own.
fn storm(world: &mut World, seed: u64, book: &Book) -> Result<(), String> {
    world.begin();
    let mut runner = runner(seed);
    let turns = proptest::collection::vec(steps::turn(), 12);
    let mut sessions = world.sessions(book, false);
    for session in &mut sessions {
        session.begin()?;
    }
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let sessions = sessions.into_iter().map(|mut session| {
            let turns = turns.new_tree(&mut runner).expect("turns").current();
            scope.spawn(move || {
                for (sql, rows) in turns.concat() {
                    session.run(&sql, rows)?;
                }
                session.finish()
            })
        });
        let sessions: Vec<_> = sessions.collect();
        sessions
            .into_iter()
            .map(|session| session.join().expect("no panic"))
            .collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    world.end(book)
}
