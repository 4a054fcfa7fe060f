//! The triggers of leaf's tables: plain SQL on them means what the functions mean.

mod alloc;
mod worker;
