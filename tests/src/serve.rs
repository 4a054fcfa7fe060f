//! `leafctl serve`: ids over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::config::Config;

use crate::leafctl::leafctl;
use crate::process::signal;
use crate::{Server, Signal, wait_until};

/// How long a client waits for an answer: longer than any healthy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `leafctl serve`; ended without grace when it is dropped.
pub struct Serve {
    child: Child,
    address: SocketAddr,
    log: Arc<Mutex<String>>,
    agent: Agent,
}

/// What was answered.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: String,
}

impl Answered {
    /// A header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("text"))
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the code of a problem, which is one line of JSON with a message and a hint.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        let problem = self.json();
        assert_eq!(self.body.matches('\n').count(), 1, "{}", self.body);
        let texts = ["message", "hint"].map(|text| problem[text].is_string());
        assert_eq!(texts, [true, true], "{}", self.body);
        let code = problem["code"].as_str().expect("a code");
        (self.status, code.to_owned())
    }

    /// The ids of `/v1/segment` or `/v1/snowflake`.
    pub fn ids(&self) -> Vec<i64> {
        assert_eq!(self.status, 200, "{}", self.body);
        let json = self.json();
        let ids = json["ids"].as_array().expect("ids").iter();
        ids.map(|id| id.as_str().expect("a string").parse().expect("an id"))
            .collect()
    }
}

impl Serve {
    /// Serves the database `postgres` of a server as the superuser, on a free port.
    pub fn start(server: &Server, options: &[&str]) -> Serve {
        Serve::launch(&mut Serve::command(&server.connection_string(), options))
    }

    /// The same for a connection string, and an address that an option names.
    pub fn command(connection: &str, options: &[&str]) -> Command {
        Serve::command_of(leafctl(), connection, options)
    }

    /// The same for a call of `leafctl`, which can be of another version.
    pub fn command_of(mut command: Command, connection: &str, options: &[&str]) -> Command {
        command.args(["serve", "-d", connection]).args(options);
        for (option, default) in [("--listen", "127.0.0.1:0"), ("--log-level", "debug")] {
            if !options.iter().any(|given| given.starts_with(option)) {
                command.args([option, default]);
            }
        }
        command
    }

    /// Starts a command and waits until it listens.
    pub fn launch(command: &mut Command) -> Serve {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("leafctl starts");
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, kept) = (
            BufReader::new(child.stderr.take().expect("a pipe")),
            log.clone(),
        );
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut log = kept.lock().expect("no panic");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut address = None;
        wait_until("leafctl listens", || {
            let log = log.lock().expect("no panic");
            address = log.lines().find_map(listens_on);
            let ended = child.try_wait().expect("its status");
            assert!(address.is_some() || ended.is_none(), "{log}");
            address.is_some()
        });
        let config = Config::builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE));
        let agent = config.build().new_agent();
        Serve {
            child,
            address: address.expect("an address"),
            log,
            agent,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("no panic").clone()
    }

    /// `GET`; panics if nothing is answered.
    pub fn get(&self, path: &str) -> Answered {
        self.try_get(path)
            .unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.log()))
    }

    /// `GET`; fails if nothing is answered.
    pub fn try_get(&self, path: &str) -> Result<Answered, ureq::Error> {
        self.get_with(path, &[])
    }

    /// `GET` with headers; fails if nothing is answered.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Answered, ureq::Error> {
        let request = self.agent.get(self.url(path));
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        read(request.call()?)
    }

    /// `POST` of a form.
    pub fn post(&self, path: &str, form: &str) -> Answered {
        let request = self.agent.post(self.url(path));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        read(request.send(form).expect("an answer")).expect("an answer")
    }

    /// Ids of a tag.
    pub fn ids(&self, tag: &str, count: usize) -> Vec<i64> {
        self.get(&format!("/v1/segment/{tag}?count={count}")).ids()
    }

    /// Sends bytes and reads all that is answered until the connection is closed.
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut answer = Vec::new();
        if stream.write_all(bytes).is_ok() {
            let _ = stream.read_to_end(&mut answer);
        }
        answer
    }

    /// Waits until it is ready.
    pub fn wait_ready(&self) {
        wait_until("leafctl is ready", || self.get("/readyz").status == 200);
    }

    /// Its resident memory in bytes.
    pub fn resident(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        let kilobytes = line.split_whitespace().next().expect("a number");
        kilobytes.parse::<u64>().expect("a number") * 1024
    }

    /// A number of `/metrics`; `name` includes the labels. 0 if it is not there.
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = self.get("/metrics").body;
        let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        metrics.lines().find_map(of).unwrap_or_default()
    }

    /// Sends it a signal.
    pub fn signal(&self, which: Signal) {
        signal(self.pid(), which);
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    /// Waits until it has ended; its log, too.
    pub fn ended(mut self) -> (ExitStatus, String) {
        wait_until("leafctl has ended", || !self.is_running());
        let status = self.child.wait().expect("its status");
        (status, self.log())
    }

    /// Stops it as systemd does.
    pub fn stop(self) {
        self.signal(Signal::SIGTERM);
        let (status, log) = self.ended();
        assert!(status.success(), "{status}\n{log}");
    }

    /// Kills it.
    pub fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.ended();
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- leafctl's log\n{}", self.log());
        }
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answered, ureq::Error> {
    Ok(Answered {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.body_mut().read_to_string()?,
    })
}

/// The address in the line that says where it listens.
fn listens_on(line: &str) -> Option<SocketAddr> {
    let rest = match line.split_once("\"address\":\"") {
        Some((_, rest)) if line.contains("listening") => rest,
        _ => line.split_once("listening address=")?.1,
    };
    rest.split(['"', ' ']).next()?.parse().ok()
}
