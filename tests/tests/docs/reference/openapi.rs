//! docs/reference/openapi.json is what `leafctl serve` answers at `/openapi.json`.

use leaf_tests::{Serve, Server};

use super::written;

#[test]
fn description_of_the_addresses_is_that_of_the_server() {
    let server = Server::start();
    let serve = Serve::start(&server, &[]);
    written::is(
        "docs/reference/openapi.json",
        &serve.get("/openapi.json").body,
    );
}
