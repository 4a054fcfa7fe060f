//! A private PostgreSQL server.

mod loader;
mod options;

pub use loader::{slow_grants, wait_for_caller, waiting_callers, waiting_loaders};
pub use options::Options;

use crate::account::{command, give, run};
use crate::process::{Paused, alive, children, signal};
use crate::{Clock, Disk, Draw, Installation, cluster, edition, port, preload, wait_until};
use nix::sys::signal::Signal;
use postgres::{Client, Config, NoTls};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Waits for the sessions to end.
    Smart,
    /// Ends the sessions; a clean shutdown.
    Fast,
    /// Ends everything at once; the next start recovers.
    Immediate,
}

/// A running server. Dropped, it is stopped and its folder removed; if the test
/// failed, the end of its log is printed first, and with `LEAF_TEST_KEEP` set the
/// folder is kept, with its data and log.
pub struct Server {
    bindir: PathBuf,
    folder: TempDir,
    socket: TempDir,
    port: u16,
    clock: Option<Clock>,
    disk: Option<Disk>,
    resolver: Option<PathBuf>,
    postmaster: Option<Child>,
}

impl Server {
    /// A copy of the data of this server, file by file; to be started by the caller.
    pub fn copy(&self) -> Server {
        let copy = Server::prepare(&self.bindir, |data| {
            // A file that goes away while it is copied is none that matters.
            let _ = Command::new("cp")
                .arg("-a")
                .arg(self.data())
                .arg(data)
                .output()
                .expect("cp");
        });
        // If the original runs, so would the copy, as far as its lock file says.
        let _ = fs::remove_file(copy.data().join("postmaster.pid"));
        copy
    }

    /// A server whose data folder `fill` makes; to be started by the caller.
    pub fn filled(&self, fill: impl FnOnce(&Path)) -> Server {
        Server::prepare(&self.bindir, fill)
    }

    /// Brings a copy the write-ahead log that was written since it was made.
    pub fn copy_wal_to(&self, copy: &Server) {
        run(Command::new("cp")
            .arg("-a")
            .arg(self.data().join("pg_wal"))
            .arg(copy.data()));
    }

    /// A server that can be configured before it starts.
    pub fn options() -> Options {
        Options {
            settings: String::new(),
            fresh: false,
            old: false,
            bindir: None,
            bare: false,
            plain: edition::is_plain(),
            settings_of_plain: Vec::new(),
            clock: false,
            disk: false,
            black_hole: false,
            tls: None,
        }
    }

    /// A server with leaf and nothing special.
    pub fn start() -> Server {
        Server::options().start()
    }

    /// A server with the tag `orders` of this step, and a session of the superuser.
    pub fn with_orders(step: u32) -> (Server, Client) {
        Server::options().start_with_orders(step)
    }

    fn prepare(bindir: &Path, fill: impl FnOnce(&Path)) -> Server {
        let temporary = |folder: &Path| {
            let made = tempfile::Builder::new()
                .prefix("leaf-")
                .tempdir_in(folder)
                .expect("a folder for a server");
            give(made.path());
            made
        };
        let server = Server {
            bindir: bindir.to_owned(),
            folder: temporary(&cluster::home()),
            // The path of a unix socket must be short.
            socket: temporary(Path::new("/tmp")),
            port: 5432,
            clock: None,
            disk: None,
            resolver: None,
            postmaster: None,
        };
        fill(&server.data());
        server.configure(&format!(
            "unix_socket_directories = '{}'\n",
            server.socket.path().display()
        ));
        server
    }

    /// The first start, with what the options say.
    fn come_up(&mut self, options: &Options) {
        self.configure(&options.settings);
        if let Some(tls) = &options.tls {
            self.port = port::free();
            self.write("server.crt", tls.certificate.as_bytes());
            self.write("server.key", tls.key.as_bytes());
            self.configure(&format!(
                "ssl = on\nlisten_addresses = '127.0.0.1'\nport = {}\n",
                self.port
            ));
        }
        self.clock = options.clock.then(|| Clock::new(self.folder.path()));
        self.disk = options.disk.then(|| Disk::new(self.folder.path()));
        self.resolver = options.black_hole.then(|| {
            preload::compile(
                self.folder.path(),
                "resolver",
                include_str!("../resolver.c"),
            )
        });
        self.start_again();
    }

    /// The clock of a server whose options ask for one; over restarts too.
    pub fn clock(&self) -> &Clock {
        self.clock.as_ref().expect("Options::clock was called")
    }

    /// The port it listens on; of a unix socket unless the options ask for TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The disk of a server whose options ask for one; over restarts too.
    pub fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("Options::disk was called")
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Appends to `postgresql.conf`; takes effect at the next start or
    /// [`reload`](Server::reload).
    pub fn configure(&self, settings: &str) {
        OpenOptions::new()
            .append(true)
            .open(self.data().join("postgresql.conf"))
            .and_then(|mut file| file.write_all(settings.as_bytes()))
            .expect("postgresql.conf");
    }

