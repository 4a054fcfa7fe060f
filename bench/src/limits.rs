//! C functions that do the least that is possible.

use leaf_tests::{Draw, Server};

/// Creates the SQL functions `bench_constant(text)`, which returns a constant, and
/// `bench_ascending(text)`, whose results ascend over all sessions, with the same declaration as
/// `leaf_segment_next`.
pub fn create(server: &Server) {
    let library = server.add_module("bench_limits", include_str!("limits.c"));
    for function in ["constant", "ascending"] {
        server.connect().run(&format!(
            "CREATE OR REPLACE FUNCTION bench_{function}(text) RETURNS bigint
             LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS '{}', '{function}'",
            library.display()
        ));
    }
}
