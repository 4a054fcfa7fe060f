//! Several nodes draw at the same time.

use super::{Drawn, Stripe, node};
use leaf_tests::{Server, wait_until};

#[test]
fn node_is_added_while_the_others_draw() {
    let (here, there) = (Server::start(), Server::options().fresh().start());
    let nodes = [(&here, "n0"), (&here, "n1"), (&there, "n2")];
    for (number, (server, name)) in nodes.iter().enumerate() {
        Stripe::of(16, number as i64).create(&mut node(server, name), "");
    }
    let drawn = Drawn::default();
    let far = |name: &str, id: i64| {
        wait_until("a node has drawn", || drawn.highest(name) > id);
    };
    drawn.draw_of(&nodes, || {
        for (_, name) in nodes {
            far(name, 5_000);
        }
        Stripe::of(16, 3).create(&mut node(&there, "n3"), "");
        drawn.draw_of(&[(&there, "n3")], || {
            let before = nodes.map(|(_, name)| drawn.highest(name));
            far("n3", 20_000);
            for ((_, name), before) in nodes.iter().zip(before) {
                far(name, before + 5_000);
            }
        });
    });
    let ids = drawn.0.into_inner().expect("no panic");
    for (number, name) in ["n0", "n1", "n2", "n3"].into_iter().enumerate() {
        let stripe = Stripe::of(16, number as i64);
        let mut of_node = ids.iter().filter(|(_, of)| of.as_str() == name);
        assert!(of_node.all(|(&id, _)| stripe.has(id)), "{name}");
    }
}