    /// Removes the lines of a setting from `postgresql.conf`.
    pub fn unconfigure(&self, name: &str) {
        let path = self.data().join("postgresql.conf");
        let settings = fs::read_to_string(&path).expect("postgresql.conf");
        let lines = settings.lines().filter(|line| !line.starts_with(name));
        let settings: String = lines.map(|line| format!("{line}\n")).collect();
        fs::write(&path, settings).expect("postgresql.conf");
    }

    /// Changes settings of the running server with `ALTER SYSTEM` and waits until
    /// sessions see them, those that are open, too. A worker can still be at work with the
    /// old ones.
    pub fn reload(&self, name: &str, value: &str) {
        let mut client = self.connect();
        if let Some(set) = edition::set_plain(name, value).filter(|_| edition::is_plain()) {
            return client.run(&set);
        }
        let loaded = "SELECT pg_conf_load_time()::text";
        let before = client.text(loaded);
        client.run(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        client.run("SELECT pg_reload_conf()");
        // The postmaster reloads them and signals all its children before it starts a session
        // that has them; `client` could have its signal before the others.
        wait_until("the settings are reloaded", || {
            self.connect().text(loaded) != before
        });
        if name == "synchronous_standby_names" {
            // Commits wait once the checkpointer has seen it, which it looks for before a checkpoint.
            client.run("CHECKPOINT");
        }
    }

    /// Starts a server that was stopped and waits until it accepts sessions.
    pub fn start_again(&mut self) {
        assert!(self.postmaster.is_none(), "the server runs");
        self.launch();
        self.wait_ready();
    }

    /// Starts a server that was stopped; it may fail to come up.
    pub fn launch(&mut self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .expect("a log file");
        let mut command = command(&self.bindir.join("postgres"));
        if let Some(clock) = &self.clock {
            clock.drive(&mut command);
        }
        if let Some(resolver) = &self.resolver {
            command.env("LD_PRELOAD", resolver);
        }
        if let Some(disk) = &self.disk {
            assert!(self.clock.is_none(), "one library before all others");
            disk.drive(&mut command);
        }
        let child = command
            .arg("-D")
            .arg(self.data())
            // Ctrl-C at the terminal must not shut servers down behind the tests' back.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("postgres starts");
        self.postmaster = Some(child);
    }

    /// Waits until the server accepts sessions, for instance after a crash.
    pub fn wait_ready(&mut self) {
        let config = self.config("postgres", "postgres");
        let postmaster = self.postmaster.as_mut().expect("the server was started");
        let mut exited = None;
        wait_until("the server accepts sessions", || {
            exited = postmaster.try_wait().expect("wait");
            exited.is_some() || config.connect(NoTls).is_ok()
        });
        if let Some(status) = exited {
            panic!("the server did not start: {status}");
        }
    }

    /// Waits until the server accepts sessions; starts it if it has gone down.
    pub fn wait_up(&mut self) {
        let config = self.config("postgres", "postgres");
        wait_until("the server accepts sessions", || {
            let postmaster = self.postmaster.as_mut().expect("the server was started");
            if postmaster.try_wait().expect("wait").is_some() {
                self.launch();
            }
            config.connect(NoTls).is_ok()
        });
    }

    /// Stops the server and waits for its end.
    pub fn stop(&mut self, mode: Mode) {
        signal(
            self.postmaster_pid(),
            match mode {
                Mode::Smart => Signal::SIGTERM,
                Mode::Fast => Signal::SIGINT,
                Mode::Immediate => Signal::SIGQUIT,
            },
        );
        self.reap();
    }

    /// Stops the server and starts it with another installation.
    pub fn restart_with(&mut self, installation: &Installation) {
        self.stop(Mode::Fast);
        self.bindir = installation.bindir().to_owned();
        self.start_again();
    }

    /// Stops and starts.
    pub fn restart(&mut self, mode: Mode) {
        self.stop(mode);
        self.start_again();
    }

    /// Kills the postmaster without a chance to clean up, and waits until its
    /// children have noticed.
    pub fn kill_postmaster(&mut self) {
        let orphans = children(self.postmaster_pid());
        signal(self.postmaster_pid(), Signal::SIGKILL);
        self.reap();
        wait_until("the killed postmaster's children are gone", || {
            !orphans.iter().any(|&pid| alive(pid))
        });
    }

    fn reap(&mut self) {
        let mut child = self.postmaster.take().expect("the server runs");
        wait_until("the postmaster is gone", || {
            child.try_wait().expect("wait").is_some()
        });
    }

    /// The postmaster's process.
    pub fn postmaster_pid(&self) -> i32 {
        self.postmaster.as_ref().expect("the server runs").id() as i32
    }

    /// The postmaster and its children.
    pub fn processes(&self) -> Vec<i32> {
        let postmaster = self.postmaster_pid();
        let mut all = children(postmaster);
        all.push(postmaster);
        all
    }

    /// Stops (`SIGSTOP`) all processes, so that the server answers nothing, until the result is
    /// dropped.
    pub fn pause(&self) -> Paused {
        Paused::all(self.processes())
    }

    /// Whether a process of this server has a title with this text.
    pub fn has_process(&self, title: &str) -> bool {
        self.processes().into_iter().any(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(title)
        })
    }

