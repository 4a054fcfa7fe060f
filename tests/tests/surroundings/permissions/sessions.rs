//! Sessions that are lent to one role after the other.

use leaf_tests::{Draw, Server};

/// A pooler lends the session to one after the other.
#[test]
fn block_of_another_role_of_the_session_cannot_be_returned() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE ROLE a; CREATE ROLE b; SELECT leaf_tag_create('orders');
         SELECT leaf_tag_grant('orders', 'a'); SELECT leaf_tag_grant('orders', 'b')",
    );
    client.run("SET ROLE a");
    let block = client.reserve("orders", 100).expect("a block");
    let give_back = format!(
        "SELECT leaf_segment_return('orders', int8range({}, {}, '[]'))::int::bigint",
        block.first + 10,
        block.last
    );
    client.run("DISCARD ALL");
    client.run("SET ROLE b");
    assert_eq!(client.number(&give_back), 0);
    client.run("SET ROLE a");
    assert_eq!(client.number(&give_back), 1);
    assert_eq!(client.next("orders").expect("an id"), block.first + 10);
}
