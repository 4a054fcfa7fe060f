//! Single-user mode, in which there is no loader.

use leaf_tests::{Draw, Mode, Server, draw_many, refused};

#[test]
fn single_user_mode_draws_nothing_and_changes_rows() {
    let (mut server, mut client) = Server::with_orders(10);
    client.run("SELECT leaf_tag_create('other')");
    draw_many(&mut client, "orders", 100);
    drop(client);
    server.stop(Mode::Fast);
    let draws = [
        "leaf_segment_next('orders')",
        "leaf_segment_batch('orders', 5)",
        "leaf_segment_reserve('orders', 5)",
        "leaf_snowflake_next()",
        "leaf_worker_register('node')",
    ];
    let refusals = draws.map(|draw| {
        format!(
            "DO $$ BEGIN PERFORM FROM {draw}; EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE WARNING 'refused: %', SQLERRM; END $$\n"
        )
    });
    let output = server.single_user(&format!(
        "{}UPDATE leaf.alloc SET max_id = 5000000 WHERE biz_tag = 'orders'\n\
         DELETE FROM leaf.alloc WHERE biz_tag = 'other'",
        refusals.concat()
    ));
    let refusal = "refused: cannot draw ids in single-user mode";
    assert_eq!(output.matches(refusal).count(), draws.len(), "{output}");
    server.start_again();
    let mut client = server.connect();
    assert_eq!(client.next("orders").expect("an id"), 5_000_000);
    refused(client.next("other"), "42704");
}
