//! A process that draws ids through the client library; see `bin/drawer.rs`.

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// A running service.
pub struct Service(Child);

impl Service {
    /// Starts what `command`, which names the program and its arguments, says.
    pub fn start(command: &mut Command) -> Service {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Service(child.expect("the service starts"))
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Ends it; the ids of each of its threads.
    pub fn end(mut self) -> Vec<Vec<i64>> {
        drop(self.0.stdin.take());
        let mut output = String::new();
        let mut stdout = self.0.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut output).expect("text");
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "a service failed");
        let numbers = |line: &str| {
            line.split(' ')
                .map(|id| id.parse().expect("an id"))
                .collect()
        };
        let lines = output.lines().filter(|line| !line.is_empty());
        lines.map(numbers).collect()
    }
}
