//! Models in which `loom` tries every interleaving and every value that a weak
//! memory may show:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p leaf-id-core --release --test loom`
//!
//! Each model is one way to break a promise, cut down to the fewest threads
//! and ids that show it.
#![cfg(loom)]

mod buffer;
mod snowflake;

/// Runs a model through all interleavings with up to three preemptions, which
/// keeps each under a minute; `LOOM_MAX_PREEMPTIONS` asks for more.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}
