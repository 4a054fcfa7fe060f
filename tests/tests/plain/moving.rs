//! From one edition to the other: by a dump of the rows, and by logical replication.

use std::path::Path;
use std::process::Command;

use leaf_sdk::{Config, IdSource, Leaf};
use leaf_tests::page::Page;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Said, Server, Snowflake, failed, wait_until};

/// A server of each edition, the first of which is the source.
fn pairs() -> [[Server; 2]; 2] {
    let of = |is_plain: bool| {
        let options = Server::options().set("wal_level", "logical");
        match is_plain {
            true => options.plain().start(),
            false => options.start(),
        }
    };
    [[of(true), of(false)], [of(false), of(true)]]
}

/// What was drawn, and what the target must keep.
struct Source {
    leaf: Leaf,
    ids: Ledger,
    worker_id: i32,
    mask: String,
}

const MASK: &str = "SELECT encode(key, 'hex') FROM leaf_mask_key('orders')";

impl Source {
    /// Services that draw from it.
    fn begin(server: &Server, client: &mut Client) -> Source {
        client.run("SELECT leaf_tag_create('orders', step => 100)");
        let config = Config::new(&server.connection_string()).expect("a connection string");
        let mut source = Source {
            leaf: Leaf::new(config).expect("a handle"),
            ids: Ledger::new(),
            worker_id: client.register("'node'").expect("a lease").worker_id,
            mask: client.text(MASK),
        };
        source.draw(150);
        let blocks = (0..3).map(|_| client.reserve("orders", 70).expect("a block"));
        source.ids.add(blocks.flat_map(|block| block.ids()));
        source
    }

    /// What services have in their buffers is theirs.
    fn draw(&mut self, count: usize) {
        let orders = self.leaf.segment("orders");
        self.ids
            .add((0..count).map(|_| orders.next().expect("an id").get()));
    }

    /// The target goes on where the source has ended, and services with what they have.
    fn goes_on_at(mut self, target: &mut Client) {
        let highest = self.ids.highest();
        for _ in 0..3 {
            let block = target.reserve("orders", 50).expect("a block");
            assert!(block.first > highest);
            self.ids.add(block.ids());
        }
        self.draw(20);
        assert_eq!(target.text(MASK), self.mask);
        let lease = target.register("'another node'").expect("a lease");
        assert_ne!(lease.worker_id, self.worker_id);
    }
}

fn is_plain(client: &mut Client) -> bool {
    client.number("SELECT count(*) FROM pg_proc WHERE proname = 'leaf_new_history'") > 0
}

/// The code of the block of docs/managed-hosts.md with this text.
fn block(text: &str) -> String {
    let page = Page::read("docs/managed-hosts.md");
    let block = page.blocks.into_iter().find(|it| it.code.contains(text));
    block.expect("a block").code
}

/// Runs lines of the page.
fn run_as_the_page_says(lines: &str, source: &Server, target: &Server) {
    let psql = source.program("psql");
    let programs = Path::new(psql.get_program()).parent().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let said = Said::by(
        Command::new("bash")
            .args(["-euc", lines])
            .current_dir(&folder)
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("SOURCE", source.connection_string())
            .env("TARGET", target.connection_string()),
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// What closes a plain source, and what copies the rows.
fn closing_and_copying() -> (String, String) {
    let code = block("leaf-rows.sql");
    let (closing, copying) = code.split_at(code.find("pg_dump").expect("a dump"));
    (closing.to_owned(), copying.to_owned())
}

#[test]
fn dumped_rows_go_on_in_the_other_edition() {
    for [source, target] in pairs() {
        let mut client = source.connect();
        let mut begun = Source::begin(&source, &mut client);
        if is_plain(&mut client) {
            // A block that only the sequence knows.
            client.run("BEGIN");
            begun
                .ids
                .add(client.reserve("orders", 500).expect("a block").ids());
            client.run("ROLLBACK; SET synchronous_commit = off; BEGIN; SELECT leaf.fold()");
            // What leaves the source must not be more than it has after a crash.
            assert_eq!(client.text("SHOW synchronous_commit"), "on");
            client.run("ROLLBACK");
        }
        client.run("CREATE TABLE own (id bigint PRIMARY KEY); INSERT INTO own VALUES (7)");
        // Also of a tag that is as its sequence is.
        client.run("SELECT leaf_tag_create('parcels')");
        client.reserve("parcels", 10).expect("a block");
        let late = [
            "SELECT leaf_segment_reserve('parcels', 1)",
            "SELECT * FROM leaf_worker_register('late')",
            "SELECT r.* FROM leaf.worker AS w, leaf_worker_renew(w.worker_id, w.nonce, w.token) AS r",
        ];
        let mut of_before = [(); 4].map(|()| source.connect());
        for client in &mut of_before {
            client.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
        }
        let mut moved = target.connect();
        let (closing, copying) = closing_and_copying();
        if is_plain(&mut client) {
            run_as_the_page_says(&closing, &source, &target);
        }
        for lines in [copying, block("own.dump")] {
            run_as_the_page_says(&lines, &source, &target);
        }
        assert_eq!(moved.number("SELECT id FROM own"), 7);
        if is_plain(&mut client) {
            for (call, of_before) in late.iter().zip(&mut of_before) {
                failed(client.simple_query(call), "55000");
                failed(of_before.simple_query(call), "40001");
            }
            let create = "SELECT leaf_tag_create('late')";
            failed(of_before[3].simple_query(create), "40001");
        }
        begun.goes_on_at(&mut moved);
    }
}

#[test]
fn subscriber_of_the_other_edition_takes_over() {
    for [source, target] in pairs() {
        let (mut client, mut subscriber) = (source.connect(), target.connect());
        let mut begun = Source::begin(&source, &mut client);
        client
            .run("CREATE PUBLICATION all_ids FOR TABLE leaf.alloc, leaf.worker, leaf.mask_secret");
        // The copy of the tags fails while there is one of the name.
        subscriber.run("SELECT leaf_tag_create('orders')");
        subscriber.run(&format!(
            "CREATE SUBSCRIPTION all_ids CONNECTION '{}' PUBLICATION all_ids",
            source.connection_string()
        ));
        begun.draw(300);
        let last = client.reserve("orders", 10).expect("a block");
        begun.ids.add(last.ids());
        let not_copied = format!(
            "SELECT coalesce(string_agg(c.srrelid::text, ' '), 'none') FROM ({}) AS c",
            block("srsubstate").trim_end_matches([';', '\n'])
        );
        wait_until("the other tables are copied", || {
            subscriber.text(&not_copied) == "leaf.alloc"
        });
        subscriber.run("SELECT leaf_tag_drop('orders')");
        wait_until("all tables are copied", || {
            subscriber.text(&not_copied) == "none"
        });
        if is_plain(&mut client) {
            run_as_the_page_says(&closing_and_copying().0, &source, &target);
        }
        let has_all = format!(
            "SELECT count(*) FROM leaf.alloc WHERE max_id > {}",
            last.last
        );
        wait_until("the subscriber has all", || {
            subscriber.number(&has_all) == 1
        });
        subscriber.run("DROP SUBSCRIPTION all_ids");
        if is_plain(&mut subscriber) {
            subscriber.run("SELECT leaf_new_history()");
        }
        begun.goes_on_at(&mut subscriber);
    }
}