    /// How to connect as `user` to `database`.
    pub fn config(&self, user: &str, database: &str) -> Config {
        let mut config = Config::new();
        config
            .host_path(self.socket.path())
            .port(self.port)
            .user(user)
            .dbname(database)
            .connect_timeout(Duration::from_secs(60));
        config
    }

    /// The same for the superuser and the database `postgres`, as text.
    pub fn connection_string(&self) -> String {
        format!(
            "host={} port={} user=postgres dbname=postgres",
            self.host(),
            self.port
        )
    }

    /// A session of the superuser in the database `postgres`.
    pub fn connect(&self) -> Client {
        self.connect_as("postgres", "postgres")
    }

    /// A session of `user` in `database`.
    pub fn connect_as(&self, user: &str, database: &str) -> Client {
        self.config(user, database)
            .connect(NoTls)
            .unwrap_or_else(|e| panic!("{user}@{database}: {e:?}\n{}", self.log()))
    }

    /// The folder of its unix socket, as a host to connect to.
    pub fn host(&self) -> String {
        self.socket.path().display().to_string()
    }

    /// A client program of the server, told where to connect.
    pub fn program(&self, name: &str) -> Command {
        let mut command = command(&self.bindir.join(name));
        command.arg("-h").arg(self.socket.path());
        command.arg("-p").arg(self.port.to_string());
        command.args(["-U", "postgres"]);
        command
    }

    /// Runs one statement in single-user mode, in the database `postgres` of a
    /// stopped server; returns what that prints.
    pub fn single_user(&self, statement: &str) -> String {
        assert!(self.postmaster.is_none(), "the server runs");
        let mut child = command(&self.bindir.join("postgres"))
            .arg("--single")
            .arg("-D")
            .arg(self.data())
            .arg("postgres")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("postgres starts");
        let mut input = child.stdin.take().expect("a pipe");
        writeln!(input, "{statement}").expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        format!("{}{errors}", String::from_utf8_lossy(&output.stdout))
    }

    /// Fills this new, stopped server with all that `old`, stopped too, has.
    pub fn upgrade_from(&self, old: &Server) {
        assert!(self.postmaster.is_none() && old.postmaster.is_none());
        let mut upgrade = command(&self.bindir.join("pg_upgrade"));
        upgrade
            .current_dir(self.folder.path())
            .arg("--old-bindir")
            .arg(&old.bindir)
            .arg("--new-bindir")
            .arg(&self.bindir)
            .arg("--old-datadir")
            .arg(old.data())
            .arg("--new-datadir")
            .arg(self.data())
            .arg("--socketdir")
            .arg(self.socket.path())
            .args(["--username", "postgres"]);
        let output = upgrade.output().expect("pg_upgrade");
        if output.status.success() {
            return;
        }
        // Its output names the log that says what went wrong.
        let logs = Command::new("sh")
            .args(["-c", "tail -n 30 \"$0\"/pg_upgrade_output.d/*/log/*"])
            .arg(self.data())
            .output()
            .expect("sh");
        panic!(
            "{}{}",
            String::from_utf8_lossy(&logs.stdout),
            String::from_utf8_lossy(&output.stdout),
        );
    }

    /// Makes this server, which is stopped, what `source` is, which runs; its settings stay.
    pub fn rewind_to(&self, source: &Server) {
        let settings = fs::read(self.data().join("postgresql.conf")).expect("postgresql.conf");
        let mut rewind = command(&self.bindir.join("pg_rewind"));
        rewind.args(["--no-sync", "--source-server", &source.connection_string()]);
        let rewound = rewind.arg("--target-pgdata").arg(self.data()).output();
        let rewound = rewound.expect("pg_rewind");
        let said = String::from_utf8_lossy(&rewound.stderr);
        // A server that ends before the histories part has nothing to rewind; only a
        // pg_rewind with assertions minds, before it has changed anything.
        let is_behind = said.contains("Assertion `target_wal_endrec == divergerec' failed");
        assert!(rewound.status.success() || is_behind, "{said}");
        self.write("postgresql.conf", &settings);
        self.write("postgresql.auto.conf", b"");
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The server's log.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Writes a file of the data folder, as the server would.
    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.data().join(name);
        File::create(&path)
            .and_then(|mut file| file.write_all(content))
            .expect("a file of the data folder");
        give(&path);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!("--- end of the server's log\n{end}\n---");
            if std::env::var_os("LEAF_TEST_KEEP").is_some() {
                self.folder.disable_cleanup(true);
                eprintln!("kept: {}", self.folder.path().display());
            }
        }
        let Some(mut child) = self.postmaster.take() else {
            return;
        };
        // An immediate stop: the postmaster kills children that do not follow it.
        signal(child.id() as i32, Signal::SIGQUIT);
        for _ in 0..2_000 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
