//! Two instances behind nginx, with the manual's block: no request is lost while both restart.

use std::fs;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use leaf_tests::page::Page;
use leaf_tests::{Draw, Ledger, Serve, Server, Stop, reserved_port, wait_until};
use tempfile::TempDir;
use ureq::Agent;

/// nginx; dropped, it is ended.
struct Nginx {
    child: Child,
    folder: TempDir,
}

impl Nginx {
    /// Starts it with the manual's block, which listens on `port` and knows these instances.
    fn start(port: u16, instances: [u16; 2]) -> Nginx {
        let page = Page::read("docs/serve.md");
        let blocks = page.code_tested_by("restarts_behind_nginx_lose_no_request");
        let [first, second] = instances.map(|port| format!("127.0.0.1:{port}"));
        let block = blocks[0]
            .replace("10.0.0.1:8080", &first)
            .replace("10.0.0.2:8080", &second)
            .replace("listen 443 ssl;", &format!("listen 127.0.0.1:{port};"));
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {at}/{name};\n"))
            .concat();
        let settings = format!(
            "daemon off;\npid {at}/pid;\nerror_log {at}/log;\nevents {{}}\n\
             http {{\naccess_log off;\n{paths}{block}\n}}\n"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, settings).expect("a file of settings");
        let child = Command::new("/usr/sbin/nginx")
            .arg("-c")
            .arg(&file)
            .spawn()
            .expect("nginx starts; `make setup` installs it");
        Nginx { child, folder }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        leaf_tests::signal(self.child.id() as i32, leaf_tests::Signal::SIGTERM);
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log"));
            eprintln!("--- nginx's log\n{}", log.unwrap_or_default());
        }
    }
}

fn instance(server: &Server, port: u16) -> Serve {
    let listen = format!("--listen=127.0.0.1:{port}");
    let serve = Serve::start(server, &[&listen, "--tag", "orders"]);
    serve.wait_ready();
    serve
}

#[test]
fn restarts_behind_nginx_lose_no_request() {
    let server = Server::start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    let ports = [reserved_port(), reserved_port()];
    let port = reserved_port();
    let mut instances = ports.map(|port| instance(&server, port));
    let _nginx = Nginx::start(port, ports);
    let url = format!("http://127.0.0.1:{port}/v1/segment/orders");
    // A request that draws, too, but that no proxy repeats unless it is told so.
    let form = format!("http://127.0.0.1:{port}/tinyid/id/nextIdSimple");
    wait_until("nginx listens", || ureq::get(&url).call().is_ok());
    // The instances listen on loopback addresses, where it needs no token.
    let forget = ureq::post(format!("http://127.0.0.1:{port}/v1/forget")).send_empty();
    assert!(matches!(forget, Err(ureq::Error::StatusCode(403))));

    let (done, answered, ledger) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        Mutex::new(Ledger::new()),
    );
    let _instances = thread::scope(|scope| {
        let (done, answered, ledger, url, form) = (&done, &answered, &ledger, &url, &form);
        for caller in 0..8 {
            scope.spawn(move || {
                let agent = Agent::new_with_defaults();
                while !done.load(Ordering::Relaxed) {
                    let answer = match caller % 2 {
                        0 => agent.get(url).call(),
                        _ => agent.post(form).send_form([("bizType", "orders")]),
                    };
                    let mut answer = answer.expect("an answer of 200");
                    let body = answer.body_mut().read_to_string().expect("a body");
                    let id = body.trim_matches(|c: char| !c.is_ascii_digit());
                    ledger
                        .lock()
                        .expect("no panic")
                        .add([id.parse().expect("an id")]);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(done);
        let some_more = || {
            let now = answered.load(Ordering::Relaxed);
            wait_until("requests are answered", || {
                answered.load(Ordering::Relaxed) > now + 500
            });
        };
        for _ in 0..2 {
            instances = instances.map(|serve| {
                some_more();
                let port = serve.address().port();
                serve.stop();
                some_more();
                instance(&server, port)
            });
        }
        some_more();
        // They serve until the last request is answered.
        instances
    });
}
