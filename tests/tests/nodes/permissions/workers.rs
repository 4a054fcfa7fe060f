//! How many worker ids of a centre the role of a shard holds.

use leaf_tests::{Centre, Draw, Snowflake, refused};

#[test]
fn role_holds_only_as_many_worker_ids_as_it_may() {
    let centre = Centre::start();
    centre
        .0
        .connect()
        .run("ALTER ROLE shard SET leaf.max_leases = 2");
    let mut there = centre.0.connect_as("shard", "postgres");
    let register = "SELECT * FROM leaf_worker_register('n')";
    there.run(register);
    there.run(register);
    refused(there.batch_execute(register), "53400");
    there.fails("SET leaf.max_leases = 10", "42501");
    let shard = centre.shard();
    refused(shard.connect().snowflakes(1), "53400");
    // One that is repeated is the same lease.
    centre
        .0
        .connect()
        .run("ALTER ROLE shard SET leaf.max_leases = 3");
    let mut there = centre.0.connect_as("shard", "postgres");
    let again =
        "SELECT * FROM leaf_worker_register('n', nonce => '7c9e6679-7425-40de-944b-e07fc1f90ae7')";
    there.run(again);
    there.run(again);
}
