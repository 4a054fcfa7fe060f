//! The program `leafctl`.

use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::{Server, Terminal, installation};

/// A call of `leafctl`, without variables that would lead it to a server of the machine.
pub fn leafctl() -> Command {
    call(env::var_os("LEAF_CTL").expect("LEAF_CTL; scripts/test-server sets it"))
}

/// The same of an earlier version.
pub fn earlier_leafctl() -> Command {
    call(installation::earlier().join("leafctl"))
}

fn call(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("TZ", "UTC").env("HOME", "/nonexistent");
    command
}

/// The same, for the superuser and the database `postgres` of a server.
pub fn leafctl_on(server: &Server) -> Command {
    on(server, leafctl())
}

/// A call of `leafctl` for the superuser and the database `postgres` of a server.
pub fn on(server: &Server, mut command: Command) -> Command {
    command
        .env("PGHOST", server.host())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", "postgres");
    command
}

/// The same in a terminal of this size, with these arguments as a shell reads them.
pub fn leafctl_in_terminal(server: &Server, arguments: &str, width: u16, height: u16) -> Terminal {
    let program = env::var("LEAF_CTL").expect("LEAF_CTL; scripts/test-server sets it");
    let host = server.host();
    let variables = [
        ("PGHOST", host.as_str()),
        ("PGUSER", "postgres"),
        ("PGDATABASE", "postgres"),
        ("TZ", "UTC"),
    ];
    Terminal::start(&format!("{program} {arguments}"), &variables, width, height)
}

/// What a call has said.
#[derive(Clone, Debug)]
pub struct Said {
    /// The exit code; `None` if a signal has ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// What a call says, to which nobody says anything.
    pub fn by(command: &mut Command) -> Said {
        Said::by_with(command, "")
    }

    /// What a call says that reads this from standard input.
    pub fn by_with(command: &mut Command, input: impl AsRef<[u8]>) -> Said {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("leafctl starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.as_ref().to_owned();
        // A thread: the program may write before it has read everything.
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("the writer ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Said {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// What it has printed; panics if it has failed.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Its error, which is one line; panics if the exit code is another one.
    #[track_caller]
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        let lines = self.err.lines().count();
        assert_eq!(lines, 1, "an error is one line: {}", self.err);
        assert!(self.err.starts_with("leafctl: "), "{}", self.err);
        self.err
    }
}
