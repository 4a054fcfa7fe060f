//! The services of `examples/` do what they say, as processes of their own.

use leaf_tests::{Server, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program of `examples/`.
fn example(name: &str) -> Command {
    let folder =
        std::env::var_os("LEAF_EXAMPLES").expect("LEAF_EXAMPLES; scripts/test-server sets it");
    Command::new(PathBuf::from(folder).join(name))
}

/// A web service, ended without a chance to clean up if a test fails.
struct Web {
    process: Child,
    address: String,
}

impl Web {
    /// Starts it; it says where it listens.
    fn start(command: &mut Command) -> Web {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = process.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect(&line);
        Web {
            address: address.to_owned(),
            process,
        }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let request = agent.new_agent().post(format!("{}{path}", self.address));
        let mut answer = request.send_json(body).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or_default(),
        )
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let request = agent.new_agent().get(format!("{}{path}", self.address));
        let mut answer = request.call().expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or_default(),
        )
    }

    /// Ends it as Ctrl-C does.
    fn terminate(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.process.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        wait_until("the service ends", || {
            let ended = self.process.try_wait().expect("its status");
            ended.is_some_and(|status| {
                assert!(status.success(), "{status}");
                true
            })
        });
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_axum_service_takes_orders_and_gives_unused_ids_back() {
    let server = Server::start();
    let host = server.host().replace('/', "%2F");
    let database = format!("postgresql://postgres@{host}:{}/postgres", server.port());
    let mut command = example("leaf-example-axum");
    command
        .env("DATABASE_URL", database)
        .env("LISTEN", "127.0.0.1:0");
    let mut web = Web::start(&mut command);

    let order = json!({ "items": ["tea", "cups"] });
    let (status, created) = web.post("/orders", &order);
    assert_eq!((status, &created), (201, &json!({ "id": "1" })));
    assert_eq!(web.post("/orders", &order).1, json!({ "id": "2" }));
    let (status, found) = web.get("/orders/2");
    assert_eq!((status, &found["id"]), (200, &json!("2")));
    let items: Vec<_> = found["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| &line["item"])
        .collect();
    assert_eq!(items, ["tea", "cups"]);
    let line = found["lines"][0]["id"].as_str().expect("a string");
    assert!(line.parse::<i64>().expect("an id") > 1 << 53, "{line}");
    assert_eq!(web.get("/orders/3").0, 404);

    web.terminate();
    let next: i64 = server
        .connect()
        .query_one("SELECT leaf_segment_next('orders')", &[])
        .expect("an id")
        .get(0);
    assert_eq!(next, 3);
}

#[test]
fn the_importer_loads_batches_and_names_the_line_that_it_cannot_read() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("orders.csv");
    let rows: String = (0..25)
        .map(|n| format!("\"customer, {n}\",tea;cups\n"))
        .collect();
    let import = |text: &str| {
        fs::write(&file, text).expect("a file");
        let mut command = example("leaf-example-importer");
        command
            .env("DATABASE", server.connection_string())
            .args(["--batch", "10"])
            .arg(&file);
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (succeeded, said, errors) = import(&format!("customer,items\n{rows}"));
    assert!(succeeded, "{errors}");
    assert!(said.ends_with("25 orders imported\n"), "{said}");
    let mut client = server.connect();
    let mut count = |query: &str| {
        client
            .query_one(query, &[])
            .expect("a number")
            .get::<_, i64>(0)
    };
    let joined = "SELECT count(*) FROM imported_orders JOIN imported_items ON order_id = id";
    assert_eq!(count(joined), 50);
    assert_eq!(
        count("SELECT count(*) FROM imported_orders WHERE customer = 'customer, 7'"),
        1
    );

    // The batch before the broken line is kept, that with it is not.
    let (succeeded, _, errors) = import(&format!("customer,items\n{rows}broken\n"));
    assert!(!succeeded && errors.contains("line: 27"), "{errors}");
    assert_eq!(count(joined), 50 + 40);
}
