//! A C function that returns a constant.

use leaf_tests::{Draw, Server};

/// Creates the SQL function `bench_constant(text)`, with the same declaration as
/// `leaf_segment_next`.
pub fn create(server: &Server) {
    let library = server.add_module("bench_constant", include_str!("constant.c"));
    server.connect().run(&format!(
        "CREATE FUNCTION bench_constant(text) RETURNS bigint
         LANGUAGE c VOLATILE STRICT PARALLEL SAFE AS '{}', 'constant'",
        library.display()
    ));
}
