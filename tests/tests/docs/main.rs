//! The manual is right: every block of SQL in README.md and docs/ runs on a real server, and
//! what the pages promise beside it holds.
//!
//! - [`blocks`]: runs the blocks of all pages.
//! - [`migration`]: the imports of docs/migration.md.
//! - [`recipes`]: what docs/recipes.md promises.

mod blocks;
mod migration;
mod recipes;
