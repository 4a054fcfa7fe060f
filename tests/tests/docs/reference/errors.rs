//! docs/reference/errors.md, whose tables `make reference` writes from the sources.

use leaf_tests::page::Part;
use leaf_tests::{Draw, Server};

const PAGE: &str = "docs/reference/errors.md";

#[test]
fn each_condition_has_its_sqlstate() {
    let server = Server::options().bare().start();
    let mut client = server.connect();
    for part in Part::of(PAGE, 2) {
        let Some((sqlstate, condition)) = part.title.split_once(' ') else {
            continue;
        };
        if !condition.contains('_') {
            continue;
        }
        client.run(&format!(
            "DO $$ BEGIN RAISE {condition}; EXCEPTION WHEN OTHERS THEN ASSERT SQLSTATE = '{sqlstate}', SQLSTATE; END $$"
        ));
    }
}
