//! A second pair of servers, with stripes that nobody has had.

use super::{Numbers, manual, nodes, run};
use leaf_tests::{Draw, Server, draw_many};
use std::thread;

#[test]
fn second_pair_of_servers_gets_free_stripes_while_the_first_draws() {
    let (_, first): (_, [Server; 2]) = nodes(Numbers::Stripes, Server::options);
    let second = [(); 2].map(|()| Server::options().fresh().start());
    let blocks = manual("second_pair_of_servers_gets_free_stripes_while_the_first_draws");
    // More than a block of each stripe, and ids between.
    let draw = |server: &Server| {
        let mut client = server.connect();
        let mut drawn = Vec::new();
        for _ in 0..30 {
            let block = client.reserve("orders", 50_000).expect("a block");
            drawn.push((block.first, block.last));
            let ids = draw_many(&mut client, "orders", 100);
            drawn.extend(ids.into_iter().map(|id| (id, id)));
        }
        drawn
    };
    let mut drawn: Vec<_> = thread::scope(|scope| {
        let before = first.each_ref().map(|server| scope.spawn(|| draw(server)));
        for (server, block) in second.iter().zip(&blocks) {
            run(&mut server.connect(), block, &[]);
        }
        let after = second.each_ref().map(|server| scope.spawn(|| draw(server)));
        let all = before.into_iter().chain(after);
        all.flat_map(|it| it.join().expect("no panic")).collect()
    });
    drawn.sort_unstable();
    assert!(drawn.is_sorted_by(|one, next| one.1 < next.0), "{drawn:?}");
}
