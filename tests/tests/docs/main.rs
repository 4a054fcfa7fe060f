//! The manual is right: every block of SQL in README.md and docs/ runs on a real server, what
//! the pages promise beside it holds, and the book is whole.
//!
//! - [`blocks`]: runs the blocks of all pages.
//! - [`book`]: looks at the built book in a browser.
//! - [`figures`]: that docs/comparison.md has the figures of the benchmark.
//! - [`glossary`]: that the glossary has the terms of the concepts.
//! - [`guarantees`]: that the tests exist that defend the guarantees of the manual.
//! - [`length`]: that nothing is too long to be read at once.
//! - [`links`]: links of all pages.
//! - [`migration`]: the imports of docs/migration.md.
//! - [`readme`]: that README.md is short, and its badges are true.
//! - [`recipes`]: what docs/recipes.md promises.
//! - [`reference`]: that docs/reference/ has what the extension has.

mod blocks;
mod book;
mod figures;
mod glossary;
mod guarantees;
mod length;
mod links;
mod migration;
mod readme;
mod recipes;
mod reference;
