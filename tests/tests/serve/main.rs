//! `leafctl serve`: ids over HTTP, what Meituan Leaf and TinyID answer, tokens, limits, faults,
//! the end of the process, systemd, Kubernetes, TLS, and the page.
//!
//! What it does without a server is tested in `cli/src/serve`.

mod description;
mod faults;
mod ids;
mod kubernetes;
mod limits;
mod manual;
mod meituan;
mod page;
mod process;
mod proxy;
mod systemd;
mod tinyid;
mod tls;
mod tokens;
