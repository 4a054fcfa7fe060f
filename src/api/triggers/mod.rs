//! The triggers of leaf's tables: they give plain SQL the same effect as the functions.

mod alloc;
mod worker;
